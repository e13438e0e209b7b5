import type { CountedWindowsState } from '../../algorithms/counted-windows.ts'
import { putOff, type TokenBucketState } from '../../algorithms/token-bucket.ts'
import type { StoreCharge } from '../../model/charge.ts'

/** Removes a charge from a state that does not list its charges. Plain data. */
export type Undo = CountedUndo | BucketUndo

type CountedUndo = readonly WindowUndo[]

interface WindowUndo {
  readonly windowMs: number
  startMs: number
  /** The window began with it: without it, a quota's window begins with the next charge. */
  isFirst: boolean
  next?: Next | undefined
}

/** The next charge of the window: the number of its decision, 0 if it cannot be removed, and its time. */
type Next = readonly [id: number, atMs: number]

/** Both are units times the window in µs. */
interface BucketUndo {
  owed: number
  /**
   * The most that can be given back: a bucket that lacked less would have been full when a later charge came, and given
   * back what it had lost by being full.
   */
  slack: number
}

export interface Undoable {
  readonly permits: number
  readonly cost: number
  undo?: Undo
}

/** A charge, or a penalty that was added. */
interface Change {
  /** Number of the decision; 0 if it cannot be removed. */
  readonly id: number
  readonly charge: Pick<StoreCharge, 'algorithm' | 'limits'>
  readonly nowUs: number
  /** Forfeited units included. */
  readonly units: number
  readonly leaseMs: number
}

/** @param opens the earlier charges that may be removed */
export function recordUndo(
  before: unknown,
  after: unknown,
  change: Change,
  opens: ReadonlyMap<number, Undoable>,
): Undo {
  if (after instanceof Map) return recordCounted(after as CountedWindowsState, change, opens)
  const { nowUs, units, leaseMs } = change
  const { us, fraction, limit, windowUs } = after as TokenBucketState
  const known = before as TokenBucketState | undefined
  const isSameRate = known === undefined || (known.limit === limit && known.windowUs === windowUs)
  const owed = units * windowUs
  // A lease gives up what is refilled meanwhile, or less of a bucket that lacks little more than that.
  const givenUp = leaseMs > 0 ? (1 + Math.ceil((leaseMs * 1000 * limit) / windowUs)) * windowUs : 0
  // A lack carried over from another rate does not tell which charges it consists of.
  const lack = isSameRate ? Math.max(0, (us - nowUs) * limit + fraction - owed - givenUp) : 0
  for (const { undo } of opens.values()) if (isBucketUndo(undo)) undo.slack = Math.min(undo.slack, lack)
  return { owed, slack: Number.MAX_SAFE_INTEGER }
}

function recordCounted(
  counts: CountedWindowsState,
  { id, charge, nowUs, units }: Change,
  opens: ReadonlyMap<number, Undoable>,
): CountedUndo {
  const own = charge.limits.map(({ windowMs }): WindowUndo => {
    const { startMs, used } = counts.get(windowMs) ?? { startMs: 0, used: 0 }
    return { windowMs, startMs, isFirst: charge.algorithm === 'quota' && used === units }
  })
  for (const window of units > 0 ? own : []) {
    for (const earlier of findWindows(window, opens)) earlier.next ??= [id, Math.floor(nowUs / 1000)]
  }
  return own
}

/**
 * @param id of the charge, among the open ones
 * @param units of it that are removed
 * @param opens charges that may be removed, oldest first
 * @returns the state as if the units had never been charged; undefined if nothing else was
 */
export function removeCharge(state: unknown, id: number, units: number, opens: ReadonlyMap<number, Undoable>): unknown {
  const charge = opens.get(id)
  const undo = charge?.undo
  if (state === undefined || !charge || !undo) return state
  const isWhole = units === charge.permits * charge.cost
  if (!isBucketUndo(undo)) return removeCounted(state as CountedWindowsState, id, units, isWhole, undo, opens)
  const bucket = state as TokenBucketState
  const owed = isWhole ? undo.owed : Math.min(undo.owed, units * bucket.windowUs)
  const { slack } = undo
  const given = Math.min(owed, slack)
  let isLater = false
  for (const other of opens.values()) {
    if (!isBucketUndo(other.undo)) continue
    isLater ||= other === charge
    // Before an earlier charge was passed by this one, the bucket lacked what it lacked.
    other.undo.slack = isLater ? other.undo.slack - given : Math.min(other.undo.slack, slack - given)
  }
  undo.owed -= owed
  return putOff(bucket, -given, 0, bucket.penalty).state
}

function removeCounted(
  state: CountedWindowsState,
  id: number,
  units: number,
  isWhole: boolean,
  undo: CountedUndo,
  opens: ReadonlyMap<number, Undoable>,
): CountedWindowsState | undefined {
  const counts = new Map(state)
  for (const window of undo) {
    const { windowMs, startMs, isFirst, next } = window
    const count = counts.get(windowMs)
    // Another window has begun since.
    if (!count || count.startMs !== startMs) continue
    if (count.used <= units) {
      counts.delete(windowMs)
      continue
    }
    const beginsMs = isWhole && isFirst && next ? next[1] : startMs
    counts.set(windowMs, { startMs: beginsMs, used: count.used - units })
    if (!isWhole) continue
    const following = isFirst ? opens.get(next?.[0] ?? 0) : undefined
    for (const other of findWindows(window, opens)) {
      if (other.next?.[0] === id) other.next = next
      other.startMs = beginsMs
      if (following?.undo && !isBucketUndo(following.undo)) other.isFirst ||= following.undo.includes(other)
    }
  }
  return counts.size > 0 ? counts : undefined
}

/** Finds the same window in the open charges that it has counted. */
function findWindows({ windowMs, startMs }: WindowUndo, opens: ReadonlyMap<number, Undoable>): WindowUndo[] {
  return [...opens.values()].flatMap(({ undo }) => {
    return undo && !isBucketUndo(undo) ? undo.filter((own) => own.windowMs === windowMs && own.startMs === startMs) : []
  })
}

function isBucketUndo(undo: Undo | undefined): undo is BucketUndo {
  return undo !== undefined && 'owed' in undo
}
