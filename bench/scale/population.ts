/** Callers whose requests follow Zipf's law: the nth sends 1/n of what the first sends. */

/** Chooses who sends a request. */
export interface Population {
  /** Callers that are simulated. */
  readonly size: number
  /** @param share from 0 to below 1, at random */
  callerAt(share: number): number
}

/**
 * @param callers of all the world
 * @param oneIn simulates one for so many whose ranks follow each other, and who send as much as these do on average. Those
 *   who send most by far are all far over their limits, and cost the same whatever they send.
 */
export function createZipfPopulation(callers: number, oneIn: number): Population {
  const size = Math.ceil(callers / oneIn)
  const sums = new Float64Array(size)
  let sum = 0
  for (let index = 0; index < size; index++) {
    const last = Math.min(callers, (index + 1) * oneIn)
    for (let rank = index * oneIn + 1; rank <= last; rank++) sum += 1 / rank
    sums[index] = sum
  }
  return {
    size,
    callerAt(share) {
      const wanted = share * sum
      let [low, high] = [0, size - 1]
      while (low < high) {
        const middle = (low + high) >>> 1
        if ((sums[middle] as number) > wanted) high = middle
        else low = middle + 1
      }
      return low
    },
  }
}
