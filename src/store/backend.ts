import type { Store } from '../model/store.ts'
import type { Counters } from './counters.ts'
import type { Documents } from './documents.ts'

/** Where limits, documents and counts live. Each kind of store has one; documents and counters are loaded when asked for. */
export interface Backend {
  readonly limits: Store
  /** @param key where the document is */
  documents(key: string): Promise<Documents>
  counters(options: CountersOptions): Promise<Counters>
}

export interface CountersOptions {
  /** First part of every key. */
  readonly keyPrefix: string
  /** Deadline of a call, in milliseconds. */
  readonly timeoutMs: number
}
