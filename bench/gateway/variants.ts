/** The gateways that are compared, each with what it is bound to besides its upstream and its Redis. */
export interface Variant {
  readonly name: string
  /** Its Worker, relative to the root. */
  readonly source: string
  readonly bindings: Readonly<Record<string, string>>
  readonly tiers: number
  /** Whether all but the first few requests are over the limit. */
  readonly isFlooded?: boolean
}

export const SLUICE = 'src/worker.ts'
export const BARE = 'bench/gateway/bare-worker.ts'
export const UPSTASH = 'bench/peers/upstash-worker.ts'
export const HONO_RATE_LIMITER = 'bench/peers/hono-rate-limiter-worker.ts'

export const NAMES = {
  bare: 'bare Hono proxy',
  unlimited: 'Sluice, all exempt',
  upstash: 'Hono + @upstash/ratelimit',
  honoRateLimiter: 'hono-rate-limiter',
  plain: 'Sluice',
  leases: 'Sluice, leases',
  upstashFlooded: 'Hono + @upstash/ratelimit, flooded',
  flooded: 'Sluice, flooded',
  upstashTiers: 'Hono + @upstash/ratelimit, 3 tiers',
  plainTiers: 'Sluice, 3 tiers',
  leasesTiers: 'Sluice, 3 tiers, leases',
} as const

/** No load of a few seconds reaches these, or comes so near that leases are no longer taken. */
const TIER = { own: unreached('1000000/10s'), peers: '1000000/10000' }
const TIERS = {
  own: unreached('1000000/10s, 10000000/1m, 100000000/1h'),
  peers: '1000000/10000,10000000/60000,100000000/3600000',
}
/** Reached by the first second's requests. */
const SMALL = { own: '5/1m', peers: '5/60000' }

export const BARE_PROXY: Variant = { name: NAMES.bare, source: BARE, tiers: 0, bindings: {} }
/** Its own proxy, in the same bundle: what is missing to it is the price of the limiter. */
export const UNLIMITED: Variant = {
  name: NAMES.unlimited,
  source: SLUICE,
  tiers: 0,
  bindings: { POLICIES: TIER.own, EXEMPT: '* /*' },
}
export const UPSTASH_PLAIN: Variant = {
  name: NAMES.upstash,
  source: UPSTASH,
  tiers: 1,
  bindings: { TIERS: TIER.peers },
}
export const UPSTASH_TIERS: Variant = {
  name: NAMES.upstashTiers,
  source: UPSTASH,
  tiers: 3,
  bindings: { TIERS: TIERS.peers },
}
export const PLAIN_TIERS: Variant = {
  name: NAMES.plainTiers,
  source: SLUICE,
  tiers: 3,
  bindings: { POLICIES: TIERS.own },
}
export const PLAIN: Variant = { name: NAMES.plain, source: SLUICE, tiers: 1, bindings: { POLICIES: TIER.own } }
export const LEASED: Variant = {
  name: NAMES.leases,
  source: SLUICE,
  tiers: 1,
  bindings: { POLICIES: TIER.own, LEASES: 'auto' },
}
export const FLOODED: Variant = {
  name: NAMES.flooded,
  source: SLUICE,
  tiers: 1,
  bindings: { RATE_LIMITS: SMALL.own },
  isFlooded: true,
}

export const ONE_TIER: readonly Variant[] = [
  BARE_PROXY,
  UNLIMITED,
  UPSTASH_PLAIN,
  { name: NAMES.honoRateLimiter, source: HONO_RATE_LIMITER, tiers: 1, bindings: { TIERS: TIER.peers } },
  PLAIN,
  LEASED,
  { name: NAMES.upstashFlooded, source: UPSTASH, tiers: 1, bindings: { TIERS: SMALL.peers }, isFlooded: true },
  FLOODED,
]

export const THREE_TIERS: readonly Variant[] = [
  UPSTASH_TIERS,
  PLAIN_TIERS,
  { name: NAMES.leasesTiers, source: SLUICE, tiers: 3, bindings: { POLICIES: TIERS.own, LEASES: 'auto' } },
]

/** RATE_LIMITS stops at 100,000. */
function unreached(limits: string): string {
  return JSON.stringify([{ name: 'default', limits, exact: true }])
}
