import type { Decision, DecisionRequest, Rule } from '../limit/rule.ts'
import type { CallContext } from '../store/call-context.ts'
import { Generations } from '../store/generations.ts'
import type { Store } from '../store/store.ts'
import { StoreError } from '../store/store.ts'
import { Account, admission, withLeft } from './account.ts'
import { Standings } from './standings.ts'
import { affordable, type Terms, termsOf, usableMs } from './terms.ts'

/** Callers whose permits are kept at most; those of others lapse. */
const MAX_ACCOUNTS = 10_000
/** An unanswered replenishment stops blocking others after this. */
const LOST_AFTER_MS = 2_000
/** Share of a lease's term: a longer round trip leaves too little of it. */
const MAX_ROUND_TRIP_SHARE = 0.25
/** Longer round trips count at once, shorter ones gradually. */
const ROUND_TRIP_DECAY = 1 / 8

/** A number of permits to take at once at most, or as many as a caller is about to need. */
export type LeaseSize = number | 'auto'

/**
 * Takes several permits of a busy caller in one call, and spends them without asking, as long as the caller is far from
 * its limits. Either the store counts a leased permit as if it were spent when the lease ends, or the lease ends with the
 * windows that it is charged to: so no true window ever holds more than its limit. Permits not spent by then lapse, and
 * count all the same.
 */
export class Leases {
  /** Permits taken in advance so far … */
  taken = 0
  /** … and those of them that were spent. */
  spent = 0
  readonly #store: Pick<Store, 'decide'>
  readonly #now: () => number
  readonly #size: number
  readonly #accounts = new Generations<Account>(MAX_ACCOUNTS)
  readonly #standings = new Standings()
  /** Unknown until the first call has been answered. */
  #roundTripMs = Number.POSITIVE_INFINITY
  #latestMs = 0

  /** @param now milliseconds since the Unix epoch */
  constructor(store: Pick<Store, 'decide'>, now: () => number, size: LeaseSize) {
    this.#store = store
    this.#now = now
    this.#size = size === 'auto' ? Number.POSITIVE_INFINITY : size
  }

  /** @throws {StoreError} whether a lease was charged is then unknown */
  async decide(request: DecisionRequest, context: CallContext): Promise<Decision> {
    const terms = termsOf(request)
    if (!terms) return this.#ask(request, context)
    const nowMs = this.#readClock()
    const account = this.#accountOf(terms)
    account.see(nowMs, terms)
    const isPaused = nowMs < account.replenishedUntilMs
    const lease = account.spend(nowMs)
    if (lease) {
      this.spent++
      const left = account.left(nowMs)
      // Before permits run out, so that nobody waits.
      if (!isPaused && account.isShort(nowMs, this.#roundTripMs, terms)) {
        const wanted = this.#wanted(account, request, terms)
        if (wanted >= 2)
          context.waitUntil(this.#take(account, request, terms, wanted, 0, context).catch(ignoreStoreError))
      }
      return admission(request, account.standings, lease, left, nowMs)
    }
    // Others wait for the same answer, which cannot be shared: each asks for itself alone.
    const wanted = isPaused ? 1 : this.#wanted(account, request, terms)
    if (wanted < 2) return this.#ask(request, context)
    const decision = await this.#take(account, request, terms, wanted, 1, context)
    if (decision.granted === 0) return decision
    const left = decision.granted - 1
    const usage = decision.usage.map((tiers, index) => withLeft(tiers, left * (request.rules[index] as Rule).cost))
    return { ...decision, granted: 1, usage }
  }

  /** All permits lapse, those on their way too. */
  clear(): void {
    this.#accounts.clear()
  }

  #wanted(account: Account, request: DecisionRequest, terms: Terms): number {
    if (this.#roundTripMs > terms.termMs * MAX_ROUND_TRIP_SHARE) return 1
    const standings = request.rules.map((rule) => this.#standings.get(rule))
    const spanMs = usableMs(request, standings, terms, this.#latestMs) - this.#roundTripMs
    const wanted = Math.min(terms.most, this.#size, account.wanted(spanMs, terms))
    return wanted < 2 ? 1 : Math.min(wanted, affordable(request, standings, terms, this.#latestMs))
  }

  #accountOf({ name }: Terms): Account {
    let account = this.#accounts.get(name)
    if (!account) {
      account = new Account()
      this.#accounts.set(name, account)
    }
    return account
  }

  /** @param own permits that are spent already: the request that asks is admitted by the script itself */
  async #take(
    account: Account,
    request: DecisionRequest,
    terms: Terms,
    permits: number,
    own: 0 | 1,
    context: CallContext,
  ): Promise<Decision> {
    const sentAtMs = this.#now()
    account.replenishedUntilMs = sentAtMs + LOST_AFTER_MS
    try {
      const leased = { ...request, mode: 'partial', permits, leaseMs: terms.termMs } as const
      const decision = await this.#ask(leased, context)
      if (decision.granted > 0) {
        account.standings = request.rules.map((rule) => this.#standings.of(rule))
        // The store decided when it was sent, or later.
        const asDecided = decision.usage.map((usage) => ({ usage, sentAtMs }))
        const expiresAtMs = sentAtMs + usableMs(request, asDecided, terms, sentAtMs)
        account.add({ permits: decision.granted - own, expiresAtMs, chargedAtMs: decision.nowMs })
        this.taken += decision.granted - own
      }
      return decision
    } finally {
      account.replenishedUntilMs = 0
    }
  }

  async #ask(request: DecisionRequest, context: CallContext): Promise<Decision> {
    const sentAtMs = this.#readClock()
    const heardBefore = this.#standings.heard
    const decision = await this.#store.decide(request, context)
    this.#standings.hear(request, decision, sentAtMs, heardBefore)
    const elapsedMs = this.#readClock() - sentAtMs
    // A refusal may have been remembered.
    if (decision.granted > 0 && elapsedMs >= 0) {
      const more = elapsedMs - this.#roundTripMs
      this.#roundTripMs =
        more < 0 && more > Number.NEGATIVE_INFINITY ? this.#roundTripMs + more * ROUND_TRIP_DECAY : elapsedMs
    }
    return decision
  }

  /**
   * Once the clock is seen to step back, nobody knows when leases end: they all lapse, including those on their way.
   */
  #readClock(): number {
    const nowMs = this.#now()
    if (nowMs < this.#latestMs) this.clear()
    this.#latestMs = nowMs
    return nowMs
  }
}

export type CreateLeases = (store: Pick<Store, 'decide'>) => Leases

/** @returns undefined if no permits are to be taken in advance */
export function leasesOf(size: LeaseSize | undefined, now: () => number): CreateLeases | undefined {
  return size === undefined ? undefined : (store) => new Leases(store, now, size)
}

/** The next request that finds nothing left asks for itself, and says so if it fails. */
function ignoreStoreError(error: unknown): void {
  if (!(error instanceof StoreError)) throw error
}
