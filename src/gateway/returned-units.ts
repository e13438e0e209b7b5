/** For policies that give units back, or refuse one request and not the next: loaded where there is one. */
import { RefusalLimiter } from '../engine/refusal-limiter.ts'
import type { Store } from '../model/store.ts'

export { holdUntilEnd } from '../http/hold-until-end.ts'

/** @param now milliseconds since the Unix epoch */
export function limitRefusals(store: Store, now: () => number): Store {
  return new RefusalLimiter(store, now)
}
