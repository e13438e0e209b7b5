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

export const PLAIN_TARGET: Target = { ...sluice('sliding-window', SLIDING), isLogged: true }
export const LEASED_TARGET: Target = { ...sluice('sliding-window', LEASED, { LEASES: 'auto' }) }

/** For a short run. */
export const OWN_TARGETS: readonly Target[] = [PLAIN_TARGET, LEASED_TARGET]

export const ALL_TARGETS: readonly Target[] = [
  upstash('slidingWindow', 'sliding window'),
  { name: 'hono-rate-limiter', source: HONO_RATE_LIMITER, bindings: peerLimits },
  ...OWN_TARGETS,
  upstash('fixedWindow', 'fixed window'),
  upstash('tokenBucket', 'token bucket'),
  sluice('sorted-set'),
  sluice('token-bucket'),
  sluice('fixed-window'),
  sluice('quota'),
]

function upstash(algorithm: string, words: string): Target {
  const bindings = (limit: Limit) => ({ ...peerLimits(limit), ALGORITHM: algorithm })
  return { name: `@upstash/ratelimit ${words}`, source: UPSTASH, bindings }
}

function sluice(algorithm: AlgorithmName, name = `Sluice ${algorithm}`, more: Record<string, string> = {}): Target {
  const bindings = ({ limit, windowMs }: Limit) => {
    const policy = { name: 'default', algorithm, limits: `${limit}/${windowMs}ms` }
    return { POLICIES: JSON.stringify([policy]), KEY_PREFIX: prefixOf(name), ...more }
  }
  return { name, source: SLUICE, bindings }
}

/** Of its keys in Redis. */
export function prefixOf(name: string): string {
  return name.replaceAll(/\W+/g, '-')
}

function peerLimits({ limit, windowMs }: Limit): Record<string, string> {
  return { LIMITS: `${limit}/${windowMs}` }
}
