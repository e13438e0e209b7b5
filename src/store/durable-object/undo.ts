import type { CountedWindowsState } from '../../algorithms/counted-windows.ts'
import { putOff, type TokenBucketState } from '../../algorithms/token-bucket.ts'
import type { Rule } from '../../model/charge.ts'

/** What it takes to remove a charge from a state that does not list its charges. Plain data. */
export type Undo = CountedUndo | BucketUndo

/** Lengths of the windows that have counted it, and when those began. */
type CountedUndo = readonly (readonly [windowMs: number, startMs: number])[]

/** Both in units times the window in µs. */
interface BucketUndo {
  /** Cost of the charge. */
  owed: number
  /**
   * The most that can be given back: a bucket that lacked less would have been full when a later charge came, and given
   * back what it had lost by being full.
   */
  slack: number
}

/** A charge that may be removed. */
export interface Undoable {
  readonly permits: number
  readonly cost: number
  undo?: Undo
}

/** A change of a state: a charge, or a penalty that was added. */
interface Change {
  readonly rule: Pick<Rule, 'tiers'>
  readonly nowUs: number
  /** Charged, forfeited ones included. */
  readonly units: number
  readonly leaseMs: number
}

/**
 * @param others charges that may be removed, which this change comes after
 * @returns what it takes to remove it
 */
export function recordUndo(
  before: unknown,
  after: unknown,
  { rule, nowUs, units, leaseMs }: Change,
  others: Iterable<Undoable>,
): Undo {
  if (after instanceof Map) {
    const counts = after as CountedWindowsState
    return rule.tiers.map(({ windowMs }) => [windowMs, counts.get(windowMs)?.startMs ?? 0] as const)
  }
  const { us, fraction, limit, windowUs } = after as TokenBucketState
  const known = before as TokenBucketState | undefined
  const isSameRate = known === undefined || (known.limit === limit && known.windowUs === windowUs)
  const owed = units * windowUs
  // A lease gives up what is refilled meanwhile, or less of a bucket that lacks little more than that.
  const givenUp = leaseMs > 0 ? (1 + Math.ceil((leaseMs * 1000 * limit) / windowUs)) * windowUs : 0
  // At another rate, the lack that was carried over does not tell which charges it consists of.
  const lack = isSameRate ? Math.max(0, (us - nowUs) * limit + fraction - owed - givenUp) : 0
  for (const { undo } of others) if (isOfBucket(undo)) undo.slack = Math.min(undo.slack, lack)
  return { owed, slack: Number.MAX_SAFE_INTEGER }
}

/**
 * @param units of the charge that are removed
 * @param all charges that may be removed, this one among them, oldest first
 * @returns the state as if the units had never been charged; undefined if nothing else was
 */
export function removeCharge(state: unknown, charge: Undoable, units: number, all: Iterable<Undoable>): unknown {
  const { undo } = charge
  if (state === undefined || !undo) return state
  if (!isOfBucket(undo)) return removeCounted(state as CountedWindowsState, undo, units)
  const bucket = state as TokenBucketState
  const isWhole = units === charge.permits * charge.cost
  const owed = isWhole ? undo.owed : Math.min(undo.owed, units * bucket.windowUs)
  const { slack } = undo
  const given = Math.min(owed, slack)
  let isLater = false
  for (const other of all) {
    if (!isOfBucket(other.undo)) continue
    isLater ||= other === charge
    // Before an earlier charge was passed by this one, the bucket lacked what it lacked.
    other.undo.slack = isLater ? other.undo.slack - given : Math.min(other.undo.slack, slack - given)
  }
  undo.owed -= owed
  return putOff(bucket, -given, 0, bucket.penalty).state
}

function removeCounted(state: CountedWindowsState, undo: CountedUndo, units: number): CountedWindowsState | undefined {
  const counts = new Map(state)
  for (const [windowMs, startMs] of undo) {
    const count = counts.get(windowMs)
    // Another window has begun since.
    if (count?.startMs !== startMs) continue
    if (count.used > units) counts.set(windowMs, { startMs, used: count.used - units })
    else counts.delete(windowMs)
  }
  return counts.size > 0 ? counts : undefined
}

function isOfBucket(undo: Undo | undefined): undo is BucketUndo {
  return undo !== undefined && 'owed' in undo
}
