/**
 * What an isolate knows of identities behind an address that brings too many new ones.
 *
 * A new identity is refused; one that the store knows must not be, whichever isolate it comes to. Only a look at the store
 * tells them apart, and a flood of made-up identities must not cost one each. So an identity that is not known here is
 * looked up when it comes again: known ones do, and made-up ones mostly do not.
 */
import { detectsNewIdentities } from '../../algorithms/decide.ts'
import type { StoreCharge } from '../../model/charge.ts'
import { Lru } from '../../runtime/lru.ts'

const MAX_IDENTITIES = 10_000
/** Calls of a second, of all identities of one address, up to which one that comes again is looked up. */
const MAX_LOOK_UPS = 9
/** An identity that was refused as new may be admitted elsewhere, so it is looked up again after this. */
const NEW_MS = 1_000
/** In place of a time until which an identity is new: it was admitted here, or has come without being looked up. */
const KNOWN = 0
const SEEN = 1

export class SeenIdentities {
  /** Until when an identity counts as new, by key of its charge; or `KNOWN` or `SEEN`. */
  readonly #newUntilMs = new Lru<number>(MAX_IDENTITIES)

  noteAdmitted(charges: readonly StoreCharge[]): void {
    for (const charge of charges) if (detectsNewIdentities(charge)) this.#newUntilMs.set(charge.key, KNOWN)
  }

  /** @param sentAtMs when the call was sent that found it new */
  noteNew(key: string, sentAtMs: number): void {
    this.#newUntilMs.set(key, sentAtMs + NEW_MS)
  }

  /** @returns true for an identity that was not admitted here */
  mayBeNew(charge: StoreCharge): boolean {
    return detectsNewIdentities(charge) && this.#newUntilMs.get(charge.key) !== KNOWN
  }

  /** @returns true if the store has found it new within a second */
  isNew(key: string, nowMs: number): boolean {
    return nowMs < (this.#newUntilMs.get(key) ?? 0)
  }

  /**
   * @param charges those by which new identities are detected
   * @param calls refusals that the store has decided in this second
   * @returns true if one of them is new, or is not to be looked up now; it is then noted that it has come
   */
  areRefused(charges: readonly StoreCharge[], calls: number, nowMs: number): boolean {
    return charges.some(({ key }) => {
      const untilMs = this.#newUntilMs.get(key)
      if (untilMs === undefined) this.#newUntilMs.set(key, SEEN)
      return untilMs === undefined || nowMs < untilMs || (untilMs !== KNOWN && calls >= MAX_LOOK_UPS)
    })
  }
}
