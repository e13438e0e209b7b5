import type { CountedWindowsState } from '../../algorithms/counted-windows.ts'
import { putOff, type TokenBucketState } from '../../algorithms/token-bucket.ts'
import type { MachineState, Open, Undo } from './machine-state.ts'

type Opens = MachineState['open']

/**
 * Notes a charge of a token bucket, or a penalty that was added.
 * @param change its units include forfeited ones
 * @param opens the earlier charges that may be removed
 */
export function recordUndo(
  before: TokenBucketState | undefined,
  { us, fraction, limit, windowUs }: TokenBucketState,
  { nowUs, units, leaseMs }: { readonly nowUs: number; readonly units: number; readonly leaseMs: number },
  opens: Opens,
): Undo {
  const isSameRate = before === undefined || (before.limit === limit && before.windowUs === windowUs)
  const owed = units * windowUs
  // A lease gives up what is refilled meanwhile, or less of a bucket that lacks little more than that.
  const givenUp = leaseMs > 0 ? (1 + Math.ceil((leaseMs * 1000 * limit) / windowUs)) * windowUs : 0
  // A lack carried over from another rate does not tell which charges it consists of.
  const lack = isSameRate ? Math.max(0, (us - nowUs) * limit + fraction - owed - givenUp) : 0
  for (const { undo } of opens.values()) if (undo) undo.slack = Math.min(undo.slack, lack)
  return { owed, slack: Number.MAX_SAFE_INTEGER }
}

/** @returns the bucket as if these units of an open charge had never been charged, or with less in it */
export function refill(bucket: TokenBucketState, removed: Open, units: number, opens: Opens): TokenBucketState {
  const { undo, permits, cost } = removed
  if (!undo) return bucket
  const owed = units === permits * cost ? undo.owed : Math.min(undo.owed, units * bucket.windowUs)
  const { slack } = undo
  const given = Math.min(owed, slack)
  let isLater = false
  for (const other of opens.values()) {
    if (!other.undo) continue
    isLater ||= other === removed
    // Before an earlier charge was passed by this one, the bucket lacked what it lacked.
    other.undo.slack = isLater ? other.undo.slack - given : Math.min(other.undo.slack, slack - given)
  }
  undo.owed -= owed
  return putOff(bucket, -given, 0, bucket.penalty).state
}

/** Notes that a charge stays: if all before it in its window are removed, a `quota` window begins with it. */
export function noteKept({ kept, firstKept }: MachineState, { charge, dateMs }: Pick<Open, 'charge' | 'dateMs'>): void {
  if (charge.algorithm !== 'quota' || !kept.state) return
  for (const { windowMs } of charge.limits) {
    const { startMs = Number.POSITIVE_INFINITY } = (kept.state as CountedWindowsState).get(windowMs) ?? {}
    const knownMs = firstKept.get(windowMs) ?? 0
    if (startMs <= dateMs && (knownMs < startMs || knownMs > dateMs)) firstKept.set(windowMs, dateMs)
  }
}

/** @returns the counts as if these units of an open charge had never been charged; undefined if nothing else was */
export function removeCounted(
  state: CountedWindowsState,
  removed: Open,
  units: number,
  { open: opens, firstKept }: MachineState,
): CountedWindowsState | undefined {
  const counts = new Map(state)
  for (const { windowMs } of removed.charge.limits) {
    const count = counts.get(windowMs)
    // Another window has begun since.
    if (!count || removed.dateMs < count.startMs) continue
    const used = count.used - units
    let { startMs } = count
    if (removed.charge.algorithm === 'quota' && units === removed.permits * removed.cost) {
      const dates = [firstKept.get(windowMs) ?? 0]
      for (const { charge, dateMs } of opens.values()) {
        if (charge !== removed.charge && charge.limits.some((limit) => limit.windowMs === windowMs)) dates.push(dateMs)
      }
      const laterMs = Math.min(...dates.filter((ms) => ms >= count.startMs))
      if (Number.isFinite(laterMs)) startMs = laterMs
    }
    if (used > 0) counts.set(windowMs, { ...count, startMs, used })
    else counts.delete(windowMs)
  }
  return counts.size > 0 ? counts : undefined
}
