import { ALGORITHM_LETTERS } from '../algorithms/algorithm.ts'
import type { Config } from '../config/load-config.ts'
import { createDigest, type Digest } from '../identity/digest.ts'
import { identify } from '../identity/identify.ts'
import type { Cost } from '../policy/policy.ts'
import type { Match } from '../policy/policy-finder.ts'
import type { Priority } from '../policy/priority.ts'
import type { Rule } from '../store/store.ts'
import type { Verdict } from './verdict.ts'

/** What a policy asks of the store for a request, or what becomes of the request without asking. */
export type Asked = { readonly kind: 'rule'; readonly rule: Rule } | { readonly kind: 'skip' } | Refused
type Refused = Extract<Verdict, { kind: 'unidentified' | 'bad-cost' }>

/** Makes rules of policies: who is calling, at what cost. */
export class RuleMaker {
  readonly #keyPrefix: string
  readonly #ipv6Prefix: number
  readonly #digest: Digest

  constructor({ keyPrefix, ipv6Prefix, identitySecret }: Config) {
    this.#keyPrefix = keyPrefix
    this.#ipv6Prefix = ipv6Prefix
    this.#digest = createDigest(identitySecret)
  }

  /** @param resource what `route` stands for in a policy without patterns: a path */
  async make({ policy, route }: Match, request: Request, resource: string, priority: Priority): Promise<Asked> {
    const { name, algorithm, tiers, enforced, burst } = policy
    const subject = {
      request,
      route: route ?? `${request.method} ${policy.ignoresCase ? resource.toLowerCase() : resource}`,
      ipv6Prefix: this.#ipv6Prefix,
    }
    // Shadow mode refuses nobody, the anonymous neither.
    const missing = !enforced && policy.missing.kind === 'deny' ? ({ kind: 'ip' } as const) : policy.missing
    const identity = await identify(policy.by, subject, missing)
    if ('kind' in identity) {
      return identity.kind === 'skip' ? identity : { kind: 'unidentified', status: identity.status, policy }
    }
    const cost = costOf(policy.cost, request, enforced)
    if (typeof cost !== 'number') return cost

    const key = `${this.#keyPrefix}:${name}:${ALGORITHM_LETTERS[algorithm]}:{${this.#digest(identity)}}`
    const rule: Rule = {
      key,
      algorithm,
      tiers,
      cost,
      enforced,
      reserved: policy.reserved[priority],
      ...(policy.counts === 'identities' && { isForNewcomers: true }),
      ...(policy.settleHeader !== undefined && { isSettled: true }),
    }
    if (burst !== undefined) return { kind: 'rule', rule: { ...rule, burst } }
    if (algorithm === 'concurrency') return { kind: 'rule', rule: { ...rule, slot: randomSlot() } }
    return { kind: 'rule', rule }
  }
}

function costOf(cost: Cost, request: Request, enforced: boolean): number | Refused {
  if (cost.kind === 'fixed') return cost.units
  const text = request.headers.get(cost.name)?.trim()
  if (text === undefined) return 1
  const units = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN
  if (units >= 1 && units <= cost.max) return units
  return enforced ? { kind: 'bad-cost', header: cost.name, max: cost.max } : 1
}

/** 53 random bits: an integer that JavaScript and Lua both hold exactly. */
function randomSlot(): number {
  const [high = 0, low = 0] = crypto.getRandomValues(new Uint32Array(2))
  return (high & 0x1f_ffff) * 2 ** 32 + low
}
