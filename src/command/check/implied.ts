import type { Config } from '../../config/load-config.ts'
import type { Tier } from '../../model/limits.ts'
import type { RequestPolicy } from '../../model/policy.ts'
import type { Settings } from '../settings/settings.ts'
import { covers, EVERYTHING } from './covers.ts'
import type { Finding } from './finding.ts'
import { policyPlace } from './policy-place.ts'
import { hasReserve } from './unlimited.ts'

/** Tiers that never refuse, because another one always does so before. */
export function impliedMistakes({ policies }: Config, settings: Settings): readonly Finding[] {
  return policies.flatMap((policy): Finding[] => {
    if (policy.tiers.length === 0 || policy.counts !== 'requests') return []
    const place = policyPlace(settings, policy, 'limits')
    const own = policy.tiers.flatMap((each) => {
      const by = policy.tiers.find((other) => other !== each && most(policy, other, each.windowMs) <= each.limit)
      return by ? [{ each, by }] : []
    })
    const stronger = policies.find(
      (other) =>
        other !== policy && isStronger(other, policy) && policy.tiers.every((each) => isImplied(policy, each, other)),
    )
    if (stronger && !(isMutual(policy, stronger) && policies.indexOf(stronger) > policies.indexOf(policy))) {
      return [
        {
          rule: 'implied-policy',
          message: `policy "${policy.name}" never refuses: policy "${stronger.name}" applies to all of its requests and refuses before it does`,
          hint: 'Leave it out, or make its limits lower.',
          ...place,
        },
      ]
    }
    return own.map(({ each, by }) => ({
      rule: 'implied-tier',
      message: `the tier ${each.name} (${each.limit}) never refuses: ${by.name} (${by.limit}) lets at most ${most(policy, by, each.windowMs)} units pass in that time`,
      hint: 'A longer window only matters with a limit below that.',
      ...place,
    }))
  })
}

/** Units that a tier lets pass at most in any window of this length that the same algorithm may look at. */
function most({ algorithm }: RequestPolicy, { limit, windowMs }: Tier, spanMs: number): number {
  const windows = Math.ceil(spanMs / windowMs)
  switch (algorithm) {
    case 'sliding-window':
    case 'sorted-set':
      return windows * limit
    case 'fixed-window':
      // Windows are aligned to the clock: the longer one holds whole shorter ones, or the other way round.
      return (Math.max(spanMs, windowMs) % Math.min(spanMs, windowMs) === 0 ? windows : windows + 1) * limit
    case 'quota':
      // It begins with the first use, which may be anywhere in a shorter one.
      return (windows + 1) * limit
    default:
      return Number.POSITIVE_INFINITY
  }
}

/** Whether the other policy, which is exact at every moment, never lets through what this tier would refuse. */
function isImplied(policy: RequestPolicy, tier: Tier, other: RequestPolicy): boolean {
  if (policy.cost.kind !== 'fixed' || other.cost.kind !== 'fixed') return false
  const units = policy.cost.units
  const otherUnits = other.cost.units
  return other.tiers.some(({ limit, windowMs }) => {
    const requests = Math.ceil(tier.windowMs / windowMs) * Math.floor(limit / otherUnits)
    return requests * units <= tier.limit
  })
}

/** Whether another policy holds for all requests of this one, and counts its callers together or as this one does. */
function isStronger(other: RequestPolicy, policy: RequestPolicy): boolean {
  const isExact = other.algorithm === 'sliding-window' || other.algorithm === 'sorted-set'
  // With a reserve, it refuses some before its limit is reached.
  const isWindow = policy.algorithm !== 'token-bucket' && policy.algorithm !== 'concurrency' && !hasReserve(policy)
  // A shadow policy is there to be tried, and what is corrected later may come to anything.
  const isPlain = [policy, other].every(
    ({ enforced, counts, settleHeader }) => enforced && counts === 'requests' && settleHeader === undefined,
  )
  const isCoarser = other.by.every((source) => source.kind === 'global' || policy.by.some((own) => isSame(own, source)))
  const isAlike = other.missing.kind === policy.missing.kind && other.onStoreError === policy.onStoreError
  const isAsCoarse = policy.fold === undefined || other.fold === policy.fold
  return isAsCoarse && isExact && isWindow && isPlain && isCoarser && isAlike && holdsForAllOf(other, policy)
}

function isSame(one: RequestPolicy['by'][number], other: RequestPolicy['by'][number]): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}

function holdsForAllOf(other: RequestPolicy, policy: RequestPolicy): boolean {
  // By route, a policy counts each of its own patterns by itself.
  const byRoute = other.by.some(({ kind }) => kind === 'route')
  if (byRoute) return JSON.stringify(other.match) === JSON.stringify(policy.match)
  const wide = other.match ?? [EVERYTHING]
  const ignoresCase = policy.ignoresCase && !other.ignoresCase
  return (policy.match ?? [EVERYTHING]).every((pattern) => wide.some((each) => covers(each, pattern, ignoresCase)))
}

function isMutual(policy: RequestPolicy, other: RequestPolicy): boolean {
  return isStronger(policy, other) && other.tiers.every((tier) => isImplied(other, tier, policy))
}
