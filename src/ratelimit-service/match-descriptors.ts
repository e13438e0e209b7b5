/** Finds what holds for each descriptor of a request: the first step of a decision. */
import { ALGORITHMS } from '../core/algorithms/algorithm-table.ts'
import { type Charge, formatKey } from '../core/model/charge.ts'
import { OptionError } from '../core/options/option-error.ts'
import { MAX_COST } from '../core/options/readers.ts'
import { createDigest } from '../core/runtime/digest.ts'
import { TextLru } from '../core/runtime/lru.ts'
import type { Config } from '../http/config/load-config.ts'
import type { CountingPolicy } from '../http/response/rate-limit-headers.ts'
import type { Descriptor, RateLimitRequest } from './messages.ts'
import { canGiveBack, type DescriptorLimit, type Domains, findRateLimit, type RateLimitMatch } from './rate-limits.ts'

/** A request that cannot be decided. */
export class RequestError extends Error {
  override readonly name = 'RequestError'
}

export interface MatchedDescriptor {
  /** Its place in the request. */
  readonly index: number
  readonly rateLimit: DescriptorLimit
  readonly metricKey: string
  /** 0 asks whether one more would fit; below 0 gives back. */
  readonly hits: number
}

/** A descriptor with limits to count in. */
export interface CountedDescriptor extends MatchedDescriptor {
  readonly policy: CountingPolicy
  /** Costs one unit. */
  readonly charge: Charge<CountingPolicy>
}

/** The descriptors of a request that a limit was found for, by what becomes of them. */
export interface MatchedRequest {
  readonly domain: string
  /** Number of all descriptors. */
  readonly size: number
  readonly unlimited: readonly MatchedDescriptor[]
  /** Their limit is 0. */
  readonly refused: readonly MatchedDescriptor[]
  readonly counted: readonly CountedDescriptor[]
}

export interface MatcherOptions {
  readonly config: Pick<Config, 'keyPrefix' | 'identitySecret' | 'onStoreError'>
  /** Is told of unknown domains. */
  readonly note: (text: string) => void
}

/** Stands in keys where the name of a policy does. */
const KEY_NAME = 'ratelimit'
const MAX_UNKNOWN_DOMAINS = 100

export function createMatcher({ config, note }: MatcherOptions) {
  const digest = createDigest(config.identitySecret)
  const digests = new TextLru<string>()
  const unknownDomains = new Set<string>()

  /** @throws {RequestError} */
  return function matchRequest(
    { domain, descriptors, hitsAddend }: RateLimitRequest,
    domains: Domains,
  ): MatchedRequest {
    if (domain === '') throw new RequestError('expected a domain that is not empty')
    if (descriptors.length === 0) throw new RequestError('expected at least one descriptor')
    if (!domains.has(domain)) noteUnknown(domain)
    const matches = descriptors.map((descriptor, index) =>
      toRequestError(index, () => findRateLimit(domains, domain, descriptor, config.onStoreError)),
    )
    const replaced = new Set(matches.flatMap((match) => match?.rateLimit.replaces ?? []))
    const unlimited: MatchedDescriptor[] = []
    const refused: MatchedDescriptor[] = []
    const counted: CountedDescriptor[] = []
    for (const [index, match] of matches.entries()) {
      if (!match) continue
      const { rateLimit, metricKey } = match
      const descriptor = descriptors[index] as Descriptor
      const matched = { index, rateLimit, metricKey, hits: countHits(descriptor, hitsAddend) }
      if (rateLimit.limits === 'unlimited') unlimited.push(matched)
      else if (rateLimit.name !== '' && replaced.has(rateLimit.name)) continue
      else if (rateLimit.limits === 'none') refused.push(matched)
      else {
        const policy = rateLimit.limits
        const hits = descriptor.isNegativeHits ? readReturnedHits(matched.hits, policy, index) : matched.hits
        counted.push({ ...matched, hits, policy, charge: createCharge(match, policy) })
      }
    }
    return { domain, size: descriptors.length, unlimited, refused, counted }
  }

  function noteUnknown(domain: string): void {
    if (unknownDomains.has(domain) || unknownDomains.size >= MAX_UNKNOWN_DOMAINS) return
    unknownDomains.add(domain)
    note(`${JSON.stringify(domain.slice(0, 100))} is no domain of the configuration, so it limits nothing`)
  }

  function createCharge({ identity, rateLimit }: RateLimitMatch, policy: CountingPolicy): Charge<CountingPolicy> {
    const { algorithm, limits, burst } = policy
    // A log of short windows does not reach back far enough for long ones, so other windows count elsewhere.
    const parts = [limits.map(({ windowMs, calendar }) => calendar?.unit ?? windowMs).join(), ...identity]
    const text = JSON.stringify(parts)
    const known = digests.get(text)
    const found = known ?? digest(parts)
    if (known === undefined) digests.set(text, found)
    const key = formatKey(config.keyPrefix, KEY_NAME, ALGORITHMS[algorithm].letter, found)
    // Limits may change with the file and with overrides, while the count goes on.
    const plan = limits.map(({ limit }) => limit).join()
    // A quota that is full refuses nothing by itself.
    const mode = rateLimit.isQuota ? 'shadow' : policy.mode
    return {
      ...{ policy, digest: found, key, algorithm, limits, cost: 1, mode, reserved: 0, plan },
      ...(burst !== undefined && { burst }),
    }
  }
}

function toRequestError<Value>(index: number, work: () => Value): Value {
  try {
    return work()
  } catch (error) {
    if (!(error instanceof OptionError)) throw error
    throw new RequestError(`descriptors[${index}]: ${error.message}`)
  }
}

/** @param hitsOfRequest 0 if they were not sent */
function countHits({ hitsAddend }: Pick<Descriptor, 'hitsAddend'>, hitsOfRequest: number): number {
  return hitsAddend?.value ?? Math.max(1, hitsOfRequest)
}

function readReturnedHits(hits: number, policy: CountingPolicy, index: number): number {
  if (canGiveBack(policy)) return -Math.min(hits, MAX_COST)
  const others = Object.entries(ALGORITHMS).flatMap(([name, { implementation }]) => (implementation.settle ? name : []))
  throw new RequestError(
    `descriptors[${index}]: ${policy.algorithm} cannot give back hits; expected an algorithm of ${others.join(', ')}`,
  )
}
