/** Limits inside a program: `createLimiter`. */
import { ALGORITHMS, holdsSlots } from '../core/algorithms/algorithm-table.ts'
import { applyActualCosts } from '../core/engine/apply-actual-costs.ts'
import { DecisionWatch } from '../core/engine/decision-watch.ts'
import { Engine, type EngineDecision } from '../core/engine/engine.ts'
import { withLeases } from '../core/engine/leases/with-leases.ts'
import { ACTIONS, type Charge, type DecisionRequest } from '../core/model/charge.ts'
import { isEnforced, joinModes, type OnStoreError, type Policy, type PolicyMode } from '../core/model/policy.ts'
import { logFailure } from '../core/model/store.ts'
import type { CheckedLimits } from '../core/options/checked-text.ts'
import { OptionError } from '../core/options/option-error.ts'
import * as v from '../core/options/readers.ts'
import { type CallContext, Deadlines } from '../core/runtime/call-context.ts'
import { createClocks, createSteadyClock } from '../core/runtime/clocks.ts'
import { consoleLog, createHook, throttle } from '../core/runtime/log.ts'
import { createSleepClock, type SleepClock, sleep, waitAtMost } from '../core/runtime/sleep.ts'
import { WindowStore } from '../core/store/memory/window-store.ts'
import { ChargeBuilder, type Identities, MAX_CHARACTERS } from './charge-builder.ts'
import { LIMITING_READERS, type LimitingOptions } from './common-options.ts'
import {
  holdSlot,
  type LimiterDecision,
  type ObservedDecision,
  type PartialDecision,
  refuseUnanswered,
  type Slot,
  toDecision,
  toOutcome,
} from './decision.ts'
import { findMaxCost, type LimiterPolicy, type PolicyOptions, readPolicies } from './policies.ts'
import { memoryStore, noteLimiter, refuseSharedNames } from './stores.ts'

export interface LimiterOptions extends LimitingOptions {
  /**
   * Limits of one `sliding-window` policy named `default`. Either this or `policies` is required.
   * @example '10/1s, 100/1m'
   */
  readonly limits?: string | undefined
  /**
   * Limits of that policy for plans, which calls name, over the same windows.
   * @default none
   * @example { pro: '100/1s, 5000/1m' }
   */
  readonly plans?: PolicyOptions['plans']
  /**
   * Policies, all of which must grant a request, or none is charged.
   * @example [{ name: 'calls', ...tokenBucket('10/1s', { burst: 50 }) }]
   */
  readonly policies?: readonly PolicyOptions[] | undefined
  /**
   * `shadow` decides and reports, and grants everything, whatever the policies say: for tests of something else.
   * @default 'enforce'
   * @example 'shadow'
   */
  readonly mode?: PolicyMode | undefined
  /**
   * Refusals are remembered until they end, so that they cost no calls.
   * @default true if the store is remote
   * @example false
   */
  readonly refusalCache?: boolean | undefined
  /**
   * A store that keeps failing is not called for up to a second.
   * @default true if the store is remote
   * @example false
   */
  readonly circuitBreaker?: boolean | undefined
  /**
   * Called after each decision, in the asynchronous context of its call. What it throws is logged, and changes nothing.
   * @default none
   * @example ({ decidedBy, durationMs }) => histogram.record(durationMs, { decidedBy })
   */
  readonly onDecision?: ((decision: ObservedDecision) => void) | undefined
  /**
   * Keeps work going on after the response on Workers.
   * @default none
   * @example waitUntil, imported from 'cloudflare:workers'
   */
  readonly waitUntil?: ((work: Promise<unknown>) => void) | undefined
}

export interface TakeOptions {
  /**
   * Units, an integer from 1 to the smallest limit.
   * @default 1
   * @example 5
   */
  readonly cost?: number | undefined
  /**
   * Plan of the caller, for policies with `plans`: one that some policy has; those without it have their `limits`.
   * @default none
   * @example 'pro'
   */
  readonly plan?: string | undefined
  /**
   * Limits in place of those of the limiter, over the same windows: of its one policy, or by name. What was used counts
   * whatever the limits.
   * @default those of the limiter
   * @example '20/1s, 200/1m', or { calls: '20/1s, 200/1m' }
   */
  readonly limits?: string | { readonly [policy: string]: string } | undefined
}

export interface WaitOptions extends TakeOptions {
  /**
   * Ends the wait: `waitFor` then throws its reason.
   * @default none
   * @example AbortSignal.timeout(5_000)
   */
  readonly signal?: AbortSignal | undefined
  /**
   * Waits no longer than this, in milliseconds, and for the store's answer at least 100.
   * @default Infinity
   * @example 2_000
   */
  readonly maxWaitMs?: number | undefined
}

/** Holds identities to limits. Every method throws `OptionError` for an invalid argument. */
export interface Limiter {
  /**
   * Takes what a request costs, of every policy, or nothing.
   * @example const { granted, retryAfterMs } = await limiter.take('user-1', { cost: 5 })
   */
  take(identity: Identities, options?: TakeOptions): Promise<LimiterDecision>
  /**
   * Takes as many of `permits` as every policy has, each at `cost`.
   * @param permits an integer from 1
   * @example const { granted } = await limiter.takeUpTo('user-1', 10)
   */
  takeUpTo(identity: Identities, permits: number, options?: TakeOptions): Promise<PartialDecision>
  /**
   * Decides as `take` would, without taking anything.
   * @example const { limits } = await limiter.peek('user-1')
   */
  peek(identity: Identities, options?: TakeOptions): Promise<LimiterDecision>
  /**
   * Takes as soon as it is granted: sleeps for `retryAfterMs`, then takes again. If it would have to wait beyond
   * `maxWaitMs`, it returns the refusal at once. If the store takes too long, it returns a refusal with `degraded`.
   * Units that are granted after that, or after the signal, are refunded by policies that can (see `refund`).
   * @example const { granted } = await limiter.waitFor('user-1', { maxWaitMs: 2_000 })
   */
  waitFor(identity: Identities, options?: WaitOptions): Promise<LimiterDecision>
  /**
   * Takes a slot of every `concurrency` policy, and what it costs of the others.
   * @example await using slot = await limiter.hold('user-1')
   */
  hold(identity: Identities, options?: TakeOptions): Promise<Slot>
  /**
   * Corrects what was charged to what it has really cost, once that is known. What is above is charged whatever remains:
   * by sliding windows as of now, by the others in the window that it was charged in. What is below is returned by token
   * buckets, fixed windows and quotas, and stays charged by sliding windows.
   * @param decision of the same identity, to be settled once; without effect if nothing was charged
   * @param units an integer from 0
   * @example await limiter.settle('user-1', decision, usage.total_tokens)
   * @throws {StoreError} if the store gives no answer: it may have been corrected nevertheless
   */
  settle(identity: Identities, decision: LimiterDecision | PartialDecision, units: number): Promise<void>
  /**
   * Returns units of a decision, if its window still runs. Only with policies that can: token buckets, fixed windows
   * and quotas.
   * @param decision of the same identity; nothing remembers what was returned of it before
   * @param units an integer from 1; all that was charged if left out
   * @example await limiter.refund('user-1', decision, 3)
   * @throws {StoreError} if the store gives no answer: they may have been returned nevertheless
   */
  refund(identity: Identities, decision: LimiterDecision | PartialDecision, units?: number): Promise<void>
  /**
   * Deletes the counts of an identity at once.
   * @example await limiter.reset('user-1')
   * @throws {StoreError} if the store gives no answer
   */
  reset(identity: Identities): Promise<void>
}

/** `waitFor` waits for the store at least this long: its answer may grant at once. */
const MIN_ANSWER_MS = 100

const READERS = {
  // Policies are read from these.
  limits: v.ANYTHING,
  plans: v.ANYTHING,
  policies: v.ANYTHING,
  ...LIMITING_READERS,
  mode: v.MODE,
  refusalCache: v.BOOLEAN,
  circuitBreaker: v.BOOLEAN,
  onDecision: v.FUNCTION,
  waitUntil: v.FUNCTION,
} satisfies Readonly<Record<keyof LimiterOptions, v.Reader>>

const WAIT_READERS = { signal: v.SIGNAL, maxWaitMs: v.withDefault(v.DURATION_MS, Number.POSITIVE_INFINITY) }

type ObservableRequest = DecisionRequest<Charge> & Pick<ObservedDecision, 'action'>

/**
 * Makes a limiter.
 * @example const limiter = createLimiter({ limits: '10/1s, 100/1m' })
 * @throws {OptionError} naming the option to fix
 */
export function createLimiter<LimitsText extends string = string, PlansText extends string = string>(
  options: LimiterOptions & CheckedLimits<LimitsText, PlansText>,
): Limiter {
  return new PolicyLimiter(options)
}

class PolicyLimiter implements Limiter {
  readonly #policies: readonly LimiterPolicy[]
  /** Names of all plans. */
  readonly #plans: ReadonlySet<string>
  readonly #charges: ChargeBuilder
  readonly #engine: Engine
  readonly #watch: DecisionWatch | undefined
  readonly #onDecision: LimiterOptions['onDecision']
  /** The store, if it is in memory with nothing around it. */
  readonly #memory: WindowStore | undefined
  /** Decides at once, if one sliding window in memory holds all limits. */
  readonly #takeNow: ((identity: string, cost: number) => LimiterDecision) | undefined
  readonly #maxCost: number
  readonly #hasSlots: boolean
  readonly #context: CallContext
  readonly #now: () => number
  /** Makes the clock that ends a wait, if the store decides by it, too. */
  readonly #createSleepClock: () => SleepClock | undefined

  constructor(options: LimiterOptions) {
    const values = v.readOptions('createLimiter', options, READERS)
    const clocks = createClocks(options.now)
    const { now } = clocks
    const { onStoreError, leases, keyPrefix, identitySecret, localShare, mode } = values
    const { store = memoryStore({ now: options.now }), waitUntil: keepAlive = () => {} } = values
    const { refusalCache = store.isRemote, circuitBreaker = store.isRemote } = values
    this.#now = now
    this.#createSleepClock = () => (store.isRemote ? undefined : createSleepClock(options.now))
    const policies = readLimiterPolicies(options, onStoreError)
    this.#policies = mode ? policies.map((policy) => ({ ...policy, mode: joinModes(mode, policy.mode) })) : policies
    this.#plans = new Set(this.#policies.flatMap(({ termsByPlan }) => [...(termsByPlan?.keys() ?? [])]))
    refuseSharedNames(store, keyPrefix, this.#policies)
    const isReadable = !store.isRemote && identitySecret === undefined
    this.#charges = new ChargeBuilder({ policies: this.#policies, keyPrefix, secret: identitySecret, isReadable })
    this.#maxCost = findMaxCost(this.#policies)
    this.#hasSlots = this.#policies.some(holdsSlots)
    const log = throttle(options.log ?? consoleLog, now)
    noteLimiter(store, log)
    this.#onDecision = createHook('onDecision', options.onDecision, log)
    this.#watch = options.onDecision && new DecisionWatch(store)
    this.#context = {
      waitUntil: (work) => keepAlive(logFailure(work, log)),
      // On Workers, two requests cannot share a timer. A request that waits for nothing makes none.
      get deadlines() {
        return Deadlines.createForOne()
      },
    }
    const opened = store.open(new Set(this.#policies.map(({ algorithm }) => algorithm)), {
      log,
      hasBreaker: circuitBreaker,
    })
    if (leases === 'off' && !refusalCache && !circuitBreaker && opened instanceof WindowStore) {
      this.#memory = opened
      const [charge, ...others] = this.#charges.build('-', 1) as readonly [Charge]
      const isPlain = others.length === 0 && charge.algorithm === 'sliding-window' && !charge.penalty
      // Without that identity, its key is what comes before all others.
      if (isPlain && isReadable && !this.#watch) this.#takeNow = opened.openWindow(charge.key.slice(0, -1), charge)
    }
    this.#engine = new Engine({
      ...clocks,
      store: opened,
      log,
      storeTimeoutMs: store.timeoutMs,
      leases: leases === 'off' ? undefined : withLeases(leases),
      localShare,
      repeats: refusalCache ? 'certain' : 'none',
      hasBreaker: circuitBreaker,
      watch: this.#watch,
    })
  }

  take(identity: Identities, options?: TakeOptions): Promise<LimiterDecision> {
    const cost = options === undefined ? 1 : findOnlyCost(options)
    const isShort = typeof identity === 'string' && identity !== '' && identity.length <= MAX_CHARACTERS
    // An async function keeps its state for an await, which takes longer than such a decision.
    if (this.#takeNow && isShort && isCost(cost, this.#maxCost)) return Promise.resolve(this.#takeNow(identity, cost))
    return this.#take(identity, options)
  }

  async #take(identity: Identities, options: TakeOptions = {}): Promise<LimiterDecision> {
    const cost = readCostOption('take', options)
    this.#refuseSlots('take')
    return toDecision(await this.#decide(identity, cost, options), cost)
  }

  async takeUpTo(identity: Identities, permits: number, options: TakeOptions = {}): Promise<PartialDecision> {
    const cost = readCostOption('takeUpTo', options)
    this.#refuseSlots('takeUpTo')
    v.read(v.integer(1, v.MAX_COST), permits, 'permits')
    const decided = await this.#decide(identity, cost, options, 'take-up-to', permits)
    return { granted: decided.granted, ...toOutcome(decided, decided.granted * cost) }
  }

  async peek(identity: Identities, options: TakeOptions = {}): Promise<LimiterDecision> {
    const cost = readCostOption('peek', options)
    return toDecision(await this.#decide(identity, cost, options, 'peek'), 0)
  }

  async waitFor(identity: Identities, options: WaitOptions = {}): Promise<LimiterDecision> {
    const cost = readCostOption('waitFor', options, ['signal', 'maxWaitMs'])
    const { plan, limits } = options
    const { signal, maxWaitMs } = v.readValues(WAIT_READERS, options)
    const one = plan === undefined && limits === undefined ? { cost } : { cost, plan, limits }
    const readPassedMs = createSteadyClock(() => performance.now())
    for (;;) {
      signal?.throwIfAborted()
      const clock = this.#createSleepClock()
      const decision = await this.#takeWithin(maxWaitMs - readPassedMs(), identity, one, signal)
      if (decision.granted || readPassedMs() + decision.retryAfterMs > maxWaitMs) return decision
      await sleep(decision.retryAfterMs, signal, clock)
    }
  }

  async hold(identity: Identities, options: TakeOptions = {}): Promise<Slot> {
    const cost = readCostOption('hold', options)
    if (!this.#hasSlots) throw new OptionError('hold', 'a limiter with a policy of concurrency()', this.#listNames())
    const decided = await this.#decide(identity, cost, options)
    return holdSlot(toDecision(decided, cost), decided.hold, this.#context)
  }

  async settle(identity: Identities, decision: LimiterDecision | PartialDecision, units: number): Promise<void> {
    const charged = readCharged(decision)
    v.read(v.integer(0, v.MAX_COST), units, 'units')
    this.#refuseSlots('settle')
    await this.#correct(identity, decision, units - charged)
  }

  async refund(identity: Identities, decision: LimiterDecision | PartialDecision, units?: number): Promise<void> {
    const charged = readCharged(decision)
    const fixed = this.#policies.find(({ algorithm }) => !ALGORITHMS[algorithm].implementation.settle)
    if (fixed) {
      const expected = 'policies of tokenBucket(), fixedWindow() or quota() only'
      throw new OptionError('refund', expected, `${fixed.name}: ${fixed.algorithm}`)
    }
    if (charged === 0) return
    if (units !== undefined) v.read(v.integer(1, charged), units, 'units')
    await this.#correct(identity, decision, -(units ?? charged))
  }

  async reset(identity: Identities): Promise<void> {
    await this.#engine.delete(this.#charges.build(identity, 1).map(({ key }) => key))
  }

  /**
   * Takes, and gives up when that takes too long. Units that are granted later are refunded.
   * @throws the signal's reason, as soon as it is aborted
   */
  async #takeWithin(leftMs: number, identity: Identities, options: TakeOptions, signal: AbortSignal | undefined) {
    const taking = this.take(identity, options)
    let decision: LimiterDecision | undefined
    try {
      decision = await waitAtMost(taking, Math.max(MIN_ANSWER_MS, leftMs), signal)
      return decision ?? refuseUnanswered(this.#now())
    } finally {
      const refund = (late: LimiterDecision) => this.#correct(identity, late, -late.charged)
      if (!decision) this.#context.waitUntil(taking.then(refund, () => {}))
    }
  }

  /** @param units to charge besides, or below zero to return where that can be */
  async #correct(identity: Identities, decision: LimiterDecision | PartialDecision, units: number): Promise<void> {
    const { decidedAtMs: nowMs, degraded, charged } = decision
    if (charged === 0) return
    const differences = this.#charges
      .build(identity, charged, decision.plan)
      .filter(({ policy }) => wasCharged(decision, policy))
      .map((charge) => ({ charge, units }))
    const chargedIn = this.#engine.findStore(degraded !== undefined)
    await applyActualCosts(this.#engine, differences, { nowMs, chargedIn }, this.#context)
  }

  #decide(
    identity: Identities,
    cost: number,
    { plan: named, limits }: TakeOptions,
    action: ObservedDecision['action'] = 'take',
    permits = 1,
  ): EngineDecision | Promise<EngineDecision> {
    const plan = limits === undefined ? named : this.#charges.nameLimits(limits)
    const maxCost = limits === undefined || plan === undefined ? this.#maxCost : this.#charges.findLimits(plan).maxCost
    if (!isCost(cost, maxCost)) refuseCost(cost, maxCost)
    if (named !== undefined) this.#checkPlan(named, limits)
    const request = { action, permits, charges: this.#charges.build(identity, cost, plan) }
    return this.#watch ? this.#decideWatched(this.#watch, request, cost) : this.#decideRequest(request)
  }

  /** Decides, and calls `onDecision`. */
  async #decideWatched(watch: DecisionWatch, request: ObservableRequest, cost: number): Promise<EngineDecision> {
    const describe = watch.start()
    // Those of the builder are of other decisions, too.
    const charges = request.charges.map((charge) => ({ ...charge }))
    const decision = await this.#decideRequest({ ...request, charges })
    const { granted, degraded } = decision
    const { action, permits } = request
    const outcome = toOutcome(decision, ACTIONS[action].charges ? granted * cost : 0)
    this.#onDecision?.({ action, permits, granted, ...outcome, ...describe(charges, degraded) })
    return decision
  }

  #decideRequest(request: DecisionRequest<Charge>): EngineDecision | Promise<EngineDecision> {
    // A store in memory cannot fail: nothing around it waits, and only slots need a follow-up.
    const store = this.#hasSlots ? undefined : this.#memory
    if (store) return { ...store.decideNow(request), charges: request.charges, chargedIn: store }
    return this.#engine.decide(request.charges, this.#context, request)
  }

  /** A plan that is misspelt would silently have smaller limits. */
  #checkPlan(plan: string, limits: TakeOptions['limits']): void {
    if (limits !== undefined) throw new OptionError('plan', 'no plan beside limits', plan)
    if (this.#plans.has(plan)) return
    const expected = `one of ${[...this.#plans].join(', ')}`
    throw new OptionError('plan', this.#plans.size > 0 ? expected : 'a limiter with plans', plan)
  }

  #refuseSlots(method: string): void {
    const expected = 'policies without concurrency(), whose slots hold() takes'
    if (this.#hasSlots) throw new OptionError(method, expected, this.#listNames(), 'NEEDS_HOLD')
  }

  #listNames(): readonly string[] {
    return this.#policies.map(({ name }) => name)
  }
}

function isCost(cost: number | undefined, max: number): cost is number {
  return cost === 1 || (Number.isInteger(cost) && (cost as number) >= 1 && (cost as number) <= max)
}

function refuseCost(cost: number, max: number): never {
  throw new OptionError('cost', `an integer from 1 to ${max}`, cost, cost > max ? 'COST_TOO_HIGH' : undefined)
}

/** @returns undefined if there is anything but a cost, or none */
function findOnlyCost(options: TakeOptions): number | undefined {
  for (const name in options) if (name !== 'cost') return undefined
  return options?.cost ?? undefined
}

/** @throws {OptionError} if there is an option that the method does not know, e.g. a misspelt one */
function readCostOption(method: string, options: TakeOptions, more: readonly string[] = []): number {
  v.checkNames(method, options, ['cost', 'plan', 'limits', ...more])
  return options.cost === undefined ? 1 : options.cost
}

function readCharged(decision: LimiterDecision | PartialDecision): number {
  return v.read(v.integer(0, Number.MAX_SAFE_INTEGER), decision?.charged, 'decision.charged')
}

/**
 * Neither a shadow policy that would have refused, nor one that let everything through while the store was away, is
 * charged.
 */
function wasCharged({ limits, granted }: LimiterDecision | PartialDecision, policy: Policy): boolean {
  // Which of several permits a shadow policy would have granted, no decision says.
  if (!isEnforced(policy) && Number(granted) > 1) return false
  const own = limits.filter((limit) => limit.policy === policy.name)
  return own.length > 0 && own.every(({ retryAfterMs }) => retryAfterMs === 0)
}

function readLimiterPolicies(options: LimiterOptions, onStoreError: OnStoreError): readonly LimiterPolicy[] {
  const { limits, plans, policies } = options
  if (limits === undefined && policies === undefined) throw new OptionError('limits', 'limits or policies', undefined)
  if (limits === undefined) {
    if (plans !== undefined) throw new OptionError('plans', 'limits with it, or plans in policies', plans)
    return readPolicies(policies ?? [], onStoreError)
  }
  if (policies !== undefined) throw new OptionError('limits', 'either limits or policies', limits)
  return readPolicies([{ name: 'default', algorithm: 'sliding-window', limits, plans }], onStoreError, () => '')
}
