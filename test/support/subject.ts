import { sleep } from '../../src/library/sleep.ts'
import type { Store } from '../../src/store/store.ts'

/** A store under test, and its time. */
export interface Subject {
  readonly store: Store
  /** Lets exactly this much time go by. */
  advance(ms: number): Promise<void>
}

/** Redis's clock is this machine's, and the wait begins after Redis has read it. */
export function redisSubject(store: Store): Subject {
  return { store, advance: sleep }
}
