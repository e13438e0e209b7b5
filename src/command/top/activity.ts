import type { RequestPolicy } from '../../model/policy.ts'
import type { TierState } from '../../request/caller/rules-of-caller.ts'

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

/** Whether anything is counted. */
export function isIdle({ tiers }: Look): boolean {
  return tiers.every(({ used }) => used === 0)
}

/** The tier of which the largest share is used. */
export function fullestTier({ tiers }: Look): TierState {
  return tiers.reduce((fullest, tier) => (tier.used / tier.limit > fullest.used / fullest.limit ? tier : fullest))
}

/** A shorter window tells of a moment, not of a caller. */
const SHORTEST_TELLING_MS = 10_000

/**
 * Units that were admitted in a second, of late: within the shortest window of ten seconds or more, or by a bucket since it was looked at before.
 * Undefined for what does not tell: a bucket seen once, and slots, which are held and not spent.
 */
export function unitsPerSecond(policy: RequestPolicy, look: Look, before: Look | undefined): number | undefined {
  const tier = look.tiers.find(({ windowMs }) => windowMs >= SHORTEST_TELLING_MS) ?? look.tiers.at(-1)
  if (!tier) return undefined
  switch (policy.algorithm) {
    case 'sliding-window':
    case 'sorted-set':
      return (tier.used / tier.windowMs) * 1_000
    case 'fixed-window':
    case 'quota':
      // Its window has begun so long ago.
      return (tier.used / Math.max(tier.windowMs - tier.resetMs, 1_000)) * 1_000
    case 'token-bucket':
      return spentFromBucket(policy, look, before)
    case 'concurrency':
      return undefined
  }
}

/** What a bucket has lost, and what has dripped in and is not there. A bucket that is full may have lost more. */
function spentFromBucket({ tiers }: RequestPolicy, look: Look, before: Look | undefined): number | undefined {
  const [now] = look.tiers
  const [earlier] = before?.tiers ?? []
  const [refill] = tiers
  if (!before || !now || !earlier || !refill || look.nowMs <= before.nowMs) return undefined
  if (now.used === 0) return 0
  const elapsedMs = look.nowMs - before.nowMs
  const spent = earlier.left + (elapsedMs * refill.limit) / refill.windowMs - now.left
  return (Math.max(0, spent) / elapsedMs) * 1_000
}
