import type { Decision, DecisionRequest, Rule } from '../model/charge.ts'
import { type Difference, type Store, StoreError } from '../model/store.ts'
import type { CallContext } from '../runtime/call-context.ts'
import type { Log } from '../runtime/log.ts'
import { listOf } from '../runtime/map-list.ts'
import type { Circuit } from './circuit-breaker.ts'
import { DenyCache } from './deny-cache.ts'
import { GuardedStore } from './guarded-store.ts'
import { type Hold, holdOf, withSlots } from './hold.ts'
import type { CreateLeases, Leases } from './leases.ts'
import { localShareOf } from './local-share.ts'
import { withNewSlot } from './slot.ts'

/** While the store gives no answer: exact limits of this isolate alone, no limits, or no admission. */
export const ON_STORE_ERROR = ['local', 'open', 'closed'] as const
export type OnStoreError = (typeof ON_STORE_ERROR)[number]

export interface DeciderOptions {
  readonly store: Store
  /** Decides where the store gives no answer. */
  readonly fallback: Store
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
  readonly log: Log
  /** Deadline of a decision by the store, in milliseconds. A decision that is older when it arrives is made again. */
  readonly timeoutMs: number
  /** Makes what takes permits in advance; left out, none are. */
  readonly createLeases?: CreateLeases | undefined
  /** Share of each limit that is allowed here while the store gives no answer, above 0 and at most 1. */
  readonly localShare: number
  /** Whether refusals are remembered, so that callers who were told to wait cost no calls; if left out, they are. */
  readonly hasDenyCache?: boolean
  /** Whether a store that keeps failing is left alone for a moment; if left out, it is. */
  readonly hasBreaker?: boolean
}

/** A rule, and what happens to it while the store gives no answer. */
export interface Charge {
  readonly rule: Rule
  readonly onStoreError: OnStoreError
}

/** A decision over charges. */
export interface Decided extends Decision {
  /** The rules that were asked, in order: while the store is away, their limits are shares. */
  readonly rules: readonly Rule[]
  /** Slots to give back. */
  readonly hold?: Hold
  /** Where it was charged, and is to be told the actual cost. */
  readonly chargedIn: Pick<Store, 'settle'>
  /** How it was decided without the store. A rule that is then `open` is not asked, and `closed` grants nothing. */
  readonly degraded?: 'local' | 'open' | 'closed' | 'local, open'
}

export interface Savings {
  /** Refusals that were known already. */
  readonly byDenyCache: number
  /** Requests that spent a permit taken in advance. */
  readonly byLeases: number
  /** Permits taken in advance, spent or not. */
  readonly permitsLeased: number
}

/** How much is asked of the rules. */
export type Asking = Pick<DecisionRequest, 'mode' | 'permits'>

const ONE_PERMIT: Asking = { mode: 'all', permits: 1 }

/** Decides by what is known already, else by asking the store, or without it while it gives no answer. */
export class Decider {
  readonly #store: GuardedStore
  /** Decides in place of the store, or by asking it. */
  readonly #asked: Pick<Store, 'decide'>
  readonly #denyCache: DenyCache | undefined
  readonly #leases: Leases | undefined
  readonly #fallback: Store
  readonly #now: () => number
  readonly #log: Log
  readonly #timeoutMs: number
  readonly #localShare: number

  constructor(options: DeciderOptions) {
    const { store, fallback, now, log, timeoutMs, createLeases, localShare } = options
    const { hasDenyCache = true, hasBreaker = true } = options
    this.#store = new GuardedStore({ store, now, timeoutMs, log, hasBreaker })
    this.#denyCache = hasDenyCache ? new DenyCache(this.#store, now) : undefined
    const unleased = this.#denyCache ?? this.#store
    this.#leases = createLeases?.(unleased)
    this.#asked = this.#leases ?? unleased
    this.#fallback = fallback
    this.#now = now
    this.#log = log
    this.#timeoutMs = timeoutMs
    this.#localShare = localShare
  }

  get storeKind(): Store['kind'] {
    return this.#store.kind
  }

  get circuit(): Circuit {
    return this.#store.circuit
  }

  /** What it has done so far without asking the store. */
  get savings(): Savings {
    return {
      byDenyCache: this.#denyCache?.answered ?? 0,
      byLeases: this.#leases?.spent ?? 0,
      permitsLeased: this.#leases?.taken ?? 0,
    }
  }

  /** @throws {StoreError} if the store is out of reach */
  ping(): Promise<void> {
    return this.#store.ping()
  }

  /** @param asking one permit if left out; a `peek` is always answered by the store itself */
  decide(charges: readonly Charge[], context: CallContext, { mode, permits }: Asking = ONE_PERMIT): Promise<Decided> {
    const rules = listOf(charges, ({ rule }) => rule)
    return this.#ask(charges, { mode, permits, rules }, context)
  }

  /**
   * Gives units back that were charged at `chargedAtMs` by the clock that decided.
   * @param wasLocal whether the fallback charged them
   * @throws {StoreError} whether they were given back is then unknown
   */
  async settle(differences: readonly Difference[], chargedAtMs: number, wasLocal: boolean): Promise<void> {
    if (wasLocal) return this.#fallback.settle(differences, chargedAtMs)
    await this.#store.settle(differences, chargedAtMs)
    this.#denyCache?.forget(differences.map(({ rule }) => rule.key))
  }

  /**
   * Deletes what is known of these keys, here and in the store. All leases lapse.
   * @throws {StoreError} whether the store has forgotten them is then unknown
   */
  async forget(keys: readonly string[]): Promise<void> {
    await this.#fallback.forget(keys)
    await this.#store.forget(keys)
    this.#denyCache?.forget(keys)
    this.#leases?.clear()
  }

  /**
   * Charges rules of a decision whether or not they have that much left, because it has happened: where the decision
   * was made, or without the store if that gives no answer now.
   */
  async charge(rules: readonly Rule[], { chargedIn }: Pick<Decided, 'chargedIn'>, context: CallContext): Promise<void> {
    const request = { mode: 'charge', permits: 1, rules } as const
    try {
      if (chargedIn === this.#store) await this.#asked.decide(request, context)
      else await this.#fallback.decide(request)
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      this.#log('error', { event: 'store_error', message: error.message, answered: 'local' })
      await this.#fallback.decide({ ...request, rules: rules.map((rule) => localShareOf(rule, this.#localShare)) })
    }
  }

  async #ask(
    charges: readonly Charge[],
    request: DecisionRequest,
    context: CallContext,
    isRepeated = false,
  ): Promise<Decided> {
    const { rules, mode } = request
    const isPeek = mode === 'peek'
    const askedMs = this.#now()
    try {
      const decision = await (isPeek ? this.#store : this.#asked).decide(request, context)
      const ageMs = this.#now() - askedMs
      if (isPeek || decision.granted === 0 || ageMs <= this.#timeoutMs) return decided(request, decision, this.#store)
      // It was right when it was made. But an isolate that stood still since then would release at once what windows
      // had spread out.
      this.#log('error', { event: 'late_decision', ageMs, repeated: !isRepeated })
      await this.#giveBack(rules, context)
      if (isRepeated) throw new StoreError('its decisions come too late', { mayHaveRun: false })
      return this.#ask(charges, { ...request, rules: rules.map(withNewSlot) }, context, true)
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      const without = await this.#withoutStore(charges, request)
      this.#log('error', { event: 'store_error', message: error.message, answered: without.degraded })
      // The store may have decided nevertheless: slots that it then holds for this request must not wait for their
      // deadline.
      const lost = error.mayHaveRun && !isPeek ? withSlots(rules) : []
      if (lost.length > 0) context.waitUntil(this.#store.revoke(lost.map((rule) => ({ rule, isKnown: false }))))
      return without
    }
  }

  /** Gives back what an admitted request held. The next call should find it free, but should not wait long for that. */
  async #giveBack(rules: readonly Rule[], context: CallContext): Promise<void> {
    const released = holdOf(rules, this.#store)?.release()
    if (!released) return
    context.waitUntil(released)
    await context.deadlines.within(this.#timeoutMs, released)
  }

  /** Decides while the store gives no answer, as each charge says. */
  async #withoutStore(charges: readonly Charge[], request: DecisionRequest): Promise<Decided> {
    const rules = request.rules.map((rule) => localShareOf(rule, this.#localShare))
    const local = { ...request, rules }
    const undecided = { granted: 0, nowMs: this.#now(), usage: rules.map(() => []) }
    // Shadow rules refuse nothing, whatever happens to the store.
    if (charges.some(({ rule, onStoreError }) => rule.enforced && onStoreError === 'closed')) {
      return { ...decided(local, undecided, this.#fallback), degraded: 'closed' }
    }
    const isLocal = charges.map(({ onStoreError }) => onStoreError === 'local')
    const asked = rules.filter((_, index) => isLocal[index])
    if (asked.length === 0) {
      return { ...decided(local, { ...undecided, granted: request.permits }, this.#fallback), degraded: 'open' }
    }
    const decision = await this.#fallback.decide({ ...request, rules: asked })
    const told = decision.usage.values()
    const usage = isLocal.map((wasAsked) => (wasAsked ? (told.next().value ?? []) : []))
    const degraded = asked.length < rules.length ? 'local, open' : 'local'
    return { ...decided(local, { ...decision, usage }, this.#fallback), degraded }
  }
}

function decided({ mode, rules }: DecisionRequest, decision: Decision, store: Store): Decided {
  const { granted, nowMs, usage } = decision
  const whole = { granted, nowMs, usage, rules, chargedIn: store }
  const takesSlots = granted > 0 && mode !== 'peek' && rules.some(({ slot }) => slot !== undefined)
  const hold = takesSlots ? holdOf(chargedOf(rules, decision), store) : undefined
  return hold ? { ...whole, hold } : whole
}

function chargedOf(rules: readonly Rule[], decision: Decision): readonly Rule[] {
  return rules.filter((_, index) => isCharged(decision, index))
}

/**
 * Whether a decision has charged a rule. It has not charged a shadow rule that would have refused, nor a rule that was
 * not asked.
 */
export function isCharged({ granted, usage }: Decision, index: number): boolean {
  const tiers = usage[index] ?? []
  return granted > 0 && tiers.length > 0 && tiers.every(({ retryAfterMs }) => retryAfterMs === 0)
}
