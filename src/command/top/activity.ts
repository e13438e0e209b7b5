import type { AlgorithmName } from '../../model/limits.ts'
import type { RequestPolicy } from '../../model/policy.ts'
import type { TierState } from '../../request/caller/caller-charges.ts'

/** What one key's tiers told at one moment. */
export interface Look {
  /** Redis's clock. */
  readonly nowMs: number
  readonly tiers: readonly TierState[]
}

/** Whether a request of one unit would be refused. */
export function isAtLimit({ tiers }: Look): boolean {
  return tiers.some(({ retryAfterMs }) => retryAfterMs > 0)
}

/** Whether nothing is counted. */
export function isIdle({ tiers }: Look): boolean {
  return tiers.every(({ used }) => used === 0)
}

/** Finds the tier of which the largest share is used. */
export function findFullestTier({ tiers }: Look): TierState {
  return tiers.reduce((fullest, tier) => (tier.used / tier.limit > fullest.used / fullest.limit ? tier : fullest))
}

/** A shorter window tells of a moment, not of a caller. */
const MIN_TELLING_MS = 10_000

/**
 * Units that were admitted in a second, of late: within the shortest window of ten seconds or more, or by a bucket since it was looked at before.
 * Undefined for what does not tell: a bucket seen once, and slots, which are held and not spent.
 */
export function countUnitsPerSecond(policy: RequestPolicy, look: Look, before: Look | undefined): number | undefined {
  const tier = look.tiers.find(({ windowMs }) => windowMs >= MIN_TELLING_MS) ?? look.tiers.at(-1)
  return tier && RATES[policy.algorithm]({ policy, tier, look, before })
}

interface Seen {
  readonly policy: RequestPolicy
  readonly tier: TierState
  readonly look: Look
  readonly before: Look | undefined
}

const RATES = {
  'sliding-window': inWholeWindow,
  'sorted-set': inWholeWindow,
  'fixed-window': sinceWindowBegan,
  quota: sinceWindowBegan,
  'token-bucket': spentFromBucket,
  concurrency: () => undefined,
} satisfies Record<AlgorithmName, (seen: Seen) => number | undefined>

function inWholeWindow({ tier }: Seen): number {
  return (tier.used / tier.windowMs) * 1_000
}

function sinceWindowBegan({ tier }: Seen): number {
  return (tier.used / Math.max(tier.windowMs - tier.resetMs, 1_000)) * 1_000
}

/** What a bucket has lost, and what has dripped in and is not there. A bucket that is full may have lost more. */
function spentFromBucket({ policy, look, before }: Seen): number | undefined {
  const [now] = look.tiers
  const [earlier] = before?.tiers ?? []
  const [refill] = policy.tiers
  if (!before || !now || !earlier || !refill || look.nowMs <= before.nowMs) return undefined
  if (now.used === 0) return 0
  const elapsedMs = look.nowMs - before.nowMs
  const spent = earlier.left + (elapsedMs * refill.limit) / refill.windowMs - now.left
  return (Math.max(0, spent) / elapsedMs) * 1_000
}
