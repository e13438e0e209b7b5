/** The leases of an isolate: decides a request by the permits of its charge, and takes more before they run out. */
import type { Decision, DecisionRequest, LimitState, StoreCharge } from '../../model/charge.ts'
import { type Adjustment, StoreError } from '../../model/store.ts'
import type { CallContext } from '../../runtime/call-context.ts'
import type { Clocks } from '../../runtime/clocks.ts'
import { mapList } from '../../runtime/lists.ts'
import { Lru } from '../../runtime/lru.ts'
import { ChargeTimes } from '../../store/charge-times.ts'
import type { RefusalCachingStore } from '../refusals/refusal-cache.ts'
import { formatStatusName, type StatusCache } from '../refusals/status-cache.ts'
import type { StageWatch } from '../stages/stage.ts'
import { LeaseAccount } from './lease-account.ts'
import { LeaseCall, type LeaseCallParts } from './lease-call.ts'
import { LeaseClock } from './lease-clock.ts'
import { countMore, type LeaseOrder, type LeasingCaller } from './lease-plan.ts'
import { countMaxWaiting, findAheadMs, findRoom, findTerms, findUsableMs, isHot, isShort } from './lease-size.ts'
import type { Lease, SharedDecision } from './shared-calls.ts'

/** Permits of further callers expire unused. */
const MAX_ACCOUNTS = 10_000

export interface LeaseParts extends Pick<Clocks, 'now' | 'readSteadyMs'> {
  /** Fed by the stage below. */
  readonly statuses: StatusCache
  /** Deadline of a call. */
  readonly timeoutMs: number
  readonly watch?: StageWatch | undefined
}

/** Workers with a compatibility date before 2024-10-14 end requests that await what another resolves: they hang. */
const CAN_AWAIT_OTHERS =
  !('WebSocketPair' in globalThis) ||
  (globalThis as { Cloudflare?: { compatibilityFlags?: Readonly<Record<string, boolean>> } }).Cloudflare
    ?.compatibilityFlags?.handle_cross_request_promise_resolution === true

export class Leasing {
  readonly store: RefusalCachingStore
  readonly clock: LeaseClock
  /** When permits were charged that decisions used together with others. */
  readonly times = new ChargeTimes()
  readonly #parts: LeaseParts
  readonly #maxPermits: number
  readonly #accounts = new Lru<LeaseAccount>(MAX_ACCOUNTS)
  #roundTripMs = 0
  /** The latest call has failed: until one grants something, none is waited for, so that a breaker sees each. */
  #isFailing = false

  constructor(store: RefusalCachingStore, maxPermits: number, parts: LeaseParts) {
    this.store = store
    this.clock = new LeaseClock(parts)
    this.#parts = parts
    this.#maxPermits = maxPermits
  }

  get timeoutMs(): number {
    return this.#parts.timeoutMs
  }

  /** Corrects charges, each at its own time. @throws {StoreError} */
  async settle(differences: readonly Adjustment[], chargedAtMs: number): Promise<void> {
    const timesMs = differences.map(({ charge }) => this.times.get(charge.key, chargedAtMs))
    for (const timeMs of new Set(timesMs)) {
      const own = differences.filter((_, at) => timesMs[at] === timeMs)
      await this.store.settle(own, timeMs)
    }
  }

  /** @param timeoutMs time that the decision about other charges may take; 0 if there are none */
  createCaller(charge: StoreCharge, nowMs: number, context: CallContext, timeoutMs: number): LeasingCaller {
    // No name of a plan begins with a slash.
    const name = (charge.cost === 1 ? '' : `/${charge.cost} `) + formatStatusName(charge)
    const account = this.#ensureAccount(name)
    const terms = findTerms(charge)
    account.see(nowMs, terms)
    // Its call may take as long as the decision about the others after it.
    const canKeep = findUsableMs(charge, this.#parts.statuses, terms.maxLeaseMs, nowMs) > 2 * timeoutMs
    return { charge, name, account, terms, nowMs, context, keepMs: canKeep ? timeoutMs : 0 }
  }

  #ensureAccount(name: string): LeaseAccount {
    const { generation } = this.clock
    const known = this.#accounts.get(name)
    if (known?.generation === generation) return known
    const account = new LeaseAccount(generation)
    this.#accounts.set(name, account)
    return account
  }

  /** Finds where requests that lack permits of the same charges share their calls: if of several, it holds no permits. */
  findCallAccount(callers: readonly LeasingCaller[]): LeaseAccount {
    const [only, second] = callers as readonly [LeasingCaller, ...LeasingCaller[]]
    return second ? this.#ensureAccount(JSON.stringify(callers.map(({ name }) => name))) : only.account
  }

  /** The same caller, as of now: when leases have ended, it has another account. */
  refresh(caller: LeasingCaller): LeasingCaller {
    const nowMs = this.clock.read()
    const isCurrent = caller.account.generation === this.clock.generation
    return { ...caller, nowMs, account: isCurrent ? caller.account : this.#ensureAccount(caller.name) }
  }

  isHot(charge: StoreCharge): boolean {
    return isHot(charge, this.#parts.statuses)
  }

  /** Decides a request of one charge, or the last one of several. */
  async decideFor(caller: LeasingCaller): Promise<Decision> {
    const { account, nowMs } = caller
    const lease = account.take(nowMs)
    if (lease) {
      this.use([caller])
      return { granted: 1, nowMs: lease.chargedAtMs, usage: [this.describe(caller)] }
    }
    return account.repeat(nowMs) ?? this.#outlive(caller, this.#decideByCall(caller))
  }

  async #decideByCall(caller: LeasingCaller): Promise<Decision> {
    const admit = ({ nowMs }: Decision) => {
      return { granted: 1, nowMs, usage: [this.describe({ ...caller, nowMs: this.#parts.now() })] }
    }
    const waiting = this.wait([caller], 0)
    const shared = waiting && (await waiting)
    if (shared) {
      if (shared.granted === 0) return shared
      this.#parts.watch?.onAvoided('leases', [caller.charge])
      return admit(shared)
    }
    const decision = await this.#takeFor({ ...caller, nowMs: this.clock.read() }, 0)
    return decision.granted > 1 ? admit(decision) : decision
  }

  /** Takes a permit that is kept until others have decided. @returns it with its lease, unless it is refused */
  async obtain(caller: LeasingCaller): Promise<SharedDecision> {
    const { account, nowMs, keepMs } = caller
    const repeated = account.repeat(nowMs)
    if (repeated) return repeated
    const waiting = this.wait([caller], keepMs)
    const shared = waiting && (await waiting)
    return shared ?? this.#outlive(caller, this.#takeFor({ ...caller, nowMs: this.clock.read() }, keepMs))
  }

  #takeFor(caller: LeasingCaller, ownKeepMs: number): Promise<SharedDecision> {
    return this.#take([caller], caller.account, { own: 1, ownKeepMs, more: this.#countMore([caller]) })
  }

  /**
   * Decides charges that all lack a permit, by a call that takes more of each: these are granted, too.
   * @param shared the account in which it has waited, and others still do
   */
  async decideJointly(callers: readonly LeasingCaller[], shared: LeaseAccount): Promise<Decision> {
    const taking = this.#take(callers, shared, { own: 1, ownKeepMs: 0, more: this.#countMore(callers) })
    const decision = await this.#outlive(callers[0] as LeasingCaller, taking)
    if (decision.granted < 2) return decision
    const nowMs = this.#parts.now()
    return { ...decision, usage: callers.map((caller) => this.describe({ ...caller, nowMs })) }
  }

  /** Others may wait for its call, even if its own client disconnects. */
  #outlive<T>({ context }: LeasingCaller, deciding: Promise<T>): Promise<T> {
    if (CAN_AWAIT_OTHERS) context.waitUntil(deciding.catch(() => {}))
    return deciding
  }

  /** Returns a permit, unless the clock has stepped back meanwhile. */
  giveBack(caller: LeasingCaller, lease: Lease): void {
    this.clock.read()
    if (lease.generation === this.clock.generation) caller.account.giveBack(lease)
  }

  /** @returns true if a permit that was kept may still be used */
  isCurrent({ expiresAtMs, generation }: Lease): boolean {
    return this.clock.read() < expiresAtMs && generation === this.clock.generation
  }

  /** Uses permits that are taken already, and takes more before they run out, unless the request has waited. */
  use(callers: readonly LeasingCaller[], hasWaited = false): void {
    const aheadMs = findAheadMs(this.#roundTripMs)
    const short = callers.filter(({ charge, account, nowMs, keepMs }) => {
      this.#parts.watch?.onAvoided('leases', [charge])
      return isShort(account.pace, aheadMs, account.countUnused(nowMs + aheadMs + keepMs))
    })
    if (!hasWaited) this.takeMore(short)
  }

  /** Waits for a call that others share. @returns undefined if there is none: this request begins one, in the same turn */
  wait(
    callers: readonly LeasingCaller[],
    keepMs: number,
    account: LeaseAccount = this.findCallAccount(callers),
  ): Promise<SharedDecision | undefined> | undefined {
    if (!CAN_AWAIT_OTHERS || this.#isFailing) return undefined
    const rooms = callers.map(({ charge }) => findRoom(charge, this.#parts.statuses))
    const canWait = account.calls.canWait(Math.min(...rooms.map(countMaxWaiting)))
    return canWait ? account.calls.wait(this.timeoutMs, keepMs) : undefined
  }

  /** The limits of a charge, as far as they are known. Permits that are not used remain. */
  describe({ charge, account, nowMs }: LeasingCaller): readonly LimitState[] {
    const left = account.countLeft(nowMs)
    const { usage, sentAtMs } = this.#parts.statuses.ensure(charge)
    const elapsedMs = Math.max(0, nowMs - sentAtMs)
    return mapList(usage, ({ remaining, resetMs }) => {
      return { remaining: remaining + left * charge.cost, resetMs: Math.max(0, resetMs - elapsedMs), retryAfterMs: 0 }
    })
  }

  /** Takes permits for requests to come: of all charges by one call, if that decides them at once. */
  takeMore(callers: readonly LeasingCaller[]): void {
    const short = callers.filter((caller) => this.#countMore([caller]) > 1)
    const isJoint = short.length > 1 && !this.store.isSplit?.(short.map(({ charge }) => charge))
    for (const group of isJoint ? [short] : short.map((caller) => [caller])) {
      const order = { own: 0, ownKeepMs: 0, more: this.#countMore(group) } as const
      const taking = this.#take(group, this.findCallAccount(group), order)
      group[0]?.context.waitUntil(taking.catch(ignoreStoreError))
    }
  }

  #countMore(callers: readonly LeasingCaller[]): number {
    return countMore(callers, this.#callParts)
  }

  get #callParts(): LeaseCallParts {
    const { statuses, now, timeoutMs } = this.#parts
    const { clock } = this
    return { statuses, now, timeoutMs, clock, roundTripMs: this.#roundTripMs, maxPermits: this.#maxPermits }
  }

  /** @param shared the account in which requests wait for the call @throws {StoreError} it may have charged */
  async #take(callers: readonly LeasingCaller[], shared: LeaseAccount, order: LeaseOrder): Promise<SharedDecision> {
    const call = new LeaseCall(callers, shared, order, this.#callParts)
    try {
      const decision = await this.ask(call.request, callers[0]?.context)
      // A permit that is kept may go back.
      const leased = Math.max(0, decision.granted - (order.ownKeepMs > 0 ? 0 : order.own))
      for (const _ of callers) this.#parts.watch?.onLeased(leased)
      return call.succeed(decision)
    } catch (error) {
      this.#isFailing = true
      call.fail(error)
      throw error
    } finally {
      call.end(this.#isFailing)
    }
  }

  async ask(request: DecisionRequest, context: CallContext | undefined): Promise<Decision> {
    const sentAtMs = this.clock.read()
    const decision = await this.store.decide(request, context)
    const elapsedMs = this.clock.read() - sentAtMs
    // A refusal may come from the cache.
    if (decision.granted > 0) {
      this.#isFailing = false
      // A longer round trip counts at once, and shorter ones by and by.
      this.#roundTripMs = Math.max(elapsedMs, (7 * this.#roundTripMs + elapsedMs) / 8)
    }
    return decision
  }
}

/** The next request that finds no permits makes its own call, and reports its failure. */
function ignoreStoreError(error: unknown): void {
  if (!(error instanceof StoreError)) throw error
}
