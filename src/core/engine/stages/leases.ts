/**
 * Takes what an identity is about to need in one call, and lets its next requests through without a call, as long as that
 * is a small share of what is left. Either the store counts a leased permit as if it were used when the lease ends, or the
 * lease ends with the windows that it is charged to: so no true window ever holds more than its limit. Permits not used by
 * then expire, and count all the same.
 *
 * The unit is a charge: a request with several takes a permit for each that is leased. `leased-decision.ts` decides it,
 * `lease-size.ts` computes how many permits to take and for how long, and `lease-account.ts` holds them, and knows which
 * requests share a call.
 */
import { ALGORITHMS } from '../../algorithms/algorithm-table.ts'
import type { Decision, DecisionRequest, LimitState, StoreCharge } from '../../model/charge.ts'
import { countsEveryRequest } from '../../model/limits.ts'
import { type Adjustment, type Store, StoreError } from '../../model/store.ts'
import type { CallContext } from '../../runtime/call-context.ts'
import type { Clocks } from '../../runtime/clocks.ts'
import { Lru } from '../../runtime/lru.ts'
import { mapList } from '../../runtime/map-list.ts'
import { ChargeTimes } from '../../store/charge-times.ts'
import { type Lease, LeaseAccount, type RepeatedOutcome, repeatOutcome, type SharedDecision } from './lease-account.ts'
import {
  countMaxWaiting,
  countPermits,
  findAheadMs,
  findLeaseMs,
  findPauseMs,
  findRoom,
  findTerms,
  findUsableMs,
  isShort,
  type LeaseTerms,
} from './lease-size.ts'
import { LeasedDecision } from './leased-decision.ts'
import type { RefusalCachingStore } from './refusal-cache.ts'
import { decorate, type StageWatch } from './stage.ts'
import { formatStatusName, type StatusCache } from './status-cache.ts'

/** Permits of further callers expire unused. */
const MAX_ACCOUNTS = 10_000

/** A clock of whole milliseconds, read with one that has parts of them, seems to move by up to this. */
const MAX_ROUNDING_MS = 1

/** The most permits to take at once; `auto` takes as many as a caller is about to need. */
export type LeaseSize = number | 'auto'

export interface LeaseParts extends Pick<Clocks, 'now' | 'readSteadyMs'> {
  /** Fed by the stage below. */
  readonly statuses: StatusCache
  /** Deadline of a call. */
  readonly timeoutMs: number
  readonly watch?: StageWatch | undefined
}

/** A charge of a request, with the account of its identity. */
export interface LeasingCaller {
  readonly charge: StoreCharge
  readonly account: LeaseAccount
  readonly terms: LeaseTerms
  readonly nowMs: number
  readonly context: CallContext
  /** Its permits last for so long, while others are decided; 0 if it is decided alone, or no lease may be so long. */
  readonly keepMs: number
}

/** Workers with a compatibility date before 2024-10-14 end requests that await what another resolves: they hang. */
const CAN_AWAIT_OTHERS =
  !('WebSocketPair' in globalThis) ||
  (globalThis as { Cloudflare?: { compatibilityFlags?: Readonly<Record<string, boolean>> } }).Cloudflare
    ?.compatibilityFlags?.handle_cross_request_promise_resolution === true

export function withLeases(size: LeaseSize): (store: RefusalCachingStore, parts: LeaseParts) => Store {
  return (store, parts) => {
    const leasing = new Leasing(store, size, parts)
    return decorate(store, {
      decide: (request, context) => leasing.decide(request, context),
      settle: (differences, chargedAtMs) => leasing.settle(differences, chargedAtMs),
      async delete(keys) {
        await store.delete(keys)
        leasing.dropAccounts()
      },
    })
  }
}

export class Leasing {
  readonly store: RefusalCachingStore
  readonly parts: LeaseParts
  /** When permits were charged that decisions used together with others. */
  readonly times = new ChargeTimes()
  readonly #maxPermits: number
  #accounts = new Lru<LeaseAccount>(MAX_ACCOUNTS)
  #roundTripMs = 0
  /** The latest call has failed: until one grants something, none is waited for, so that a breaker sees each. */
  #isFailing = false
  #latestMs = 0
  /** How far the clock was at most ahead of the steady one since it last stepped back. */
  #maxAheadMs = Number.NEGATIVE_INFINITY
  /** Grows when all accounts are dropped. */
  #generation = 0

  constructor(store: RefusalCachingStore, size: LeaseSize, parts: LeaseParts) {
    this.store = store
    this.parts = parts
    this.#maxPermits = size === 'auto' ? Number.POSITIVE_INFINITY : size
  }

  /** @throws {StoreError} it is then unknown if a lease was charged */
  decide(request: DecisionRequest, context: CallContext | undefined): Promise<Decision> {
    const { action, permits, charges } = request
    if (action === 'peek') return this.store.decide(request, context)
    if (!context || action !== 'take' || permits !== 1 || !charges.some(canLease)) return this.ask(request, context)
    const nowMs = this.readClock()
    const timeoutMs = charges.length === 1 ? 0 : this.parts.timeoutMs
    const callers = charges.filter(canLease).map((charge) => this.#createCaller(charge, nowMs, context, timeoutMs))
    const [only] = callers
    if (only && charges.length === 1) return this.decideFor(only)
    return new LeasedDecision(this, request, callers, context).decide()
  }

  /** Corrects charges, each at its own time. @throws {StoreError} */
  async settle(differences: readonly Adjustment[], chargedAtMs: number): Promise<void> {
    const byTime = new Map<number, Adjustment[]>()
    for (const difference of differences) {
      const atMs = this.times.get(difference.charge.key, chargedAtMs)
      byTime.set(atMs, [...(byTime.get(atMs) ?? []), difference])
    }
    await Promise.all(Array.from(byTime, ([atMs, own]) => this.store.settle(own, atMs)))
  }

  /** Lets all permits expire, also those on their way. */
  dropAccounts(): void {
    this.#generation++
    this.#accounts = new Lru(MAX_ACCOUNTS)
  }

  #createCaller(charge: StoreCharge, nowMs: number, context: CallContext, timeoutMs: number): LeasingCaller {
    const name = formatAccountName(charge)
    let account = this.#accounts.get(name)
    if (!account) {
      account = new LeaseAccount(this.#generation)
      this.#accounts.set(name, account)
    }
    const terms = findTerms(charge)
    account.see(nowMs, terms)
    // Its call may take as long as the decision about the others after it.
    const canKeep = findUsableMs(charge, this.parts.statuses, terms.maxLeaseMs, nowMs) > 2 * timeoutMs
    return { charge, account, terms, nowMs, context, keepMs: canKeep ? timeoutMs : 0 }
  }

  /** Decides a request of one charge, or the last one of several. */
  async decideFor(caller: LeasingCaller): Promise<Decision> {
    const { account, nowMs, context } = caller
    const lease = account.take(nowMs)
    if (lease) return { granted: 1, nowMs: lease.chargedAtMs, usage: [this.use(caller)] }
    const { repeated } = account
    if (repeated && nowMs < repeated.untilMs) return repeatOutcome(repeated, nowMs)
    const deciding = this.#decideByCall(caller)
    // Others may wait for its call, even if its own client disconnects.
    if (CAN_AWAIT_OTHERS) context.waitUntil(deciding.catch(() => {}))
    return deciding
  }

  async #decideByCall(caller: LeasingCaller): Promise<Decision> {
    const { timeoutMs, now, watch } = this.parts
    const admit = ({ nowMs }: Decision) => {
      return { granted: 1, nowMs, usage: [this.describe({ ...caller, nowMs: now() })] }
    }
    const shared = this.#mayWait(caller) ? await caller.account.wait(timeoutMs, 0) : undefined
    if (shared) {
      if (shared.granted === 0) return shared
      watch?.onAvoided('leases')
      return admit(shared)
    }
    const calling = { ...caller, nowMs: this.readClock() }
    const decision = await this.#take(calling, 1, this.#countPermits(calling))
    return decision.granted > 1 ? admit(decision) : decision
  }

  /** Takes a permit that is kept until others have decided. @returns it with its lease, unless it is refused */
  async obtain(caller: LeasingCaller): Promise<SharedDecision> {
    const { account, nowMs, context, keepMs } = caller
    const { repeated } = account
    if (repeated && nowMs < repeated.untilMs) return repeatOutcome(repeated, nowMs)
    const shared = this.#mayWait(caller) ? await account.wait(this.parts.timeoutMs, keepMs) : undefined
    if (shared) return shared
    const calling = { ...caller, nowMs: this.readClock() }
    const taking = this.#take(calling, 1, this.#countPermits(calling), keepMs)
    if (CAN_AWAIT_OTHERS) context.waitUntil(taking.catch(() => {}))
    return taking
  }

  giveBack({ account }: LeasingCaller, lease: Lease): void {
    const nowMs = this.readClock()
    if (account.generation === this.#generation) account.giveBack(lease, nowMs)
  }

  /** @returns true if a permit that was kept may still be used */
  isCurrent({ account }: LeasingCaller, { expiresAtMs }: Lease): boolean {
    return this.readClock() < expiresAtMs && account.generation === this.#generation
  }

  /** Uses a permit that is taken already. @returns the limits of its charge */
  use(caller: LeasingCaller): readonly LimitState[] {
    this.parts.watch?.onAvoided('leases')
    const { account, nowMs, keepMs } = caller
    const aheadMs = findAheadMs(this.#roundTripMs)
    const unusedThen = account.countLeft(nowMs + aheadMs + keepMs) + account.pending
    // Before permits run out, so that no request waits.
    if (isShort(account.pace, aheadMs, unusedThen)) this.takeMore(caller)
    return this.describe(caller)
  }

  #mayWait({ charge, account }: LeasingCaller): boolean {
    if (!CAN_AWAIT_OTHERS || this.#isFailing) return false
    return account.canWait(countMaxWaiting(findRoom(charge, this.parts.statuses)))
  }

  /** The limits of a charge, as far as they are known. Permits that are not used remain. */
  describe({ charge, account, nowMs }: LeasingCaller): readonly LimitState[] {
    const left = account.countLeft(nowMs)
    const { usage, sentAtMs } = this.parts.statuses.ensure(charge)
    const elapsedMs = Math.max(0, nowMs - sentAtMs)
    return mapList(usage, ({ remaining, resetMs }) => {
      return { remaining: remaining + left * charge.cost, resetMs: Math.max(0, resetMs - elapsedMs), retryAfterMs: 0 }
    })
  }

  /** Takes permits for requests to come. */
  takeMore(caller: LeasingCaller): void {
    const more = this.#countPermits(caller)
    if (more > 1) caller.context.waitUntil(this.#take(caller, 0, more).catch(ignoreStoreError))
  }

  #countPermits({ charge, account, terms, nowMs, keepMs }: LeasingCaller): number {
    const { statuses } = this.parts
    const { pace, used, expired } = account
    const use = { pace, used, expired, unused: account.countLeft(nowMs + keepMs) + account.pending }
    const usableMs = findUsableMs(charge, statuses, terms.maxLeaseMs, nowMs) - keepMs
    return countPermits(findRoom(charge, statuses), use, usableMs, this.#roundTripMs, this.#maxPermits)
  }

  /**
   * Takes permits for all requests that wait, and for `more` to come.
   * @param own 1 if the request that makes the call needs one, too
   * @param ownKeepMs time for which that one must last
   */
  async #take(caller: LeasingCaller, own: 0 | 1, more: number, ownKeepMs = 0): Promise<SharedDecision> {
    const { statuses, now, timeoutMs, watch } = this.parts
    const { charge, account, terms, nowMs, context } = caller
    const sentAtMs = now()
    const total = more > 0 ? account.countLeft(nowMs) + account.pending + more : 0
    const call = account.beginCall(more, nowMs + timeoutMs)
    const needed = own + call.waiters.length
    const permits = needed + more
    const keepMs = Math.max(more > 0 ? caller.keepMs : ownKeepMs, ...call.waiters.map(({ keepMs }) => keepMs))
    const leaseMs = more > 0 || keepMs > 0 ? findLeaseMs(total, account.pace, this.#roundTripMs, keepMs, terms) : 0
    if (account.repeated) account.repeated.untilMs = nowMs + findAheadMs(this.#roundTripMs)
    try {
      const isLease = permits > 1 || leaseMs > 0
      const lasting = isLease && ({ action: 'take-up-to', permits, leaseMs } as const)
      const decision = await this.ask({ action: 'take', permits: 1, ...lasting, charges: [charge] }, context)
      const { granted } = decision
      account.repeated = granted === 0 ? this.#createRepeated(caller, decision, sentAtMs) : undefined
      account.used += Math.min(needed, granted)
      // One that is kept may go back.
      watch?.onLeased(Math.max(0, granted - (ownKeepMs > 0 ? 0 : own)))
      // The store decided when the call was sent, or later.
      const expiresAtMs = sentAtMs + findUsableMs(charge, statuses, leaseMs, sentAtMs)
      const lease = { permits: Math.max(0, granted - needed), expiresAtMs, chargedAtMs: decision.nowMs }
      const shared = keepMs > 0 && granted > 0 ? { ...decision, lease } : decision
      account.share(call, shared, own)
      if (granted > needed && account.generation === this.#generation) account.add(lease)
      return shared
    } catch (error) {
      this.#isFailing = true
      account.repeated = error instanceof StoreError ? this.#createRepeated(caller, error, sentAtMs) : undefined
      account.fail(call, error)
      throw error
    } finally {
      account.endCall(call)
      account.serveWaiting(account.generation === this.#generation, this.#isFailing, now)
    }
  }

  /** Refusals and failures of a crowded identity are repeated for a pause, or its isolates would call too often. */
  #createRepeated({ charge, account, terms }: LeasingCaller, outcome: RepeatedOutcome['outcome'], sentAtMs: number) {
    const { statuses, now } = this.parts
    const pauseMs = findPauseMs(findRoom(charge, statuses), account.pace, terms)
    return pauseMs > 0 ? { outcome, sentAtMs, untilMs: now() + pauseMs } : undefined
  }

  async ask(request: DecisionRequest, context: CallContext | undefined): Promise<Decision> {
    const sentAtMs = this.readClock()
    const decision = await this.store.decide(request, context)
    const elapsedMs = this.readClock() - sentAtMs
    // A refusal may come from the cache.
    if (decision.granted > 0) {
      this.#isFailing = false
      // A longer round trip counts at once, and shorter ones by and by.
      this.#roundTripMs = Math.max(elapsedMs, (7 * this.#roundTripMs + elapsedMs) / 8)
    }
    return decision
  }

  /** When the clock has stepped back, it is unknown when leases end: all expire, also those on their way. */
  readClock(): number {
    const { now, readSteadyMs } = this.parts
    const nowMs = now()
    const aheadMs = readSteadyMs ? nowMs - readSteadyMs() : Number.NEGATIVE_INFINITY
    if (nowMs < this.#latestMs || aheadMs < this.#maxAheadMs - MAX_ROUNDING_MS) {
      this.dropAccounts()
      this.#maxAheadMs = aheadMs
    }
    this.#maxAheadMs = Math.max(this.#maxAheadMs, aheadMs)
    this.#latestMs = nowMs
    return nowMs
  }
}

/**
 * Other permits are taken one by one: a slot is held by one request, a policy in shadow mode counts each request,
 * settling calls the store in any case, and no caller may use permits during a penalty.
 */
function canLease({ algorithm, mode, reserved, penalty, needsSettlement, counts }: StoreCharge): boolean {
  const isPlain = mode === 'enforce' && reserved === 0 && !penalty && !needsSettlement && countsEveryRequest(counts)
  return isPlain && ALGORITHMS[algorithm].lease !== undefined
}

/** @returns a name that is equal for all charges of the same limits at the same cost */
function formatAccountName(charge: StoreCharge): string {
  // No name of a plan has a slash.
  return (charge.cost === 1 ? '' : `/${charge.cost} `) + formatStatusName(charge)
}

/** The next request that finds no permits makes its own call, and reports its failure. */
function ignoreStoreError(error: unknown): void {
  if (!(error instanceof StoreError)) throw error
}
