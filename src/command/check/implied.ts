import type { Config } from '../../config/load-config.ts'
import type { AlgorithmName, Limit } from '../../model/limits.ts'
import type { RequestPolicy } from '../../model/policy.ts'
import type { Settings } from '../settings/settings.ts'
import { covers, EVERYTHING } from './covers.ts'
import { type Finding, locatePolicy } from './finding.ts'

/** How an algorithm counts in windows; undefined: its tiers are no windows. */
interface Windows {
  /** Whether its limits hold in every window, wherever that begins. */
  readonly isExact: boolean
  /** How many of its windows a span, which the same algorithm may look at, touches at most. */
  count(spanMs: number, windowMs: number): number
}

const EXACT: Windows = { isExact: true, count: (spanMs, windowMs) => Math.ceil(spanMs / windowMs) }
const WINDOWS = {
  'sliding-window': EXACT,
  'sorted-set': EXACT,
  'fixed-window': {
    isExact: false,
    count(spanMs, windowMs) {
      // Windows are aligned to the clock: the longer one holds whole shorter ones, or the other way round.
      const isAligned = Math.max(spanMs, windowMs) % Math.min(spanMs, windowMs) === 0
      return Math.ceil(spanMs / windowMs) + (isAligned ? 0 : 1)
    },
  },
  // It begins with the first use, which may be anywhere in a shorter one.
  quota: { isExact: false, count: (spanMs, windowMs) => Math.ceil(spanMs / windowMs) + 1 },
  'token-bucket': undefined,
  concurrency: undefined,
} as const satisfies Record<AlgorithmName, Windows | undefined>

/** Finds tiers that never refuse, because another one always does so before. */
export function* findImplied({ policies }: Config, settings: Settings): Iterable<Finding> {
  for (const policy of policies) {
    if (policy.tiers.length === 0 || policy.counts !== 'requests') continue
    const place = locatePolicy(settings, policy, 'limits')
    const stronger = policies.find((other) => other !== policy && implies(other, policy))
    // Of two that imply each other, the first one is kept.
    const isKept = stronger && policies.indexOf(stronger) > policies.indexOf(policy) && implies(policy, stronger)
    if (stronger && !isKept) {
      yield {
        rule: 'implied-policy',
        message: `policy "${policy.name}" never refuses: policy "${stronger.name}" applies to all of its requests and refuses before it does`,
        hint: 'Leave it out, or make its limits lower.',
        ...place,
      }
      continue
    }
    for (const each of policy.tiers) {
      const by = policy.tiers.find((other) => other !== each && maxUnits(policy, other, each.windowMs) <= each.limit)
      if (!by) continue
      yield {
        rule: 'implied-tier',
        message: `the tier ${each.name} (${each.limit}) never refuses: ${by.name} (${by.limit}) lets at most ${maxUnits(policy, by, each.windowMs)} units pass in that time`,
        hint: 'A longer window only matters with a limit below that.',
        ...place,
      }
    }
  }
}

/** How many units a tier lets pass at most in any window of this length that the same algorithm may look at. */
function maxUnits({ algorithm }: RequestPolicy, { limit, windowMs }: Limit, spanMs: number): number {
  const windows: Windows | undefined = WINDOWS[algorithm]
  return windows ? windows.count(spanMs, windowMs) * limit : Number.POSITIVE_INFINITY
}

/** Whether the other policy never lets through what this one would refuse. */
function implies(other: RequestPolicy, policy: RequestPolicy): boolean {
  if (policy.cost.kind !== 'fixed' || other.cost.kind !== 'fixed') return false
  const { units } = policy.cost
  const { units: otherUnits } = other.cost
  const isImplied = (tier: Limit) =>
    other.tiers.some(({ limit, windowMs }) => {
      const requests = Math.ceil(tier.windowMs / windowMs) * Math.floor(limit / otherUnits)
      return requests * units <= tier.limit
    })
  return isStronger(other, policy) && policy.tiers.every(isImplied)
}

/** Whether another policy is exact, holds for all requests of this one, and counts its callers together or as this one does. */
function isStronger(other: RequestPolicy, policy: RequestPolicy): boolean {
  const isExact = WINDOWS[other.algorithm]?.isExact === true
  // With a reserve, it refuses some before its limit is reached.
  const isWindow = WINDOWS[policy.algorithm] !== undefined && policy.reserved.sheddable === 0
  // A shadow policy is there to be tried, and what is corrected later may come to anything.
  const isPlain = [policy, other].every(
    ({ enforced, counts, settleHeader }) => enforced && counts === 'requests' && settleHeader === undefined,
  )
  const isCoarser = other.by.every((source) => source.kind === 'global' || policy.by.some((own) => isSame(own, source)))
  const isAlike = other.missing.kind === policy.missing.kind && other.onStoreError === policy.onStoreError
  const isAsCoarse = policy.fold === undefined || other.fold === policy.fold
  return isAsCoarse && isExact && isWindow && isPlain && isCoarser && isAlike && coversAll(other, policy)
}

function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}

function coversAll(other: RequestPolicy, policy: RequestPolicy): boolean {
  // By route, a policy counts each of its own patterns by itself.
  if (other.by.some(({ kind }) => kind === 'route')) return isSame(other.match, policy.match)
  const wide = other.match ?? [EVERYTHING]
  const ignoresCase = policy.ignoresCase && !other.ignoresCase
  return (policy.match ?? [EVERYTHING]).every((pattern) => wide.some((each) => covers(each, pattern, ignoresCase)))
}
