import type { Backend } from '../backend.ts'
import { DurableObjectStore } from './durable-object-store.ts'
import { type ObjectNamespace, openObjects } from './objects.ts'

/** Everything in Durable Objects of one class. @param timeoutMs deadline of a decision, and of a call about a document */
export function openObjectBackend(namespace: ObjectNamespace, timeoutMs: number): Backend {
  return {
    limits: new DurableObjectStore({ objects: openObjects(namespace), timeoutMs }),
    async documents(key) {
      const { ObjectDocuments } = await import('./table-clients.ts')
      return new ObjectDocuments({ namespace, key, timeoutMs })
    },
    async counters(options) {
      const { ObjectCounters } = await import('./table-clients.ts')
      return new ObjectCounters({ namespace, ...options })
    },
  }
}
