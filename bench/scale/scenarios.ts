/** Which loads are simulated. */
import {
  ALL_MS,
  FLOODED_GLOBAL,
  HOT_GLOBAL,
  LONGEST_MS,
  PER_TOKEN,
  type ScalePolicies,
  THREE_IDENTITIES,
  TOKEN_AND_GLOBAL,
  TOKEN_AND_TENANT,
} from './policies.ts'
import type { Scenario } from './simulate.ts'

/** Some of the scenarios, by load. */
export interface Series extends Pick<Scenario, 'policies' | 'store' | 'leases'> {
  readonly scenarios: readonly Scenario[]
}

/** Requests a second, of all the world. */
const LOADS = [10, 100, 300, 1_000, 2_000, 3_000, 10_000, 50_000]
const QUICK_LOADS = [10, 1_000]
const VARIANTS = [
  { store: 'redis', leases: 'off' },
  { store: 'redis', leases: 'auto' },
  { store: 'durable-object', leases: 'off' },
  { store: 'durable-object', leases: 'auto' },
] as const
const ALL_POLICIES = [PER_TOKEN, TOKEN_AND_TENANT, TOKEN_AND_GLOBAL, THREE_IDENTITIES, HOT_GLOBAL, FLOODED_GLOBAL]
/** Above this, one in ten callers, places and isolates is simulated without leases if callers share a key besides their own. */
const SHARED_UP_TO = 300
/** This is measured if all share one key and have none of their own. */
const SHARED_WINDOWS_MS = 2 * ALL_MS
/** A limit that is flooded fills and empties in waves, which leases make longer than a window: several are measured. */
const WAVES_MS = 6 * ALL_MS
const LEAST_REQUESTS = 3_000
/** Cloudflare speaks of "up to a few hundred milliseconds". */
export const LOOK_MS = 300

export function listSeries(seed: number, isQuick: boolean): Series[] {
  return ALL_POLICIES.flatMap((policies) =>
    VARIANTS.map((variant) => {
      const { perCaller, ofAll } = policies.findLimits(1)
      // Simulated whole, more would take as long as all others together.
      const isLong = policies === FLOODED_GLOBAL || (perCaller && ofAll && variant.leases === 'auto')
      const loads = isQuick ? QUICK_LOADS : LOADS.filter((load) => !isLong || load <= 10_000)
      return {
        policies,
        ...variant,
        scenarios: loads.map((load) => createScenario(policies, variant, load, seed, isQuick)),
      }
    }),
  )
}

/** Cloudflare looks elsewhere for the objects of new callers before it makes them. */
export function createLookingAround(seed: number): Scenario[] {
  return [100, 1_000].map((load) => {
    return {
      ...createScenario(PER_TOKEN, { store: 'durable-object', leases: 'off' }, load, seed, false),
      lookMs: LOOK_MS,
    }
  })
}

/** The Worker is placed next to Redis. */
export function createNearRedis(seed: number): Scenario[] {
  return [100, 1_000].map((load) => {
    return { ...createScenario(PER_TOKEN, { store: 'redis', leases: 'off' }, load, seed, false), isNearRedis: true }
  })
}

/** What limits for all cost where they are leased depends on how many isolates lease them. */
export function createByIsolates(seed: number): Scenario[] {
  const compared = [
    [PER_TOKEN, 'redis', 2_000],
    [TOKEN_AND_GLOBAL, 'durable-object', 3_000],
    [HOT_GLOBAL, 'durable-object', 3_000],
  ] as const
  return compared.flatMap(([policies, store, load]) =>
    [1, 4, 10].map((isolatesPerPlace) => {
      return { ...createScenario(policies, { store, leases: 'auto' }, load, seed, false), isolatesPerPlace }
    }),
  )
}

/** Several databases in one region share out identities, and the Worker is placed next to them. */
export function createByShards(seed: number): Scenario[] {
  const compared = [
    [PER_TOKEN, 'off', [1_000, 1_500]],
    [TOKEN_AND_TENANT, 'off', [400, 600]],
    [TOKEN_AND_GLOBAL, 'auto', [1_000, 1_250]],
  ] as const
  return compared.flatMap(([policies, leases, loads]) =>
    [1, 2, 4, 8].flatMap((shards) =>
      loads.map((load) => {
        const scenario = createScenario(policies, { store: 'redis', leases }, shards * load, seed, false)
        return { ...scenario, shards, isNearRedis: true }
      }),
    ),
  )
}

/** One load, all of it simulated, and one in ten. */
export function createScaledDown(seed: number): Scenario[] {
  const whole = createScenario(PER_TOKEN, { store: 'redis', leases: 'auto' }, 1_000, seed, false)
  return [1, 10].map((oneIn) => ({ ...whole, oneIn }))
}

function createScenario(
  policies: ScalePolicies,
  variant: (typeof VARIANTS)[number],
  perSecond: number,
  seed: number,
  isQuick: boolean,
): Scenario {
  const { perCaller, ofAll } = policies.findLimits(perSecond)
  const hasCallers = perCaller !== undefined
  // An identity that all share would seem a tenth as hot to one in ten isolates.
  const isHotLeased = ofAll !== undefined && variant.leases === 'auto'
  const oneIn = hasCallers && !isHotLeased ? (isQuick ? 10 : chooseOneIn(policies, perSecond)) : 1
  const leastMs = (LEAST_REQUESTS / (isQuick ? 10 : 1) / (perSecond / oneIn)) * 1_000
  const wavesMs = policies === FLOODED_GLOBAL && !isQuick ? WAVES_MS : 0
  // Whole windows are measured: callers over their limits use them up at once and wait.
  const windowsMs = hasCallers ? LONGEST_MS : SHARED_WINDOWS_MS
  return {
    policies,
    ...variant,
    perSecond,
    oneIn,
    warmUpMs: windowsMs,
    measuredMs: Math.ceil(Math.max(leastMs, wavesMs) / windowsMs) * windowsMs,
    seed,
  }
}

function chooseOneIn(policies: ScalePolicies, perSecond: number): number {
  if (!policies.findLimits(perSecond).ofAll) return chooseOneInOfCallers(perSecond)
  return perSecond > SHARED_UP_TO ? 10 : 1
}

/** One stands for no more than those who are all far over their limits, and cost the same whatever they send. */
function chooseOneInOfCallers(perSecond: number): number {
  if (perSecond >= 50_000) return 100
  return perSecond >= 3_000 ? 10 : 1
}
