import type { Decision, DecisionRequest, StoreCharge } from '../model/charge.ts'
import type { Store } from '../model/store.ts'
import { StoreError } from '../model/store.ts'
import type { CallContext } from '../runtime/call-context.ts'
import { Lru } from '../runtime/lru.ts'
import { admission, LeaseAccount, type RecentOutcome, replayOutcome, withLeft } from './lease-account.ts'
import { affordable, computeLeaseTerms, isFarFromLimits, type LeaseTerms, type Span, usableMs } from './lease-terms.ts'
import {
  CROWDED_PER_SECOND,
  HOT_PER_SECOND,
  hotPermits,
  hotSpan,
  isSharedByMany,
  permitsPerSecond,
  SERVED_PER_SECOND,
} from './shared-leases.ts'
import { type AvoidedCalls, createAvoidedCalls, decorate, type Stage } from './stage.ts'
import { StatusCache } from './status-cache.ts'

/** Permits of further callers expire unused. */
const MAX_ACCOUNTS = 10_000
/** An unanswered replenishment stops blocking others after this. */
const LOST_AFTER_MS = 2_000
/** Share of a lease's term: a longer round trip leaves too little of it. */
const MAX_ROUND_TRIP_SHARE = 0.25
/** Longer round trips count at once, shorter ones gradually. */
const ROUND_TRIP_DECAY = 1 / 8

/** Share of a lease's term for which an exhausted hot identity is not requested again. */
const HOLD_SHARE = 0.5

/** A request, with the account of its caller. */
interface Caller {
  readonly request: DecisionRequest
  readonly account: LeaseAccount
  readonly terms: LeaseTerms
  readonly nowMs: number
  /** True while a call that brings more permits is under way. */
  readonly isPaused: boolean
  readonly context: CallContext
}

interface Plan extends Span {
  readonly permits: number
}

/** The most permits to take at once; `auto` takes as many as a caller is about to need. */
export type LeaseSize = number | 'auto'

/**
 * Takes several permits of a busy caller in one call, and uses them without further calls, as long as the caller is far
 * from its limits. Either the store counts a leased permit as if it were used when the lease ends, or the lease ends with
 * the windows that it is charged to: so no true window ever holds more than its limit. Permits not used by then expire,
 * and count all the same.
 */
export function withLeases(size: LeaseSize, now: () => number, avoided = createAvoidedCalls()): Stage {
  return (store) => {
    const leases = new Leases(store, now, size, avoided)
    return decorate(store, {
      decide: leases.decide,
      async delete(keys) {
        await store.delete(keys)
        leases.clear()
      },
    })
  }
}

class Leases {
  readonly #avoided: AvoidedCalls
  readonly #store: Store
  readonly #now: () => number
  readonly #size: number
  readonly #accounts = new Lru<LeaseAccount>(MAX_ACCOUNTS)
  readonly #standings = new StatusCache()
  /** Unknown until the first call has been answered. */
  #roundTripMs = Number.POSITIVE_INFINITY
  #latestMs = 0

  constructor(store: Store, now: () => number, size: LeaseSize, avoided: AvoidedCalls) {
    this.#store = store
    this.#avoided = avoided
    this.#now = now
    this.#size = size === 'auto' ? Number.POSITIVE_INFINITY : size
  }

  /** @throws {StoreError} it is then unknown if a lease was charged */
  readonly decide: Store['decide'] = (request, context) => {
    if (request.action === 'peek') return this.#store.decide(request, context)
    const terms = context && computeLeaseTerms(request)
    return terms ? this.#decide({ request, ...this.#see(terms), context }) : this.#ask(request, context)
  }

  /** Lets all permits expire, also those on their way. */
  clear(): void {
    this.#accounts.clear()
  }

  #see(terms: LeaseTerms): Pick<Caller, 'account' | 'terms' | 'nowMs' | 'isPaused'> {
    const nowMs = this.#readClock()
    const account = this.#accountOf(terms)
    account.see(nowMs, terms)
    return { account, terms, nowMs, isPaused: nowMs < account.replenishedUntilMs }
  }

  async #decide(caller: Caller): Promise<Decision> {
    const { request, account, nowMs, isPaused, context } = caller
    const lease = account.spend(nowMs)
    if (lease) {
      this.#avoided.byLeases++
      const left = account.left(nowMs)
      // Before permits run out, so that no request waits.
      if (this.#isShort(caller)) this.#replenish(caller)
      return admission(request, account.standings, lease, left, nowMs)
    }
    if (isHeld(caller)) return replayOutcome(account.held as RecentOutcome, nowMs)
    // A reply cannot be shared with other requests: while one call is under way, each decides for itself alone.
    const plan = isPaused ? undefined : this.#planOf(caller)
    if (!plan) return this.#listen(caller, this.#ask(request, context))
    const decision = await this.#take(caller, plan, 1)
    if (decision.granted === 0) return decision
    const left = decision.granted - 1
    const usage = decision.usage.map((limits, index) =>
      withLeft(limits, left * (request.charges[index] as StoreCharge).cost),
    )
    return { ...decision, granted: 1, usage }
  }

  #isShort(caller: Caller): boolean {
    const { account, terms, nowMs } = caller
    const isShort = account.isShort(nowMs, this.#roundTripMs, terms)
    return isShort && (!this.#hotPaceOf(caller) || account.isNearlyOut(nowMs, this.#roundTripMs, terms))
  }

  #replenish(caller: Caller): void {
    if (caller.isPaused || isHeld(caller)) return
    const plan = this.#planOf(caller)
    if (plan) caller.context.waitUntil(this.#take(caller, plan, 0).catch(ignoreStoreError))
  }

  /** @returns undefined if the request is to be decided alone */
  #planOf(caller: Caller): Plan | undefined {
    const { request, account, terms } = caller
    const permits = this.#wanted(account, request, terms)
    const perSecond = this.#hotPaceOf(caller)
    if (permits < perSecond / HOT_PER_SECOND) return this.#hotPlan(request, account, terms, perSecond)
    return permits < 2 ? undefined : { ...terms, permits }
  }

  #hotPlan(request: DecisionRequest, account: LeaseAccount, terms: LeaseTerms, perSecond: number): Plan | undefined {
    const charge = request.charges[0] as StoreCharge
    const standing = this.#standings.of(charge)
    const mustLease = perSecond > CROWDED_PER_SECOND || account.strain.stretch > 1
    if (!mustLease && !isFarFromLimits(charge, standing, terms, this.#latestMs)) return undefined
    const span = hotSpan(account, terms, perSecond, this.#roundTripMs)
    const spanMs = usableMs(request, [standing], span, this.#latestMs) - this.#roundTripMs
    const permits = Math.min(terms.most, this.#size, hotPermits(account, terms, perSecond, spanMs))
    return permits < 2 ? undefined : { ...span, permits }
  }

  #wanted(account: LeaseAccount, request: DecisionRequest, terms: LeaseTerms): number {
    if (this.#roundTripMs > terms.termMs * MAX_ROUND_TRIP_SHARE) return 1
    const standings = request.charges.map((charge) => this.#standings.get(charge))
    const spanMs = usableMs(request, standings, terms, this.#latestMs) - this.#roundTripMs
    const wanted = Math.min(terms.most, this.#size, account.wanted(spanMs, terms))
    return wanted < 2 ? 1 : Math.min(wanted, affordable(request, standings, terms, this.#latestMs))
  }

  /** Permits a second, of all isolates, of the only charge of a request if that is hot, and many share it; else 0. */
  #hotPaceOf({ request: { charges }, account, terms }: Caller): number {
    const { atMs, perSecond } = account.pace
    // Twice as long as until a lesser one replaces it, so that it lasts until the next reply.
    const isKnown = charges.length === 1 && this.#latestMs - atMs < 2 * findLongestMs(charges[0] as StoreCharge)
    return isKnown && perSecond > HOT_PER_SECOND && isSharedByMany(account, terms, perSecond) ? perSecond : 0
  }

  #accountOf({ name }: LeaseTerms): LeaseAccount {
    let account = this.#accounts.get(name)
    if (!account) {
      account = new LeaseAccount()
      this.#accounts.set(name, account)
    }
    return account
  }

  /** @param own permits used already: 1 if the script itself admits the request */
  async #take(caller: Caller, { permits, ...span }: Plan, own: 0 | 1): Promise<Decision> {
    const { request, account, context } = caller
    const sentAtMs = this.#now()
    account.replenishedUntilMs = sentAtMs + LOST_AFTER_MS
    try {
      const leased = { ...request, action: 'take-up-to', permits, leaseMs: span.termMs } as const
      const decision = await this.#listen(caller, this.#ask(leased, context))
      if (decision.granted > 0) {
        account.standings = request.charges.map((charge) => this.#standings.of(charge))
        // The store decided when it was sent, or later.
        const asDecided = decision.usage.map((usage) => ({ usage, sentAtMs }))
        const expiresAtMs = sentAtMs + usableMs(request, asDecided, span, sentAtMs)
        account.add({ permits: decision.granted - own, expiresAtMs, chargedAtMs: decision.nowMs })
        this.#avoided.permitsLeased += decision.granted - own
      }
      return decision
    } finally {
      account.replenishedUntilMs = 0
    }
  }

  /** Estimates from the end of a call how loaded the store is, and remembers an outcome that is not to be repeated. */
  async #listen(caller: Caller, asked: Promise<Decision>): Promise<Decision> {
    const { account, terms } = caller
    const sentAtMs = this.#now()
    const perSecond = this.#hotPaceOf(caller)
    const hold = (outcome: Decision | StoreError) => {
      const isMuch = account.strain.stretch > 1 || perSecond > SERVED_PER_SECOND
      const untilMs = this.#now() + terms.termMs * account.strain.stretch * HOLD_SHARE
      if (isMuch && perSecond > 0) account.held = { outcome, sentAtMs, untilMs }
    }
    try {
      const decision = await asked
      notePace(caller, decision, sentAtMs)
      // A refusal may come from the cache: its duration means nothing.
      if (decision.granted === 0) hold(decision)
      else {
        account.held = undefined
        account.strain.hear(this.#now() - sentAtMs)
      }
      return decision
    } catch (error) {
      account.strain.fail()
      if (error instanceof StoreError) hold(error)
      throw error
    }
  }

  async #ask(request: DecisionRequest, context: CallContext | undefined): Promise<Decision> {
    const sentAtMs = this.#readClock()
    const heardBefore = this.#standings.heard
    const decision = await this.#store.decide(request, context)
    this.#standings.hear(request, decision, sentAtMs, heardBefore)
    const elapsedMs = this.#readClock() - sentAtMs
    // A refusal may come from the cache.
    if (decision.granted > 0 && elapsedMs >= 0) {
      const more = elapsedMs - this.#roundTripMs
      this.#roundTripMs =
        more < 0 && more > Number.NEGATIVE_INFINITY ? this.#roundTripMs + more * ROUND_TRIP_DECAY : elapsedMs
    }
    return decision
  }

  /** When the clock has stepped back, it is unknown when leases end: all expire, also those on their way. */
  #readClock(): number {
    const nowMs = this.#now()
    if (nowMs < this.#latestMs) this.clear()
    this.#latestMs = nowMs
    return nowMs
  }
}

function findLongestMs({ limits }: StoreCharge): number {
  return Math.max(...limits.map(({ windowMs }) => windowMs))
}

/** Keeps the greatest of the latest window: a counted window that has just begun shows nothing. */
function notePace({ request, account }: Caller, { usage }: Decision, atMs: number): void {
  const charge = request.charges[0] as StoreCharge
  const perSecond = permitsPerSecond(charge, usage[0] ?? [])
  if (perSecond >= account.pace.perSecond || atMs - account.pace.atMs >= findLongestMs(charge)) {
    account.pace = { perSecond, atMs }
  }
}

/** @returns true if the last outcome is to be repeated, not requested again */
function isHeld({ account: { held }, nowMs, isPaused }: Caller): boolean {
  return held !== undefined && (isPaused || nowMs < held.untilMs)
}

/** The next request that finds no permits makes its own call, and reports its failure. */
function ignoreStoreError(error: unknown): void {
  if (!(error instanceof StoreError)) throw error
}
