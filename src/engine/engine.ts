import { ALGORITHMS } from '../algorithms/algorithm-table.ts'
import type { Charge, Decision, DecisionRequest, StoreCharge } from '../model/charge.ts'
import { type Adjustment, type Store, StoreError } from '../model/store.ts'
import type { Degradation, SlotHold } from '../model/verdict.ts'
import type { CallContext } from '../runtime/call-context.ts'
import type { Log } from '../runtime/log.ts'
import { randomSlot } from '../runtime/random.ts'
import { type Circuit, CircuitBreaker, withBreaker } from './circuit-breaker.ts'
import { withRefusalCache } from './refusal-cache.ts'
import { type AvoidedCalls, createAvoidedCalls, type Stage } from './stage.ts'

export interface EngineOptions {
  readonly store: Store
  /** Decides where the store gives no answer. */
  readonly fallback: Store
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
  readonly log: Log
  /** Deadline of a decision by the store, in milliseconds. A decision that is older when it arrives is made again. */
  readonly timeoutMs: number
  /** `withLeases`; left out, no permits are taken in advance. */
  readonly leases?: Stage | undefined
  /** Counts what is decided without a call: the same object that `leases` count in. */
  readonly avoided?: AvoidedCalls
  /** Share of each limit that is allowed here while the store gives no answer, above 0 and at most 1. */
  readonly localShare: number
  /** Whether refusals are remembered, so that callers who were told to wait cost no calls; if left out, they are. */
  readonly hasRefusalCache?: boolean
  /** Whether a store that keeps failing is left alone for a moment; if left out, it is. */
  readonly hasBreaker?: boolean
}

/** A decision, and what is needed to follow it up. */
export interface EngineDecision<C extends Charge = Charge> extends Decision {
  /** The charges that were decided, in order: while the store is away, their limits are shares. */
  readonly charges: readonly C[]
  /** Slots to release. */
  readonly hold?: SlotHold
  /** Where it was charged, and is to be corrected. */
  readonly chargedIn: Store
  /** How it was decided without the store. A charge that is then `open` is not decided, and `closed` grants nothing. */
  readonly degraded?: Degradation
}

type Permits = Pick<DecisionRequest, 'mode' | 'permits'>

const ONE_PERMIT: Permits = { mode: 'all', permits: 1 }

/** Decides by what is known already, else by asking the store, or without it while it gives no answer. */
export class Engine {
  /** What has been decided so far without asking the store. */
  readonly avoided: AvoidedCalls
  readonly storeKind: string
  readonly #breaker: CircuitBreaker | undefined
  readonly #store: Store
  readonly #fallback: Store
  readonly #now: () => number
  readonly #log: Log
  readonly #timeoutMs: number
  readonly #localShare: number

  constructor(options: EngineOptions) {
    const { store, fallback, now, log, timeoutMs, leases, localShare } = options
    const { avoided = createAvoidedCalls(), hasRefusalCache = true, hasBreaker = true } = options
    this.avoided = avoided
    this.storeKind = store.kind
    this.#breaker = hasBreaker
      ? new CircuitBreaker({ now, random: Math.random, probeTimeoutMs: 2 * timeoutMs })
      : undefined
    const guarded = withBreaker({ breaker: this.#breaker, now, log })(store)
    const cached = hasRefusalCache ? withRefusalCache(now, avoided)(guarded) : guarded
    this.#store = leases?.(cached) ?? cached
    this.#fallback = fallback
    this.#now = now
    this.#log = log
    this.#timeoutMs = timeoutMs
    this.#localShare = localShare
  }

  get circuit(): Circuit {
    return this.#breaker?.circuit ?? 'closed'
  }

  /** @throws {StoreError} if the store is out of reach */
  ping(): Promise<void> {
    return this.#store.ping()
  }

  /** @param permits one if left out; a `peek` is always answered by the store itself */
  async decide<C extends Charge>(
    charges: readonly C[],
    context: CallContext,
    { mode, permits }: Permits = ONE_PERMIT,
    isRepeated = false,
  ): Promise<EngineDecision<C>> {
    const request = { mode, permits, rules: charges }
    const sentAtMs = this.#now()
    try {
      const decision = await this.#store.decide(request, context)
      const ageMs = this.#now() - sentAtMs
      if (mode === 'peek' || decision.granted === 0 || ageMs <= this.#timeoutMs) {
        return toEngineDecision(request, decision, this.#store)
      }
      // It was right when it was made. But an isolate that stood still since then would release at once what windows
      // had spread out.
      this.#log('error', { event: 'late_decision', ageMs, repeated: !isRepeated })
      await this.#giveBack(charges, context)
      if (isRepeated) throw new StoreError('its decisions come too late', { mayHaveRun: false })
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      const decision = await this.#decideWithoutStore(request)
      this.#log('error', { event: 'store_error', message: error.message, answered: decision.degraded })
      // The store may have decided nevertheless: slots that it then holds for this request must not wait for their
      // deadline.
      const lost = error.mayHaveRun && mode !== 'peek' ? charges.filter(holdsSlots) : []
      if (lost.length > 0) context.waitUntil(this.#store.revoke(lost.map((rule) => ({ rule, isKnown: false }))))
      return decision
    }
    return this.decide(charges.map(withNewSlot), context, { mode, permits }, true)
  }

  /**
   * Gives units back that were charged at `chargedAtMs` by the clock that decided.
   * @param wasLocal whether the fallback charged them
   * @throws {StoreError} whether they were given back is then unknown
   */
  async settle(differences: readonly Adjustment[], chargedAtMs: number, wasLocal: boolean): Promise<void> {
    await (wasLocal ? this.#fallback : this.#store).settle(differences, chargedAtMs)
  }

  async forget(keys: readonly string[]): Promise<void> {
    await this.#fallback.forget(keys)
    await this.#store.forget(keys)
  }

  /**
   * Charges what a decision was about whether or not that much is left, because it has happened: where the decision was
   * made, or without the store if that gives no answer now.
   */
  async charge(
    rules: readonly StoreCharge[],
    { chargedIn }: Pick<EngineDecision, 'chargedIn'>,
    context: CallContext,
  ): Promise<void> {
    const request = { mode: 'charge', permits: 1, rules } as const
    try {
      await chargedIn.decide(request, context)
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      this.#log('error', { event: 'store_error', message: error.message, answered: 'local' })
      await this.#fallback.decide({ ...request, rules: rules.map((rule) => scaleToLocalShare(rule, this.#localShare)) })
    }
  }

  /** Gives back what an admitted request held. The next call should find it free, but should not wait long for that. */
  async #giveBack(rules: readonly StoreCharge[], context: CallContext): Promise<void> {
    const released = createHold(rules, this.#store)?.release()
    if (!released) return
    context.waitUntil(released)
    await context.deadlines.within(this.#timeoutMs, released)
  }

  /** Decides while the store gives no answer, as each policy says. */
  async #decideWithoutStore<C extends Charge>(request: DecisionRequest<C>): Promise<EngineDecision<C>> {
    const rules = request.rules.map((rule) => scaleToLocalShare(rule, this.#localShare))
    const local = { ...request, rules }
    const undecided = { granted: 0, nowMs: this.#now(), usage: rules.map(() => []) }
    // Shadow policies refuse nothing, whatever happens to the store.
    if (rules.some(({ enforced, policy }) => enforced && policy.onStoreError === 'closed')) {
      return { ...toEngineDecision(local, undecided, this.#fallback), degraded: 'closed' }
    }
    const isLocal = ({ policy }: Charge) => policy.onStoreError === 'local'
    const asked = rules.filter(isLocal)
    if (asked.length === 0) {
      return {
        ...toEngineDecision(local, { ...undecided, granted: request.permits }, this.#fallback),
        degraded: 'open',
      }
    }
    const decision = await this.#fallback.decide({ ...request, rules: asked })
    const usages = decision.usage.values()
    const usage = rules.map((rule) => (isLocal(rule) ? (usages.next().value ?? []) : []))
    const degraded = asked.length < rules.length ? 'local, open' : 'local'
    return { ...toEngineDecision(local, { ...decision, usage }, this.#fallback), degraded }
  }
}

function toEngineDecision<C extends Charge>(
  { mode, rules }: DecisionRequest<C>,
  decision: Decision,
  store: Store,
): EngineDecision<C> {
  const { granted, nowMs, usage } = decision
  const whole = { granted, nowMs, usage, charges: rules, chargedIn: store }
  const takesSlots = granted > 0 && mode !== 'peek' && rules.some(({ slot }) => slot !== undefined)
  const hold = takesSlots
    ? createHold(
        rules.filter((_, index) => isCharged(decision, index)),
        store,
      )
    : undefined
  return hold ? { ...whole, hold } : whole
}

/**
 * Whether a decision has charged a rule. It has not charged a shadow rule that would have refused, nor a rule that was
 * not asked.
 */
export function isCharged({ granted, usage }: Decision, index: number): boolean {
  const tiers = usage[index] ?? []
  return granted > 0 && tiers.length > 0 && tiers.every(({ retryAfterMs }) => retryAfterMs === 0)
}

/** @returns undefined if none of the rules has slots */
function createHold(rules: readonly StoreCharge[], store: Store): SlotHold | undefined {
  const held = rules.filter(holdsSlots)
  if (held.length === 0) return undefined
  return {
    deadlineMs: Math.min(...held.flatMap(({ tiers }) => tiers.map(({ windowMs }) => windowMs))),
    release: () => store.release(held),
    renew: () => store.renew(held),
  }
}

function holdsSlots({ algorithm }: StoreCharge): boolean {
  return ALGORITHMS[algorithm].holdsSlots === true
}

/** A slot that was given back is never taken again. */
function withNewSlot<C extends Charge>(charge: C): C {
  return charge.slot === undefined ? charge : { ...charge, slot: randomSlot() }
}

/**
 * What one isolate allows by itself: a share of each limit, rounded down, but never so little that the request would not
 * fit into an unused one.
 * @param share above 0 and at most 1
 */
export function scaleToLocalShare<R extends StoreCharge>(rule: R, share: number): R {
  if (share === 1) return rule
  const reserved = Math.floor(rule.reserved * share)
  const part = (units: number) => Math.max(Math.floor(units * share), rule.cost + reserved)
  const tiers = rule.tiers.map(({ limit, windowMs }) => ({ limit: part(limit), windowMs }))
  return { ...rule, tiers, reserved, ...(rule.burst !== undefined && { burst: part(rule.burst) }) }
}
