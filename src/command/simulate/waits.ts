import { createHistogram } from 'node:perf_hooks'

/** How long refused requests would have waited, until the same would be admitted. */
export class Waits {
  /** Within a thousandth, in memory that does not grow. */
  readonly #histogram = createHistogram({ figures: 3 })
  #longestMs = 0

  /** @param waitMs from 1 */
  add(waitMs: number): void {
    this.#longestMs = Math.max(this.#longestMs, waitMs)
    this.#histogram.record(waitMs)
  }

  get longestMs(): number {
    return this.#longestMs
  }

  /** Milliseconds within which so many of 100 would have waited, within a thousandth of that. */
  percentileMs(percent: number): number {
    return Math.min(this.#longestMs, this.#histogram.percentile(percent))
  }
}
