import type { Store } from '../../src/core/model/store.ts'
import { sleep } from '../../src/core/runtime/sleep.ts'

/** A store under test, and its time. */
export interface Subject {
  readonly store: Store
  /** Lets exactly this much time go by. */
  advance(ms: number): Promise<void>
}

/** A store whose clock is this machine's; a wait begins after it was read. */
export function realTimeSubject(store: Store): Subject {
  return { store, advance: sleep }
}
