/** Takes the permits of charges, and decides by them. */
import type { Decision, DecisionRequest, LimitState, StoreCharge } from '../../model/charge.ts'
import { type Adjustment, StoreError } from '../../model/store.ts'
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
import type { RefusalCachingStore } from './refusal-cache.ts'
import type { StageWatch } from './stage.ts'
import { formatStatusName, type StatusCache } from './status-cache.ts'

/** Permits of further callers expire unused. */
const MAX_ACCOUNTS = 10_000

/** A clock of whole milliseconds, read with one that has parts of them, seems to move by up to this. */
const MAX_ROUNDING_MS = 1

/**
 * On Workers, a request whose timer is late reads when that was due (workerd, `io-channels.h`), on the steady clock, too:
 * up to so much less than others have read is no step back, and it is their time that counts.
 */
const MAX_LATE_MS = 20

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
  readonly name: string
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
  #latestSteadyMs = 0
  /** The clock has been ahead of the steady one by at least this since it last stepped back. */
  #leastAheadMs = Number.NEGATIVE_INFINITY
  /** Grows when all accounts are dropped. */
  #generation = 0

  constructor(store: RefusalCachingStore, maxPermits: number, parts: LeaseParts) {
    this.store = store
    this.parts = parts
    this.#maxPermits = maxPermits
  }

  /** Corrects charges, each at its own time. @throws {StoreError} */
  async settle(differences: readonly Adjustment[], chargedAtMs: number): Promise<void> {
    const timesMs = differences.map(({ charge }) => this.times.get(charge.key, chargedAtMs))
    for (const timeMs of new Set(timesMs)) {
      const own = differences.filter((_, at) => timesMs[at] === timeMs)
      await this.store.settle(own, timeMs)
    }
  }

  /** Lets all permits expire, also those on their way. */
  dropAccounts(): void {
    this.#generation++
    this.#accounts = new Lru(MAX_ACCOUNTS)
  }

  /** @param timeoutMs time that the decision about other charges may take; 0 if there are none */
  createCaller(charge: StoreCharge, nowMs: number, context: CallContext, timeoutMs: number): LeasingCaller {
    // No name of a plan begins with a slash.
    const name = (charge.cost === 1 ? '' : `/${charge.cost} `) + formatStatusName(charge)
    const account = this.#ensureAccount(name)
    const terms = findTerms(charge)
    account.see(nowMs, terms)
    // Its call may take as long as the decision about the others after it.
    const canKeep = findUsableMs(charge, this.parts.statuses, terms.maxLeaseMs, nowMs) > 2 * timeoutMs
    return { charge, name, account, terms, nowMs, context, keepMs: canKeep ? timeoutMs : 0 }
  }

  #ensureAccount(name: string): LeaseAccount {
    let account = this.#accounts.get(name)
    if (!account) {
      account = new LeaseAccount(this.#generation)
      this.#accounts.set(name, account)
    }
    return account
  }

  /** Finds where requests that lack permits of the same charges share their calls: if of several, it holds no permits. */
  findSharedAccount(callers: readonly LeasingCaller[]): LeaseAccount {
    const [only, second] = callers as readonly [LeasingCaller, ...LeasingCaller[]]
    return second ? this.#ensureAccount(JSON.stringify(callers.map(({ name }) => name))) : only.account
  }

  /** Decides a request of one charge, or the last one of several. */
  async decideFor(caller: LeasingCaller): Promise<Decision> {
    const { account, nowMs, context } = caller
    const lease = account.take(nowMs)
    if (lease) {
      this.use([caller])
      return { granted: 1, nowMs: lease.chargedAtMs, usage: [this.describe(caller)] }
    }
    const { repeated } = account
    if (repeated && nowMs < repeated.untilMs) return repeatOutcome(repeated, nowMs)
    const deciding = this.#decideByCall(caller)
    // Others may wait for its call, even if its own client disconnects.
    if (CAN_AWAIT_OTHERS) context.waitUntil(deciding.catch(() => {}))
    return deciding
  }

  async #decideByCall(caller: LeasingCaller): Promise<Decision> {
    const { now, watch } = this.parts
    const admit = ({ nowMs }: Decision) => {
      return { granted: 1, nowMs, usage: [this.describe({ ...caller, nowMs: now() })] }
    }
    const waiting = this.wait([caller], 0)
    const shared = waiting && (await waiting)
    if (shared) {
      if (shared.granted === 0) return shared
      watch?.onAvoided('leases', [caller.charge])
      return admit(shared)
    }
    const calling = { ...caller, nowMs: this.readClock() }
    const decision = await this.#take([calling], 1, this.#countPermits([calling]))
    return decision.granted > 1 ? admit(decision) : decision
  }

  /** Takes a permit that is kept until others have decided. @returns it with its lease, unless it is refused */
  async obtain(caller: LeasingCaller): Promise<SharedDecision> {
    const { account, nowMs, context, keepMs } = caller
    const { repeated } = account
    if (repeated && nowMs < repeated.untilMs) return repeatOutcome(repeated, nowMs)
    const waiting = this.wait([caller], keepMs)
    const shared = waiting && (await waiting)
    if (shared) return shared
    const calling = { ...caller, nowMs: this.readClock() }
    const taking = this.#take([calling], 1, this.#countPermits([calling]), keepMs)
    if (CAN_AWAIT_OTHERS) context.waitUntil(taking.catch(() => {}))
    return taking
  }

  /**
   * Decides charges that all lack a permit, by a call that takes more of each: these are granted, too.
   * @param shared the account in which it has waited, and others still do
   */
  async decideJointly(callers: readonly LeasingCaller[], shared: LeaseAccount): Promise<Decision> {
    const taking = this.#take(callers, 1, this.#countPermits(callers), 0, shared)
    if (CAN_AWAIT_OTHERS) callers[0]?.context.waitUntil(taking.catch(() => {}))
    const decision = await taking
    if (decision.granted < 2) return decision
    const nowMs = this.parts.now()
    return { ...decision, usage: callers.map((caller) => this.describe({ ...caller, nowMs })) }
  }

  /** Returns a permit, unless the clock has stepped back meanwhile. */
  giveBack(caller: LeasingCaller, lease: Lease): void {
    this.readClock()
    if (lease.generation === this.#generation) caller.account.giveBack(lease)
  }

  /** @returns true if a permit that was kept may still be used */
  isCurrent({ expiresAtMs, generation }: Lease): boolean {
    return this.readClock() < expiresAtMs && generation === this.#generation
  }

  /** The same caller, as of now: when the clock has stepped back, it has another account. */
  refresh(caller: LeasingCaller): LeasingCaller {
    const nowMs = this.readClock()
    const isCurrent = caller.account.generation === this.#generation
    return { ...caller, nowMs, account: isCurrent ? caller.account : this.#ensureAccount(caller.name) }
  }

  /** Uses permits that are taken already, and takes more before they run out, unless the request has waited. */
  use(callers: readonly LeasingCaller[], hasWaited = false): void {
    const aheadMs = findAheadMs(this.#roundTripMs)
    const short = callers.filter(({ charge, account, nowMs, keepMs }) => {
      this.parts.watch?.onAvoided('leases', [charge])
      return isShort(account.pace, aheadMs, account.countLeft(nowMs + aheadMs + keepMs) + account.pending)
    })
    if (!hasWaited) this.takeMore(short)
  }

  /** Waits for a call that others share. @returns undefined if there is none: this request begins one, in the same turn */
  wait(
    callers: readonly LeasingCaller[],
    keepMs: number,
    account: LeaseAccount = this.findSharedAccount(callers),
  ): Promise<SharedDecision | undefined> | undefined {
    if (!CAN_AWAIT_OTHERS || this.#isFailing) return undefined
    const rooms = callers.map(({ charge }) => findRoom(charge, this.parts.statuses))
    const canWait = account.canWait(Math.min(...rooms.map(countMaxWaiting)))
    return canWait ? account.wait(this.parts.timeoutMs, keepMs) : undefined
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

  /** Takes permits for requests to come: of all charges by one call, if that decides them at once. */
  takeMore(callers: readonly LeasingCaller[]): void {
    const short = callers.filter((caller) => this.#countPermits([caller]) > 1)
    const isJoint = short.length > 1 && !this.store.isSplit?.(short.map(({ charge }) => charge))
    for (const group of isJoint ? [short] : short.map((caller) => [caller])) {
      const taking = this.#take(group, 0, this.#countPermits(group))
      group[0]?.context.waitUntil(taking.catch(ignoreStoreError))
    }
  }

  /** Counts the permits to take of each charge: no more than any of them needs. */
  #countPermits(callers: readonly LeasingCaller[]): number {
    const { statuses } = this.parts
    const counts = callers.map(({ charge, account, terms, nowMs, keepMs }) => {
      const { pace, used, expired } = account
      const use = { pace, used, expired, unused: account.countLeft(nowMs + keepMs) + account.pending }
      const usableMs = findUsableMs(charge, statuses, terms.maxLeaseMs, nowMs) - keepMs
      return countPermits(findRoom(charge, statuses), use, usableMs, this.#roundTripMs, this.#maxPermits)
    })
    return Math.min(...counts)
  }

  /**
   * Takes permits for all requests that wait, and for `more` to come: as many of each charge.
   * @param own 1 if the request that makes the call needs one, too
   * @param ownKeepMs time for which that one must last
   */
  async #take(
    callers: readonly LeasingCaller[],
    own: 0 | 1,
    more: number,
    ownKeepMs = 0,
    shared: LeaseAccount = this.findSharedAccount(callers),
  ): Promise<SharedDecision> {
    const { statuses, now, timeoutMs, watch } = this.parts
    const [first] = callers as readonly [LeasingCaller]
    const sentAtMs = now()
    const untilMs = first.nowMs + timeoutMs
    const generation = this.#generation
    const isJoint = callers.length > 1
    const call = shared.beginCall(more, untilMs)
    const calls = isJoint
      ? callers.map(({ account }) => [account, account.beginCall(more, untilMs, false)] as const)
      : []
    const needed = own + call.waiters.length
    const permits = needed + more
    const kept = [...(more > 0 ? callers : [{ keepMs: ownKeepMs }]), ...call.waiters]
    const keepMs = Math.max(...kept.map((each) => each.keepMs))
    const neededMs = callers.map(({ account, terms, nowMs }) => {
      const total = more > 0 ? account.countLeft(nowMs) + account.pending : 0
      return findLeaseMs(total, account.pace, this.#roundTripMs, keepMs, terms)
    })
    // No lease is longer than the windows of its charge allow, nor than those of the others.
    const maxMs = Math.min(...callers.map(({ terms }) => terms.maxLeaseMs))
    const leaseMs = more > 0 || keepMs > 0 ? Math.min(maxMs, Math.max(...neededMs)) : 0
    if (shared.repeated) shared.repeated.untilMs = first.nowMs + findAheadMs(this.#roundTripMs)
    try {
      const isLease = permits > 1 || leaseMs > 0
      const lasting = isLease && ({ action: 'take-up-to', permits, leaseMs } as const)
      const charges = callers.map(({ charge }) => charge)
      const decision = await this.ask({ action: 'take', permits: 1, ...lasting, charges }, first.context)
      const { granted } = decision
      shared.repeated = granted === 0 ? this.#createRepeated(first, decision, sentAtMs) : undefined
      // Those that wait for permits of several charges find them at hand.
      const used = Math.min(isJoint ? own : needed, granted)
      const leases = callers.map(({ charge, account }) => {
        account.used += used
        // One that is kept may go back.
        watch?.onLeased(Math.max(0, granted - (ownKeepMs > 0 ? 0 : own)))
        // The store decided when the call was sent, or later.
        const expiresAtMs = sentAtMs + findUsableMs(charge, statuses, leaseMs, sentAtMs)
        const lease = { permits: granted - used, expiresAtMs, chargedAtMs: decision.nowMs, generation }
        if (lease.permits > 0 && generation === this.#generation) account.add(lease)
        return lease
      })
      const result = keepMs > 0 && granted > 0 ? { ...decision, lease: leases[0] } : decision
      // Those that wait for permits of several charges find none at hand if a step back of the clock has ended them.
      const isLost = isJoint && generation !== this.#generation
      shared.share(call, result, isLost ? 0 : granted - own, isJoint && granted > 0)
      return result
    } catch (error) {
      this.#isFailing = true
      shared.repeated = error instanceof StoreError ? this.#createRepeated(first, error, sentAtMs) : undefined
      shared.fail(call, error)
      throw error
    } finally {
      for (const [account, own] of [...calls, [shared, call] as const]) {
        account.endCall(own)
        account.serveWaiting(account.generation === this.#generation, this.#isFailing, now)
      }
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
    const { now, readSteadyMs = () => 0 } = this.parts
    // The process may be held up between two readings: the clock is ahead by at most the first difference, and at least
    // the second.
    const beforeMs = readSteadyMs()
    const nowMs = now()
    const afterMs = readSteadyMs()
    const lateMs = afterMs < this.#latestSteadyMs ? MAX_LATE_MS : 0
    if (nowMs < this.#latestMs - lateMs || nowMs - beforeMs < this.#leastAheadMs - MAX_ROUNDING_MS) {
      this.dropAccounts()
      this.#leastAheadMs = Number.NEGATIVE_INFINITY
      this.#latestMs = nowMs
      this.#latestSteadyMs = afterMs
    }
    this.#leastAheadMs = Math.max(this.#leastAheadMs, nowMs - afterMs)
    this.#latestMs = Math.max(this.#latestMs, nowMs)
    this.#latestSteadyMs = Math.max(this.#latestSteadyMs, afterMs)
    return this.#latestMs
  }
}

/** The next request that finds no permits makes its own call, and reports its failure. */
function ignoreStoreError(error: unknown): void {
  if (!(error instanceof StoreError)) throw error
}
