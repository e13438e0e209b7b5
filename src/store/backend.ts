import type { Store } from '../model/store.ts'
import type { StatisticsStore } from './counters.ts'
import type { DocumentStore } from './documents.ts'

/** Where limits, documents and counts live. Each kind of store has one; documents and counters are loaded when asked for. */
export interface Backend {
  readonly limits: Store
  /** @param key where the document is */
  documents(key: string): Promise<DocumentStore>
  counters(options: CountersOptions): Promise<StatisticsStore>
}

export interface CountersOptions {
  /** First part of every key. */
  readonly keyPrefix: string
  /** Deadline of a call, in milliseconds. */
  readonly timeoutMs: number
}
