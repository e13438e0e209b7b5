import { ALGORITHM_LETTERS } from '../algorithms/algorithm.ts'
import type { Config } from '../config/load-config.ts'
import { createDigest, type Digest } from '../identity/digest.ts'
import { identify } from '../identity/identify.ts'
import type { Log } from '../log.ts'
import { canonicalPath } from '../policy/canonical-path.ts'
import type { Policy } from '../policy/policy.ts'
import { type Match, PolicyFinder } from '../policy/policy-finder.ts'
import type { Rule, Store, StoreDecision, TierUsage } from '../store/store.ts'
import { StoreError } from '../store/store.ts'
import type { TierReport, Verdict } from './verdict.ts'

export interface LimiterOptions {
  readonly config: Config
  readonly store: Store
  /** Decides where `store` gives no answer and `ON_STORE_ERROR` is `local`. */
  readonly fallback: Store
  readonly log: Log
}

const ADMITTED: Verdict = { kind: 'admitted', tiers: [] }

/** Decides requests: identity → policies → one store call → verdict. */
export class Limiter {
  readonly #config: Config
  readonly #store: Store
  readonly #fallback: Store
  readonly #log: Log
  readonly #digest: Digest
  readonly #finder: PolicyFinder

  constructor({ config, store, fallback, log }: LimiterOptions) {
    this.#config = config
    this.#store = store
    this.#fallback = fallback
    this.#log = log
    this.#digest = createDigest(config.identitySecret)
    this.#finder = new PolicyFinder(config.policies, config.exempt)
  }

  async decide(request: Request): Promise<Verdict> {
    const path = canonicalPath(request.url)
    const matches = this.#finder.find(request.method, path)
    const rules: Rule[] = []
    for (const match of matches) {
      const rule = this.#rule(match, request, path)
      if (!rule) return { kind: 'unidentified' }
      rules.push(rule)
    }
    if (rules.length === 0) return ADMITTED

    const decision = await this.#ask(rules)
    if (decision === 'open') return ADMITTED
    if (decision === 'closed') return { kind: 'unavailable' }
    return this.#verdict(matches, decision)
  }

  /** @returns undefined for a caller that must say who it is */
  #rule({ policy, route }: Match, request: Request, path: string): Rule | undefined {
    const { anonymous, keyPrefix } = this.#config
    const subject = { request, route: route ?? `${request.method} ${path}` }
    // Shadow mode refuses nobody, the anonymous neither.
    const identity = identify(policy.by, subject, policy.enforced ? anonymous : 'ip')
    if (!identity) return undefined
    const { name, algorithm, tiers, cost, enforced } = policy
    const key = `${keyPrefix}:${name}:${ALGORITHM_LETTERS[algorithm]}:{${this.#digest(identity)}}`
    return { key, algorithm, tiers, cost, enforced, reserved: 0 }
  }

  async #ask(rules: readonly Rule[]): Promise<StoreDecision | 'open' | 'closed'> {
    const request = { mode: 'all', permits: 1, rules } as const
    try {
      return await this.#store.decide(request)
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      const { onStoreError } = this.#config
      this.#log('error', { event: 'store_error', message: error.message, answered: onStoreError })
      return onStoreError === 'local' ? this.#fallback.decide(request) : onStoreError
    }
  }

  #verdict(matches: readonly Match[], { granted, usage }: StoreDecision): Verdict {
    const tiers = matches.flatMap(({ policy }, index) => reports(policy, usage[index] ?? []))
    const refusing = tiers.filter(({ retryAfterMs }) => retryAfterMs > 0)
    const shadowed = refusing.filter(({ policy }) => !policy.enforced)
    if (shadowed.length > 0) {
      this.#log('info', { event: 'shadow_limited', violated: shadowed.map(({ name }) => name) })
    }
    if (granted > 0) return { kind: 'admitted', tiers }
    const violated = refusing.filter(({ policy }) => policy.enforced)
    return { kind: 'limited', tiers, violated, retryAfterMs: Math.max(...violated.map((tier) => tier.retryAfterMs)) }
  }
}

function reports(policy: Policy, usage: readonly TierUsage[]): TierReport[] {
  return policy.tiers.map((tier, index) => ({ policy, ...tier, ...(usage[index] as TierUsage) }))
}
