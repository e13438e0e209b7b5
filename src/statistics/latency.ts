/** Upper bounds of buckets, inclusive; there is a last one above. Fixed, so that all histograms can be summed. */
export const LATENCY_BOUNDS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000] as const

export function findBucket(ms: number): number {
  const index = LATENCY_BOUNDS_MS.findIndex((bound) => ms <= bound)
  return index < 0 ? LATENCY_BOUNDS_MS.length : index
}

/**
 * @param counts of each bucket @param share above 0 and at most 1, e.g. 0.99
 * @returns the bound that this share did not exceed; infinity above the last one; undefined if there are no counts
 */
export function findQuantileMs(counts: readonly number[], share: number): number | undefined {
  const total = counts.reduce((sum, count) => sum + count, 0)
  if (total === 0) return undefined
  let seen = 0
  const index = counts.findIndex((count) => {
    seen += count
    return seen >= share * total
  })
  return LATENCY_BOUNDS_MS[index] ?? Number.POSITIVE_INFINITY
}
