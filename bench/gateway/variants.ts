/** The gateways that are compared, each with what it is bound to besides its upstream and its Redis. */
export interface Variant {
  readonly name: string
  /** Its Worker, relative to the root. */
  readonly source: string
  readonly bindings: Readonly<Record<string, string>>
  /** Whether all but the first few requests are over the limit. */
  readonly isFlooded?: boolean
}

export const SLUICE = 'src/worker.ts'
export const BARE = 'bench/gateway/bare-worker.ts'
export const FLOOR = 'bench/gateway/floor-worker.ts'
export const UPSTASH = 'bench/peers/upstash-worker.ts'
export const HONO_RATE_LIMITER = 'bench/peers/hono-rate-limiter-worker.ts'

export const NAMES = {
  bare: 'bare Hono proxy',
  floor: 'the two calls alone',
  unlimited: 'Sluice, all exempt',
  upstash: 'Hono + @upstash/ratelimit',
  honoRateLimiter: 'hono-rate-limiter',
  plain: 'Sluice',
  leases: 'Sluice, leases',
  upstashFlooded: 'Hono + @upstash/ratelimit, flooded',
  flooded: 'Sluice, flooded',
  upstashLimits: 'Hono + @upstash/ratelimit, 3 limits',
  plainLimits: 'Sluice, 3 limits',
  leasesLimits: 'Sluice, 3 limits, leases',
} as const

/** No load of a few seconds reaches these, or comes so near that leases are no longer taken. */
const LIMIT = { own: unreached('1000000/10s'), peers: '1000000/10000' }
const LIMITS = {
  own: unreached('1000000/10s, 10000000/1m, 100000000/1h'),
  peers: '1000000/10000,10000000/60000,100000000/3600000',
}
/** Reached by the first second's requests. */
const SMALL = { own: '5/1m', peers: '5/60000' }

export const BARE_PROXY: Variant = { name: NAMES.bare, source: BARE, bindings: {} }
/** The least work of a limiter on one REST call. */
export const TWO_CALLS: Variant = { name: NAMES.floor, source: FLOOR, bindings: {} }
/** Its own proxy, in the same bundle: what is missing to it is the price of the limiter. */
export const UNLIMITED: Variant = {
  name: NAMES.unlimited,
  source: SLUICE,
  bindings: { POLICIES: LIMIT.own, EXEMPT: '* /*' },
}
export const UPSTASH_PLAIN: Variant = {
  name: NAMES.upstash,
  source: UPSTASH,
  bindings: { LIMITS: LIMIT.peers },
}
export const UPSTASH_TIERS: Variant = {
  name: NAMES.upstashLimits,
  source: UPSTASH,
  bindings: { LIMITS: LIMITS.peers },
}
export const PLAIN_TIERS: Variant = {
  name: NAMES.plainLimits,
  source: SLUICE,
  bindings: { POLICIES: LIMITS.own },
}
export const PLAIN: Variant = { name: NAMES.plain, source: SLUICE, bindings: { POLICIES: LIMIT.own } }
export const LEASED: Variant = {
  name: NAMES.leases,
  source: SLUICE,
  bindings: { POLICIES: LIMIT.own, LEASES: 'auto' },
}
export const FLOODED: Variant = {
  name: NAMES.flooded,
  source: SLUICE,
  bindings: { RATE_LIMITS: SMALL.own },
  isFlooded: true,
}

const LEASED_TIERS: Variant = {
  name: NAMES.leasesLimits,
  source: SLUICE,
  bindings: { POLICIES: LIMITS.own, LEASES: 'auto' },
}

/** The variants that claims are about. */
export const OF_CLAIMS: readonly Variant[] = [BARE_PROXY, LEASED, FLOODED, LEASED_TIERS]

export const COMPARED: readonly Variant[] = [
  BARE_PROXY,
  UNLIMITED,
  UPSTASH_PLAIN,
  { name: NAMES.honoRateLimiter, source: HONO_RATE_LIMITER, bindings: { LIMITS: LIMIT.peers } },
  PLAIN,
  LEASED,
  { name: NAMES.upstashFlooded, source: UPSTASH, bindings: { LIMITS: SMALL.peers }, isFlooded: true },
  FLOODED,
  UPSTASH_TIERS,
  PLAIN_TIERS,
  LEASED_TIERS,
]

/** RATE_LIMITS stops at 100,000. */
function unreached(limits: string): string {
  return JSON.stringify([{ name: 'default', limits, allow_large_log: true }])
}
