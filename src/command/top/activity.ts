/** Reads from two looks at a key how busy it is. */
import { ALGORITHMS } from '../../core/algorithms/algorithm-table.ts'
import type { RequestPolicy } from '../../core/model/policy.ts'
import { isFull } from '../../gateway/admin/next-request.ts'
import type { LimitUsage } from '../../gateway/callers/caller-charges.ts'

export interface Look {
  readonly nowMs: number
  readonly limits: readonly LimitUsage[]
}

/** A request of one unit would be refused. */
export function isAtLimit({ limits }: Look): boolean {
  return limits.some(isFull)
}

export function isIdle({ limits }: Look): boolean {
  return limits.every(({ used }) => used === 0)
}

export function findFullestLimit({ limits }: Look): LimitUsage {
  return limits.reduce((fullest, limit) => (limit.used / limit.limit > fullest.used / fullest.limit ? limit : fullest))
}

/** A shorter window describes a moment, not a caller. */
const MIN_WINDOW_MS = 10_000

/** @returns undefined for a bucket seen once, and for slots, which are held and not used up */
export function countUnitsPerSecond(policy: RequestPolicy, look: Look, before: Look | undefined): number | undefined {
  const limit = look.limits.find(({ windowMs }) => windowMs >= MIN_WINDOW_MS) ?? look.limits.at(-1)
  const { windows, hasBurst } = ALGORITHMS[policy.algorithm]
  if (hasBurst) return countBucketUnitsPerSecond(policy, look, before)
  if (!limit || !windows) return undefined
  return (limit.used / countElapsedMs(limit, policy, look.nowMs, windows === 'every')) * 1_000
}

function countElapsedMs(limit: LimitUsage, policy: RequestPolicy, nowMs: number, isWhole: boolean): number {
  if (isWhole) return limit.windowMs
  const calendar = policy.limits.find(({ name }) => name === limit.name)?.calendar
  const [startMs = nowMs + limit.resetMs - limit.windowMs] = calendar?.findEnds(nowMs) ?? []
  return Math.max(nowMs - startMs, 1_000)
}

/** Adds what is gone and what was refilled meanwhile. A full bucket may have lost more, since it overflows. */
function countBucketUnitsPerSecond(policy: RequestPolicy, look: Look, before: Look | undefined): number | undefined {
  const [now] = look.limits
  const [earlier] = before?.limits ?? []
  const [refill] = policy.limits
  if (!before || !now || !earlier || !refill || look.nowMs <= before.nowMs) return undefined
  if (now.used === 0) return 0
  const elapsedMs = look.nowMs - before.nowMs
  const spent = earlier.remaining + (elapsedMs * refill.limit) / refill.windowMs - now.remaining
  return (Math.max(0, spent) / elapsedMs) * 1_000
}
