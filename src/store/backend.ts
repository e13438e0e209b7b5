import type { Store } from '../model/store.ts'
import type { Counters } from './counters.ts'
import type { Documents } from './documents.ts'

/** Where everything lives that isolates share. */
export interface Backend {
  readonly limits: Store
  /** @param key full name of the document */
  openDocuments(key: string): Promise<Documents>
  openCounters(): Promise<Counters>
}
