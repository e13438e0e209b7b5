import type { Decision, DecisionRequest, Rule } from '../limit/rule.ts'
import type { CallContext } from '../store/call-context.ts'
import { type Store, StoreError } from '../store/store.ts'
import type { Circuit } from './circuit-breaker.ts'
import { DenyCache } from './deny-cache.ts'
import { GuardedStore } from './guarded-store.ts'
import { type Hold, holdOf, withSlots } from './hold.ts'
import { type LeaseSize, Leases } from './leases.ts'
import { localShareOf } from './local-share.ts'
import type { Log } from './log.ts'
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
  /** Permits taken in advance; undefined: none. */
  readonly leases: LeaseSize | undefined
  /** Share of each limit that is allowed here while the store gives no answer, above 0 and at most 1. */
  readonly localShare: number
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

/** Decides by what is known already, else by asking the store, or without it while it gives no answer. */
export class Decider {
  readonly #store: GuardedStore
  /** Decides in place of the store, or by asking it. */
  readonly #asked: Pick<Store, 'decide'>
  readonly #fallback: Store
  readonly #now: () => number
  readonly #log: Log
  readonly #timeoutMs: number
  readonly #localShare: number

  constructor({ store, fallback, now, log, timeoutMs, leases, localShare }: DeciderOptions) {
    this.#store = new GuardedStore({ store, now, timeoutMs, log })
    const denyCache = new DenyCache(this.#store, now)
    this.#asked = leases === undefined ? denyCache : new Leases(denyCache, now, leases)
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

  /** @throws {StoreError} if the store is out of reach */
  ping(): Promise<void> {
    return this.#store.ping()
  }

  async decide(charges: readonly Charge[], context: CallContext): Promise<Decided> {
    const rules = charges.map(({ rule }) => rule)
    return this.#ask(charges, { mode: 'all', permits: 1, rules }, context)
  }

  async #ask(
    charges: readonly Charge[],
    request: DecisionRequest,
    context: CallContext,
    isRepeated = false,
  ): Promise<Decided> {
    const { rules } = request
    const askedMs = this.#now()
    try {
      const decision = await this.#asked.decide(request, context)
      const ageMs = this.#now() - askedMs
      if (decision.granted === 0 || ageMs <= this.#timeoutMs) return decided(rules, decision, this.#store)
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
      const lost = error.mayHaveRun ? withSlots(rules) : []
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
    const undecided = { granted: 0, nowMs: this.#now(), usage: rules.map(() => []) }
    // Shadow rules refuse nothing, whatever happens to the store.
    if (charges.some(({ rule, onStoreError }) => rule.enforced && onStoreError === 'closed')) {
      return { ...decided(rules, undecided, this.#fallback), degraded: 'closed' }
    }
    const isLocal = charges.map(({ onStoreError }) => onStoreError === 'local')
    const local = rules.filter((_, index) => isLocal[index])
    if (local.length === 0) {
      return { ...decided(rules, { ...undecided, granted: request.permits }, this.#fallback), degraded: 'open' }
    }
    const decision = await this.#fallback.decide({ ...request, rules: local })
    const told = decision.usage.values()
    const usage = isLocal.map((wasAsked) => (wasAsked ? (told.next().value ?? []) : []))
    const degraded = local.length < rules.length ? 'local, open' : 'local'
    return { ...decided(rules, { ...decision, usage }, this.#fallback), degraded }
  }
}

function decided(rules: readonly Rule[], decision: Decision, store: Store): Decided {
  const hold = decision.granted > 0 ? holdOf(chargedOf(rules, decision), store) : undefined
  return { ...decision, rules, chargedIn: store, ...(hold && { hold }) }
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
