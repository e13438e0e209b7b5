/** Counts over time, in at most a hundred buckets, which get wider as time goes on. */

/** Each is a multiple of the one before, so that counts can be added up into wider buckets: 1 ms to 364 days. */
const WIDTHS_MS = [
  1, 10, 100, 1_000, 2_000, 10_000, 30_000, 60_000, 300_000, 900_000, 1_800_000, 3_600_000, 10_800_000, 21_600_000,
  43_200_000, 86_400_000, 604_800_000, 2_419_200_000, 31_449_600_000,
] as const
const MAX_BUCKETS = 100

export interface TimelineCounts {
  admitted: number
  refused: number
}

/** The first counts are of all requests, the others of each policy. */
interface Bucket {
  readonly startMs: number
  readonly counts: readonly TimelineCounts[]
}

export class Timeline {
  readonly totals: readonly TimelineCounts[]
  #width = 0
  #buckets: Bucket[] = []

  constructor(policyCount: number) {
    this.totals = createCounts(1 + policyCount)
  }

  get widthMs(): number {
    return WIDTHS_MS[this.#width] as number
  }

  get buckets(): readonly Bucket[] {
    return this.#buckets
  }

  /** @param atMs not before that of the call before @param index 0 for all requests, from 1 for each policy */
  count(atMs: number, index: number, kind: keyof TimelineCounts): void {
    const firstMs = this.#buckets[0]?.startMs ?? atMs
    while (atMs >= firstMs + MAX_BUCKETS * this.widthMs && this.#width < WIDTHS_MS.length - 1) this.#widen()
    for (const counts of [this.#extendTo(atMs).counts[index], this.totals[index]]) if (counts) counts[kind]++
  }

  /** Adds empty buckets up to a time. @returns the last one */
  #extendTo(atMs: number): Bucket {
    const untilMs = Math.floor(atMs / this.widthMs) * this.widthMs
    let last = this.#buckets.at(-1)
    while (!last || last.startMs < untilMs) {
      last = { startMs: last ? last.startMs + this.widthMs : untilMs, counts: createCounts(this.totals.length) }
      this.#buckets.push(last)
    }
    return last
  }

  #widen(): void {
    this.#width++
    for (const { startMs, counts } of this.#buckets.splice(0)) {
      for (const [index, sum] of this.#extendTo(startMs).counts.entries()) {
        sum.admitted += counts[index]?.admitted ?? 0
        sum.refused += counts[index]?.refused ?? 0
      }
    }
  }
}

function createCounts(length: number): readonly TimelineCounts[] {
  return Array.from({ length }, () => ({ admitted: 0, refused: 0 }))
}
