import type { Config } from '../config/load-config.ts'
import type { Log } from '../log.ts'
import { canonicalPath } from '../policy/canonical-path.ts'
import type { Policy } from '../policy/policy.ts'
import { type Match, PolicyFinder } from '../policy/policy-finder.ts'
import { highestPriority } from '../policy/priority.ts'
import type { UpstreamHealth } from '../shedding/upstream-health.ts'
import type { DecisionRequest, Rule, Store, StoreDecision, TierUsage } from '../store/store.ts'
import { StoreError } from '../store/store.ts'
import { holdOf } from './hold.ts'
import { RuleMaker } from './rule-maker.ts'
import { settlementOf } from './settlement.ts'
import type { TierReport, Verdict } from './verdict.ts'

export interface LimiterOptions {
  readonly config: Config
  readonly store: Store
  /** Decides where `store` gives no answer and `ON_STORE_ERROR` is `local`. */
  readonly fallback: Store
  /** Undefined: no request is shed for the upstream's sake. */
  readonly health: UpstreamHealth | undefined
  readonly log: Log
}

interface Charge {
  readonly match: Match
  readonly rule: Rule
}

const ADMITTED: Verdict = { kind: 'admitted', tiers: [] }

/** How soon to come back when the upstream is not well. */
const SHED_RETRY_MS = 1_000

/** Decides requests: policies → priority → identities → one store call → verdict. */
export class Limiter {
  readonly #config: Config
  readonly #store: Store
  readonly #fallback: Store
  readonly #health: UpstreamHealth | undefined
  readonly #log: Log
  readonly #finder: PolicyFinder
  readonly #rules: RuleMaker

  constructor({ config, store, fallback, health, log }: LimiterOptions) {
    this.#config = config
    this.#store = store
    this.#fallback = fallback
    this.#health = health
    this.#log = log
    this.#finder = new PolicyFinder(config.policies, config.exempt)
    this.#rules = new RuleMaker(config)
  }

  async decide(request: Request): Promise<Verdict> {
    const path = canonicalPath(request.url)
    const matches = this.#finder.find(request.method, path)
    // Exempt requests are what operators must always get through: they are not shed either.
    if (matches === 'exempt') return ADMITTED
    const priority = highestPriority(matches.map(({ policy }) => policy.priority))
    if (this.#health?.sheds(priority)) return { kind: 'shed', retryAfterMs: SHED_RETRY_MS }

    const charges: Charge[] = []
    for (const match of matches) {
      if (match.policy.tiers.length === 0) continue
      const asked = await this.#rules.make(match, request, path, priority)
      if (asked.kind === 'rule') charges.push({ match, rule: asked.rule })
      else if (asked.kind !== 'skip') return asked
    }
    return charges.length === 0 ? ADMITTED : this.#charge(charges)
  }

  async #charge(charges: readonly Charge[]): Promise<Verdict> {
    const rules = charges.map(({ rule }) => rule)
    const request = { mode: 'all', permits: 1, rules } as const
    try {
      return this.#verdict(charges, await this.#store.decide(request), this.#store)
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      const { onStoreError } = this.#config
      this.#log('error', { event: 'store_error', message: error.message, answered: onStoreError })
      // The store may have decided all the same: what it then holds for this request must not wait for its deadline.
      const lost = holdOf(rules, this.#store)
      const verdict = await this.#without(charges, request)
      return lost ? { ...verdict, lost } : verdict
    }
  }

  /** Decides while the store gives no answer. */
  async #without(charges: readonly Charge[], request: DecisionRequest): Promise<Verdict> {
    switch (this.#config.onStoreError) {
      case 'local':
        return this.#verdict(charges, await this.#fallback.decide(request), this.#fallback)
      case 'open':
        return ADMITTED
      case 'closed':
        // Shadow policies refuse nothing, whatever becomes of the store.
        return charges.some(({ rule }) => rule.enforced) ? { kind: 'unavailable' } : ADMITTED
    }
  }

  #verdict(charges: readonly Charge[], { granted, nowMs, usage }: StoreDecision, store: Store): Verdict {
    const tiers = charges.flatMap(({ match, rule }, index) => reports(match.policy, rule, usage[index] ?? []))
    const refusing = tiers.filter(({ retryAfterMs }) => retryAfterMs > 0)
    const shadowed = refusing.filter(({ policy }) => !policy.enforced)
    if (shadowed.length > 0) {
      this.#log('info', { event: 'shadow_limited', violated: shadowed.map(({ name }) => name) })
    }
    if (granted > 0) {
      // A shadow rule that would have refused was not charged.
      const charged = charges.filter((_, index) => usage[index]?.every(({ retryAfterMs }) => retryAfterMs === 0))
      const rules = charged.map(({ rule }) => rule)
      const hold = holdOf(rules, store)
      const settlement = settlementOf(charged, nowMs, store)
      return { kind: 'admitted', tiers, ...(hold && { hold }), ...(settlement && { settlement }) }
    }
    const enforced = refusing.filter(({ policy }) => policy.enforced)
    const retryAfterMs = Math.max(...enforced.map((tier) => tier.retryAfterMs))
    const violated = enforced.filter(({ isReserve }) => !isReserve)
    return violated.length > 0
      ? { kind: 'limited', tiers, violated, retryAfterMs }
      : { kind: 'reserved', tiers, retryAfterMs }
  }
}

function reports(policy: Policy, { cost, reserved }: Rule, usage: readonly TierUsage[]): TierReport[] {
  return policy.tiers.map((tier, index) => {
    const { remaining, resetMs, retryAfterMs } = usage[index] as TierUsage
    return {
      policy,
      ...tier,
      // What is reserved for others is not left for this request.
      remaining: Math.max(0, remaining - reserved),
      isReserve: reserved > 0 && remaining >= cost,
      resetMs,
      retryAfterMs,
    }
  })
}
