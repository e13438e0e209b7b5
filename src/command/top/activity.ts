import type { AlgorithmName } from '../../model/limits.ts'
import type { RequestPolicy } from '../../model/policy.ts'
import type { TierState } from '../../request/caller/caller-charges.ts'

/** The state of one key at one moment, by Redis's clock. */
export interface Look {
  readonly nowMs: number
  readonly tiers: readonly TierState[]
}

/** A request of one unit would be refused. */
export function isAtLimit({ tiers }: Look): boolean {
  return tiers.some(({ retryAfterMs }) => retryAfterMs > 0)
}

export function isIdle({ tiers }: Look): boolean {
  return tiers.every(({ used }) => used === 0)
}

export function findFullestTier({ tiers }: Look): TierState {
  return tiers.reduce((fullest, tier) => (tier.used / tier.limit > fullest.used / fullest.limit ? tier : fullest))
}

/** A shorter window describes a moment, not a caller. */
const MIN_WINDOW_MS = 10_000

/**
 * Counts the units admitted per second, within the shortest window of ten seconds or more, or by a bucket since the look before.
 * @returns undefined for a bucket seen once, and for slots, which are held and not spent
 */
export function countUnitsPerSecond(policy: RequestPolicy, look: Look, before: Look | undefined): number | undefined {
  const tier = look.tiers.find(({ windowMs }) => windowMs >= MIN_WINDOW_MS) ?? look.tiers.at(-1)
  return tier && RATES[policy.algorithm](tier, policy, look, before)
}

type Rate = (tier: TierState, policy: RequestPolicy, look: Look, before: Look | undefined) => number | undefined

const RATES = {
  'sliding-window': rateWholeWindow,
  'sorted-set': rateWholeWindow,
  'fixed-window': rateSinceStart,
  quota: rateSinceStart,
  'token-bucket': rateBucket,
  concurrency: () => undefined,
} satisfies Record<AlgorithmName, Rate>

function rateWholeWindow({ used, windowMs }: TierState): number {
  return (used / windowMs) * 1_000
}

function rateSinceStart({ used, windowMs, resetMs }: TierState): number {
  return (used / Math.max(windowMs - resetMs, 1_000)) * 1_000
}

/** Adds what is gone and what was refilled meanwhile. A full bucket may have lost more, since it overflows. */
function rateBucket(_: TierState, policy: RequestPolicy, look: Look, before: Look | undefined): number | undefined {
  const [now] = look.tiers
  const [earlier] = before?.tiers ?? []
  const [refill] = policy.tiers
  if (!before || !now || !earlier || !refill || look.nowMs <= before.nowMs) return undefined
  if (now.used === 0) return 0
  const elapsedMs = look.nowMs - before.nowMs
  const spent = earlier.left + (elapsedMs * refill.limit) / refill.windowMs - now.left
  return (Math.max(0, spent) / elapsedMs) * 1_000
}
