/**
 * Remembers which identities an isolate knows, and which the store has refused as new. Only a look at the store tells what
 * any other one is, and this says when one is worth it: a flood of made-up identities must not cost one each. So an
 * identity is looked up at its first sight while few are, and beyond that when it comes again: known ones do, and made-up
 * ones mostly do not.
 */
import { Lru } from '../../runtime/lru.ts'

/** Refusals of a second, of all identities of one address, up to which one is looked up that comes for the first time. */
const MAX_FIRST_LOOK_UPS = 8
/** The same for one that comes again. */
const MAX_LOOK_UPS = 9
/** After more than that, a flood goes on: for so long, none is looked up at its first sight. */
const FLOOD_MS = 10_000
const MAX_IDENTITIES = 10_000
/** An identity that was refused as new may be admitted elsewhere, so it is looked up again after this. */
const NEW_MS = 1_000

type IdentityState =
  /** It was admitted here. */
  | { readonly kind: 'known' }
  /** It has come, and is not known to be either of the others. */
  | { readonly kind: 'seen' }
  /** The store had not seen it. */
  | { readonly kind: 'new'; readonly untilMs: number }

const KNOWN: IdentityState = { kind: 'known' }
const SEEN: IdentityState = { kind: 'seen' }

/** Identities are named by the keys of the charges that detect them. */
export class IdentityMemory {
  readonly #states = new Lru<IdentityState>(MAX_IDENTITIES)
  /** Each key is that of a charge that counts new identities. */
  readonly #floodUntilMs = new Lru<number>(MAX_IDENTITIES)

  isKnown(key: string): boolean {
    return this.#states.get(key)?.kind === 'known'
  }

  isNew(key: string, nowMs: number): boolean {
    const state = this.#states.get(key)
    return state?.kind === 'new' && nowMs < state.untilMs
  }

  noteKnown(key: string): void {
    this.#states.set(key, KNOWN)
  }

  /** @param sentAtMs when the call was sent that found it new */
  noteNew(key: string, sentAtMs: number): void {
    this.#states.set(key, { kind: 'new', untilMs: sentAtMs + NEW_MS })
  }

  /**
   * Notes that an identity has come whose charge for new ones would refuse it.
   * @param countingKey key of that charge
   * @param calls its refusals that the store has decided in this second
   * @returns true if the store is to be asked about it now
   */
  admitLookUp(key: string, countingKey: string, calls: number, nowMs: number): boolean {
    const state = this.#states.get(key)
    if (!state) {
      this.#states.set(key, SEEN)
      if (calls < MAX_FIRST_LOOK_UPS) return nowMs >= (this.#floodUntilMs.get(countingKey) ?? 0)
      this.#floodUntilMs.set(countingKey, nowMs + FLOOD_MS)
      return false
    }
    if (state.kind === 'known') return true
    return !this.isNew(key, nowMs) && calls < MAX_LOOK_UPS
  }
}
