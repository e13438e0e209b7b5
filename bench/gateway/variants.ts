/** The gateways that are compared. */
import type { GatewayWorker } from '../site.ts'

export interface Variant extends GatewayWorker {
  readonly name: string
}

export const SLUICE = 'src/worker.ts'
export const UPSTASH = 'bench/peers/upstash-worker.ts'
export const HONO_RATE_LIMITER = 'bench/peers/hono-rate-limiter-worker.ts'

export const NAMES = {
  bare: 'bare Hono proxy',
  floor: 'the two calls alone',
  unlimited: 'Sluice, all exempt',
  upstash: 'Hono + @upstash/ratelimit',
  plain: 'Sluice',
  leases: 'Sluice, leases',
  flooded: 'Sluice, flooded',
  upstashLimits: 'Hono + @upstash/ratelimit, 3 limits',
  plainLimits: 'Sluice, 3 limits',
} as const

/** No load of a few seconds reaches these, or comes so near that leases are no longer taken. */
const LIMIT = { own: allowLarge('1000000/10s'), peers: '1000000/10000' }
const LIMITS = {
  own: allowLarge('1000000/10s, 10000000/1m, 100000000/1h'),
  peers: '1000000/10000,10000000/60000,100000000/3600000',
}
/** The requests of the first second reach these. */
const SMALL = { own: '5/1m', peers: '5/60000' }

export const BARE_PROXY: Variant = { name: NAMES.bare, source: 'bench/gateway/bare-worker.ts', bindings: {} }
/** The least work of a limiter on one REST call. */
export const TWO_CALLS: Variant = { name: NAMES.floor, source: 'bench/gateway/floor-worker.ts', bindings: {} }
/** Its own proxy, in the same bundle: what is missing to it is the price of the limiter. */
export const UNLIMITED = defineVariant(NAMES.unlimited, { POLICIES: LIMIT.own, EXEMPT: '* /*' })
export const UPSTASH_PLAIN: Variant = { name: NAMES.upstash, source: UPSTASH, bindings: { LIMITS: LIMIT.peers } }
export const UPSTASH_LIMITS: Variant = {
  name: NAMES.upstashLimits,
  source: UPSTASH,
  bindings: { LIMITS: LIMITS.peers },
}
export const PLAIN = defineVariant(NAMES.plain, { POLICIES: LIMIT.own })
export const PLAIN_LIMITS = defineVariant(NAMES.plainLimits, { POLICIES: LIMITS.own })
export const LEASED = defineVariant(NAMES.leases, { POLICIES: LIMIT.own, LEASES: 'auto' })
export const FLOODED = defineVariant(NAMES.flooded, { RATE_LIMITS: SMALL.own })

export function withStatistics({ name, source, bindings }: Variant): Variant {
  return { name: `${name}, statistics`, source, bindings: { ...bindings, STATISTICS: 'on', LOG_REFUSALS: '0.01' } }
}

function defineVariant(name: string, bindings: Variant['bindings']): Variant {
  return { name, source: SLUICE, bindings }
}

/** RATE_LIMITS stops at 100,000. */
function allowLarge(limits: string): string {
  return JSON.stringify([{ name: 'default', limits, allow_large_log: true }])
}
