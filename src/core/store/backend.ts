/** Everything that a kind of store opens: limits, documents and statistics. */
import type { Store } from '../model/store.ts'
import type { StatisticsStore } from './counters.ts'
import type { DocumentStore } from './documents.ts'

/** Each kind of store opens one. The code of documents and counters is loaded on demand. */
export interface Backend {
  readonly limits: Store
  documents(key: string): Promise<DocumentStore>
  /** The same in each of several databases, if there are several. */
  documentsOfEach?(key: string): Promise<readonly DocumentStore[]>
  /** @param options `timeoutMs` is the deadline of a call */
  counters(options: { readonly keyPrefix: string; readonly timeoutMs: number }): Promise<StatisticsStore>
}
