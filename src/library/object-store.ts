/** Counts in Durable Objects, for limiters and middleware in a Worker. */

import { OptionError } from '../core/options/option-error.ts'
import { readOptions, STORE_READERS } from '../core/options/readers.ts'
import { DurableObjectStore } from '../core/store/durable-object/durable-object-store.ts'
import { type ObjectNamespace, openObjects } from '../core/store/durable-object/objects.ts'
import type { LimiterStore } from './stores.ts'

export interface ObjectStoreOptions {
  /**
   * Deadline of a decision, in milliseconds: an integer from 1 to 60,000.
   * @default 500
   * @example 200
   */
  readonly timeoutMs?: number | undefined
}

/**
 * Counts in Durable Objects, one for each key, shared by all isolates of the Worker: policies of one request are decided
 * together. The Worker exports the class `LimitObject`, and the binding must be named `LIMITS`, since objects call each
 * other by it.
 * @example objectStore(env.LIMITS)
 * @throws {OptionError} for a wrong option, and for what is no binding of Durable Objects
 */
export function objectStore(namespace: ObjectNamespace, options: ObjectStoreOptions = {}): LimiterStore {
  const { timeoutMs } = readOptions('objectStore', options, STORE_READERS, 'objectStore')
  if (typeof namespace?.idFromName !== 'function') {
    throw new OptionError('objectStore', 'a binding of Durable Objects, such as env.LIMITS', typeof namespace)
  }
  const store = new DurableObjectStore({ objects: openObjects(namespace), timeoutMs })
  return { isRemote: true, counts: namespace, timeoutMs, open: () => store }
}
