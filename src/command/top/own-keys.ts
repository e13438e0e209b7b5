import { ALGORITHMS } from '../../algorithms/algorithm-table.ts'
import type { Config } from '../../config/load-config.ts'
import type { RequestCharge } from '../../model/charge.ts'
import type { RequestPolicy } from '../../model/policy.ts'

export interface CallerRule {
  readonly policy: RequestPolicy
  readonly rule: RequestCharge
}

/** Tells what Sluice's keys count: `<prefix>:<policy>:<algorithm letter>:{<identity>}`. */
export class OwnKeys {
  /** Of SCAN: all keys of the prefix. */
  readonly pattern: string
  readonly #policies: ReadonlyMap<string, RequestPolicy>
  readonly #prefix: string

  constructor({ keyPrefix, policies }: Pick<Config, 'keyPrefix' | 'policies'>) {
    this.#prefix = `${keyPrefix}:`
    // A prefix has no sign that means something in a pattern.
    this.pattern = `${this.#prefix}*`
    this.#policies = new Map(
      policies.map((policy) => [`${policy.name}:${ALGORITHMS[policy.algorithm].letter}`, policy]),
    )
  }

  /** Whether a key is the document of rules, which is to have no time to live: it is configuration. */
  isRules(key: string): boolean {
    return key === `${this.#prefix}rules`
  }

  /** Whether a key counts for policies that only decide beside those in force. */
  isOfShadow(key: string): boolean {
    return key.startsWith(`${this.#prefix}rules:shadow:`)
  }

  /** What a key counts; undefined if no policy that is configured has such keys. */
  ruleOf(key: string): CallerRule | undefined {
    if (!key.startsWith(this.#prefix)) return undefined
    const [, name = '', digest = ''] = /^([\w-]+:\w):\{([^{}]+)\}$/.exec(key.slice(this.#prefix.length)) ?? []
    const policy = this.#policies.get(name)
    if (!policy || policy.tiers.length === 0) return undefined
    const { algorithm, tiers, enforced, burst } = policy
    const charge = { policy, digest, key, algorithm, tiers, cost: 1, enforced, reserved: 0 }
    const rule = burst === undefined ? charge : { ...charge, burst }
    return { policy, rule }
  }
}
