/**
 * Keeps token buckets. To take a charge back, a bucket gets what it has lost; but a bucket that would have been full when a
 * later charge came would have lost that anyway, so each open charge knows the most that can be given back.
 */

import { putOff, type TokenBucketState, tokenBucket } from '../../algorithms/token-bucket.ts'
import type { Change, Keeper, MachineState, Open, Undo } from './machine-state.ts'

type Opens = MachineState['open']

export const bucketKeeper: Keeper<TokenBucketState> = {
  charge(before, change, { open: opens }) {
    const { charge, nowUs, units, leaseMs, penalty } = change
    const commit = tokenBucket.commit(before, charge, nowUs, units, leaseMs, penalty)
    const { state, forfeited = 0 } = commit
    const undo = recordUndo(before, state, { ...change, units: units + forfeited }, opens)
    return { ...commit, dateMs: Math.floor(nowUs / 1000), undo }
  },

  takeBack: (bucket, open, units, { open: opens }) => refill(bucket, open, units, opens),
  write: (state) => ({ state }),
  read: ({ state }) => state,
}

/**
 * Notes a charge, or a penalty that was added.
 * @param change its units include forfeited ones
 * @param opens the earlier charges that may be removed
 */
function recordUndo(
  before: TokenBucketState | undefined,
  { us, fraction, limit, windowUs }: TokenBucketState,
  { nowUs, units, leaseMs = 0 }: Pick<Change, 'nowUs' | 'units' | 'leaseMs'>,
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
function refill(bucket: TokenBucketState, removed: Open, units: number, opens: Opens): TokenBucketState {
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
