/**
 * Repeats refusals that may end early, without a call to the store: slots are released, charges settled, and an identity
 * that was new may become known. Loaded only where a policy may make such refusals, or has requests of many costs.
 *
 * The store decides three of them a second, for each key, and the last one is repeated until the second ends. The same
 * holds for a fourth cost in a second.
 *
 * A new identity is refused; one that the store knows must not be, whichever isolate it comes to. Only a look at the store
 * tells them apart, and a flood of made-up identities must not cost one each. So an identity that is not known here is
 * looked up while few are, and beyond that when it comes again: known ones do, and made-up ones mostly do not.
 */
import { countsNewIdentities, detectsNewIdentities, isUnused } from '../../algorithms/decide.ts'
import type { Decision, DecisionRequest, StoreCharge } from '../../model/charge.ts'
import type { Store } from '../../model/store.ts'
import type { CallContext } from '../../runtime/call-context.ts'
import { Lru } from '../../runtime/lru.ts'
import { countUnits, type Refusal } from './refusal-memory.ts'
import { decideSome } from './stage.ts'
import type { StatusCache } from './status-cache.ts'

/** Refusals by one key that the store decides in a second, before others are answered by what is known of them. */
const MAX_CALLS = 3
/** Refusals of a second, of all identities of one address, up to which one is looked up that comes for the first time. */
const MAX_FIRST_LOOK_UPS = 8
/** The same for one that comes again. */
const MAX_LOOK_UPS = 9
/** After more than that, a flood goes on: for so long, none is looked up at its first sight. */
const FLOOD_MS = 10_000
const MAX_IDENTITIES = 10_000
/** An identity that was refused as new may be admitted elsewhere, so it is looked up again after this. */
const NEW_MS = 1_000
/** These stand in place of a time until which an identity is new: it was admitted here, or came without a look-up. */
const KNOWN = 0
const SEEN = 1

export type CreateEarlyRefusals = (statuses: StatusCache, now: () => number) => EarlyRefusals

export const createEarlyRefusals: CreateEarlyRefusals = (statuses, now) => new EarlyRefusals(statuses, now)

export interface RepeatedRefusal {
  readonly refusal: Refusal
  /** The longest wait to report, if it is not known that the refusal stands for longer. */
  readonly maxWaitMs?: number
}

class EarlyRefusals {
  readonly #statuses: StatusCache
  readonly #now: () => number
  /** Until when an identity counts as new, by key of its charge; or `KNOWN` or `SEEN`. */
  readonly #newUntilMs = new Lru<number>(MAX_IDENTITIES)
  /** Until when a flood is expected to go on, by key of the charge that counts new identities. */
  readonly #floodUntilMs = new Lru<number>(MAX_IDENTITIES)

  constructor(statuses: StatusCache, now: () => number) {
    this.#statuses = statuses
    this.#now = now
  }

  /** @param at index of the charge in the request */
  find(request: DecisionRequest, at: number, nowMs: number): RepeatedRefusal | undefined {
    const charge = request.charges[at] as StoreCharge
    const memory = this.#statuses.get(charge)?.refusals
    const calls = memory?.countCalls(nowMs) ?? 0
    if (!memory || calls < MAX_CALLS) return undefined
    const detecting = countsNewIdentities(charge) ? listDetecting(request, at) : undefined
    if (detecting && !this.#areRefused(detecting, charge, calls, nowMs)) return undefined
    const refusal = memory.findClosest(countUnits(charge, request), nowMs)
    // An identity that was not looked up will be when it comes again.
    const isGuess = detecting && !detecting.some(({ key }) => nowMs < (this.#newUntilMs.get(key) ?? 0))
    return refusal && { refusal, ...(isGuess && { maxWaitMs: memory.spanEndMs - nowMs }) }
  }

  /** @returns true if too many new identities were refused lately, and this one was not admitted here */
  isLikelyNew(request: DecisionRequest): boolean {
    if (request.action !== 'take') return false
    return request.charges.some((charge, at) => {
      if (!countsNewIdentities(charge) || charge.mode === 'shadow') return false
      const refusal = this.#statuses.get(charge)?.refusals?.findClosest(countUnits(charge, request), this.#now())
      return refusal && listDetecting(request, at).some((one) => this.mayBeNew(one))
    })
  }

  /** Finds out only whether an identity is known. With Durable Objects, a charge would have to be reverted. */
  peek(store: Store, request: DecisionRequest, context: CallContext | undefined): Promise<Decision> {
    const isPeeked = (charge: StoreCharge) => countsNewIdentities(charge) || this.mayBeNew(charge)
    return decideSome(store, { ...request, action: 'peek' }, isPeeked, context)
  }

  noteAdmitted(charges: readonly StoreCharge[]): void {
    for (const charge of charges) if (detectsNewIdentities(charge)) this.#newUntilMs.set(charge.key, KNOWN)
  }

  /** Notes which identity is new, if a charge that counts new ones has refused. @param sentAtMs when the call was sent */
  noteRefused(request: DecisionRequest, at: number, usage: Decision['usage'], sentAtMs: number): void {
    if (!countsNewIdentities(request.charges[at])) return
    for (const charge of listDetecting(request, at)) {
      const limits = usage[request.charges.indexOf(charge)] ?? []
      if (limits.length > 0 && isUnused(charge, limits)) this.#newUntilMs.set(charge.key, sentAtMs + NEW_MS)
    }
  }

  /** @returns true for an identity that was not admitted here */
  mayBeNew(charge: StoreCharge): boolean {
    return detectsNewIdentities(charge) && this.#newUntilMs.get(charge.key) !== KNOWN
  }

  /**
   * @param charges those by which new identities are detected
   * @param counting the charge that counts them
   * @param calls its refusals that the store has decided in this second
   * @returns true if one of them is new, or is not to be looked up now; it is then noted that it has come
   */
  #areRefused(charges: readonly StoreCharge[], counting: StoreCharge, calls: number, nowMs: number): boolean {
    const isFlood = nowMs < (this.#floodUntilMs.get(counting.key) ?? 0)
    return charges.some(({ key }) => {
      const untilMs = this.#newUntilMs.get(key)
      if (untilMs !== undefined) return nowMs < untilMs || (untilMs !== KNOWN && calls >= MAX_LOOK_UPS)
      this.#newUntilMs.set(key, SEEN)
      if (calls < MAX_FIRST_LOOK_UPS) return isFlood
      this.#floodUntilMs.set(counting.key, nowMs + FLOOD_MS)
      return true
    })
  }
}

export type { EarlyRefusals }

/** The charges by which one that counts new identities finds out whether there is one. */
function listDetecting({ charges }: DecisionRequest, at: number): readonly StoreCharge[] {
  return charges.slice(0, at).filter(detectsNewIdentities)
}
