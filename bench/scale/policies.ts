/** The limits of the scenarios, and their charges. */
import type { Charge, StoreCharge } from '../../src/core/model/charge.ts'
import type { Limit } from '../../src/core/model/limits.ts'

/** What limits the requests of a scenario. */
export interface ScalePolicies {
  readonly name: string
  /** @param perSecond requests of all the world */
  findLimits(perSecond: number): Limits
}

export interface Limits {
  readonly perCaller?: Limit
  readonly perTenant?: Limit
  readonly ofAll?: Limit
}

/** The longest window of all policies: after so long, windows are as full as they get. */
export const LONGEST_MS = 30_000
/** The window of a limit for all. */
export const ALL_MS = 10_000

/** This allows as many a second as the recipe for leases (docs/recipes.md). */
const PER_CALLER: Limit = { limit: 500, windowMs: LONGEST_MS }

/** Tenants of all the world, each with 20 callers who send much and little. Their limits are those of three callers. */
const TENANTS = 50_000
const PER_TENANT: Limit = { ...PER_CALLER, limit: 3 * PER_CALLER.limit }

const ofAll = (perSecond: number, share: number): Limit => {
  return { limit: Math.max(20, Math.round(((perSecond / share) * ALL_MS) / 1_000)), windowMs: ALL_MS }
}

export const PER_TOKEN: ScalePolicies = { name: 'per token', findLimits: () => ({ perCaller: PER_CALLER }) }

export const TOKEN_AND_TENANT: ScalePolicies = {
  name: 'token + tenant',
  findLimits: () => ({ perCaller: PER_CALLER, perTenant: PER_TENANT }),
}

/** All together reach two thirds of what protects the API from them. */
export const TOKEN_AND_GLOBAL: ScalePolicies = {
  name: 'token + global',
  findLimits: (perSecond) => ({ perCaller: PER_CALLER, ofAll: ofAll(perSecond, 2 / 3) }),
}

export const THREE_IDENTITIES: ScalePolicies = {
  name: 'token + tenant + global',
  findLimits: (perSecond) => ({ ...TOKEN_AND_GLOBAL.findLimits(perSecond), perTenant: PER_TENANT }),
}

/** One limit for all, which they nearly reach. */
export const HOT_GLOBAL: ScalePolicies = {
  name: 'hot global',
  findLimits: (perSecond) => ({ ofAll: ofAll(perSecond, 0.8) }),
}

/** One limit for all, twice of which they send. */
export const FLOODED_GLOBAL: ScalePolicies = {
  name: 'flooded global',
  findLimits: (perSecond) => ({ ofAll: ofAll(perSecond, 2) }),
}

/** The key that all requests share. */
export const SHARED_KEY = 's:all:w:{all}'

/** The charge of a policy that is closed while the store is away, so that nothing is decided without it. */
export function toCharge(charge: StoreCharge): Charge {
  const { algorithm, mode } = charge
  const limits = charge.limits.map((limit) => ({ ...limit, name: 'scale' }))
  const policy = {
    name: 'scale',
    algorithm,
    limits,
    burst: undefined,
    penalty: undefined,
    mode,
    onStoreError: 'closed',
  } as const
  return { ...charge, policy, digest: charge.key }
}

/** @param oneIn callers that one of the simulated stands for: what all share is as much smaller */
export function createCharges({ perCaller, perTenant, ofAll }: Limits, caller: number, oneIn: number): StoreCharge[] {
  const common = { algorithm: 'sliding-window', cost: 1, mode: 'enforce', reserved: 0 } as const
  const charges: StoreCharge[] = []
  if (perCaller) charges.push({ ...common, key: `s:token:w:{${caller}}`, limits: [perCaller] })
  if (perTenant) {
    charges.push({ ...common, key: `s:tenant:w:{tenant ${caller % Math.ceil(TENANTS / oneIn)}}`, limits: [perTenant] })
  }
  if (ofAll) {
    const limit = { ...ofAll, limit: Math.max(1, Math.round(ofAll.limit / oneIn)) }
    charges.push({ ...common, key: SHARED_KEY, limits: [limit] })
  }
  return charges
}
