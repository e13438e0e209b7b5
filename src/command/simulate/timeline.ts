/** Each is a multiple of the one before, so that counts can be added up into wider buckets: 1 ms to 364 days. */
const WIDTHS_MS = [
  1, 10, 100, 1_000, 2_000, 10_000, 30_000, 60_000, 300_000, 900_000, 1_800_000, 3_600_000, 10_800_000, 21_600_000,
  43_200_000, 86_400_000, 604_800_000, 2_419_200_000, 31_449_600_000,
] as const
const MAX_BUCKETS = 100

export interface Counts {
  admitted: number
  refused: number
}

export interface Bucket {
  readonly startMs: number
  readonly total: Counts
  readonly policies: readonly Counts[]
}

/** Counts over time, in at most a hundred buckets, which get wider as time goes on. */
export class Timeline {
  readonly #policyCount: number
  #width = 0
  #buckets: Bucket[] = []

  constructor(policyCount: number) {
    this.#policyCount = policyCount
  }

  get widthMs(): number {
    return WIDTHS_MS[this.#width] as number
  }

  /** Sorted, without gaps. */
  get buckets(): readonly Bucket[] {
    return this.#buckets
  }

  /** @param atMs not before that of the call before @returns the bucket of that time, to be counted in */
  bucketAt(atMs: number): Bucket {
    while (!this.#reaches(atMs)) this.#widen()
    return this.#extendTo(atMs)
  }

  #reaches(atMs: number): boolean {
    const first = this.#buckets[0]
    return !first || atMs < first.startMs + MAX_BUCKETS * this.widthMs || this.#width === WIDTHS_MS.length - 1
  }

  /** Adds empty buckets up to a time. @returns the last one */
  #extendTo(atMs: number): Bucket {
    const untilMs = Math.floor(atMs / this.widthMs) * this.widthMs
    let last = this.#buckets.at(-1)
    while (!last || last.startMs < untilMs) {
      const startMs: number = last ? last.startMs + this.widthMs : untilMs
      const [total, ...policies] = Array.from({ length: 1 + this.#policyCount }, () => ({ admitted: 0, refused: 0 }))
      last = { startMs, total: total as Counts, policies }
      this.#buckets.push(last)
    }
    return last
  }

  #widen(): void {
    this.#width++
    const narrow = this.#buckets
    this.#buckets = []
    for (const { startMs, total, policies } of narrow) {
      const bucket = this.#extendTo(startMs)
      const sums = [bucket.total, ...bucket.policies]
      for (const [index, { admitted, refused }] of [total, ...policies].entries()) {
        const sum = sums[index] as Counts
        sum.admitted += admitted
        sum.refused += refused
      }
    }
  }
}
