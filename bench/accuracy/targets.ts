/** The limiters that are attacked. */
import type { AlgorithmName } from '../../src/core/model/limits.ts'
import { HONO_RATE_LIMITER, SLUICE, UPSTASH } from '../gateway/variants.ts'
import type { Limit } from './traffic.ts'

/** A limiter within a gateway. */
export interface Target {
  readonly name: string
  readonly source: string
  bindings(limit: Limit): Readonly<Record<string, string>>
  /** Whether its admissions can be read off Redis: each is an entry of a stream, dated by Redis's own clock. */
  readonly isLogged?: boolean
}

export const SLIDING = 'Sluice sliding-window'
export const LEASED = 'Sluice sliding-window, leases'

export const TARGETS: readonly Target[] = [
  defineUpstash('slidingWindow', 'sliding window'),
  { name: 'hono-rate-limiter', source: HONO_RATE_LIMITER, bindings: toPeerLimits },
  { ...defineSluice('sliding-window', SLIDING), isLogged: true },
  defineSluice('sliding-window', LEASED, { LEASES: 'auto' }),
  defineUpstash('fixedWindow', 'fixed window'),
  defineUpstash('tokenBucket', 'token bucket'),
  defineSluice('sorted-set'),
  defineSluice('token-bucket'),
  defineSluice('fixed-window'),
  defineSluice('quota'),
]

function defineUpstash(algorithm: string, words: string): Target {
  const bindings = (limit: Limit) => ({ ...toPeerLimits(limit), ALGORITHM: algorithm })
  return { name: `@upstash/ratelimit ${words}`, source: UPSTASH, bindings }
}

function defineSluice(
  algorithm: AlgorithmName,
  name = `Sluice ${algorithm}`,
  more: Record<string, string> = {},
): Target {
  const bindings = ({ limit, windowMs }: Limit) => {
    const policy = { name: 'default', algorithm, limits: `${limit}/${windowMs}ms` }
    return { POLICIES: JSON.stringify([policy]), KEY_PREFIX: toPrefix(name), ...more }
  }
  return { name, source: SLUICE, bindings }
}

/** Makes the prefix of a target's keys in Redis. */
export function toPrefix(name: string): string {
  return name.replaceAll(/\W+/g, '-')
}

function toPeerLimits({ limit, windowMs }: Limit): Record<string, string> {
  return { LIMITS: `${limit}/${windowMs}` }
}
