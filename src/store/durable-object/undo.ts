import type { CountedWindowsState } from '../../algorithms/counted-windows.ts'
import { putOff, type TokenBucketState } from '../../algorithms/token-bucket.ts'
import type { Open } from './book.ts'
import { type Kept, NOTHING, type Step } from './replay.ts'

/** What it takes to take a charge back whose step is no longer remembered. Plain data. */
export type Undo = CountedUndo | BucketUndo

/** Lengths of the windows that have counted it, and when those began. */
type CountedUndo = readonly (readonly [windowMs: number, startMs: number])[]

/** Both in units times the window in µs. */
interface BucketUndo {
  /** What the charge has cost. */
  owed: number
  /**
   * What can be given back at most, because it would have been the same for all later steps: a bucket that lacked less
   * would have been full when one of them came.
   */
  slack: number
}

/**
 * A step becomes part of the base.
 * @param opens what may be taken back, oldest first
 */
export function recordUndo(before: Kept, step: Step, after: Kept, opens: ReadonlyMap<number, Open>): void {
  const { id, nowUs, units, leaseMs = 0, rule, penalty, chargedAtMs } = step
  const { state, forfeited = 0 } = after
  const own = opens.get(id)
  if (state instanceof Map) {
    const counts = state as CountedWindowsState
    if (own) own.undo = rule.tiers.map(({ windowMs }) => [windowMs, counts.get(windowMs)?.startMs ?? 0] as const)
    return
  }
  // A correction moves the bucket as it would have without any other charge.
  if (chargedAtMs !== undefined || (units === 0 && !penalty)) return
  const { us, fraction, limit, windowUs } = state as TokenBucketState
  const owed = (units + forfeited) * windowUs
  const known = before.state as TokenBucketState | undefined
  const isSameRate = known === undefined || (known.limit === limit && known.windowUs === windowUs)
  // A lease gives up what is refilled meanwhile, or less of a bucket that lacks little more than that.
  const givenUp = leaseMs > 0 ? (1 + Math.ceil((leaseMs * 1000 * limit) / windowUs)) * windowUs : 0
  // What is carried over to another rate does not tell what it consists of.
  const lack = isSameRate ? Math.max(0, (us - nowUs) * limit + fraction - owed - givenUp) : 0
  for (const { undo } of opens.values()) if (isOfBucket(undo)) undo.slack = Math.min(undo.slack, lack)
  if (own) own.undo = { owed, slack: Number.MAX_SAFE_INTEGER }
}

/**
 * @param units of a charge that is part of the base
 * @param opens what may be taken back, oldest first
 * @returns the base as if they had never been charged
 */
export function takeOffBase(base: Kept, open: Open, units: number, opens: Iterable<Open>): Kept {
  const { state, expiresAtMs } = base
  const { undo } = open
  if (state === undefined || !undo) return base
  if (!isOfBucket(undo)) return withoutUnits(base, undo, units)
  const bucket = state as TokenBucketState
  const isWhole = units === open.permits * open.cost
  const owed = isWhole ? undo.owed : Math.min(undo.owed, units * bucket.windowUs)
  const { slack } = undo
  const given = Math.min(owed, slack)
  let isLater = false
  for (const other of opens) {
    if (!isOfBucket(other.undo)) continue
    isLater ||= other === open
    // Before an earlier charge was passed by this one, the bucket lacked what it lacked.
    other.undo.slack = isLater ? other.undo.slack - given : Math.min(other.undo.slack, slack - given)
  }
  undo.owed -= owed
  return { state: putOff(bucket, -given, 0, bucket.penalty).state, expiresAtMs }
}

function withoutUnits({ state, expiresAtMs }: Kept, undo: CountedUndo, units: number): Kept {
  const counts = new Map(state as CountedWindowsState)
  for (const [windowMs, startMs] of undo) {
    const count = counts.get(windowMs)
    // Another window has begun since.
    if (count?.startMs !== startMs) continue
    if (count.used > units) counts.set(windowMs, { startMs, used: count.used - units })
    else counts.delete(windowMs)
  }
  return counts.size > 0 ? { state: counts, expiresAtMs } : NOTHING
}

function isOfBucket(undo: Undo | undefined): undo is BucketUndo {
  return undo !== undefined && 'owed' in undo
}
