const S = 1_000
const M = 60 * S
const H = 60 * M
const D = 24 * H
/** Each is a multiple of the one before, so that counts can be added up into wider buckets. */
const WIDTHS_MS = [
  1,
  10,
  100,
  S,
  2 * S,
  10 * S,
  30 * S,
  M,
  5 * M,
  15 * M,
  30 * M,
  H,
  3 * H,
  6 * H,
  12 * H,
  D,
  7 * D,
  28 * D,
  364 * D,
]
const MOST_BUCKETS = 100

/** Counts of one span of time. */
export interface Bucket {
  readonly startMs: number
  admitted: number
  refused: number
}

/** Counts over time, in at most a hundred buckets, which get wider as time goes on. */
export class Timeline {
  #width = 0
  #buckets: Bucket[] = []

  get widthMs(): number {
    return WIDTHS_MS[this.#width] ?? D
  }

  /** In order, without gaps. */
  get buckets(): readonly Readonly<Bucket>[] {
    return this.#buckets
  }

  /** @param atMs not before that of the call before */
  add(atMs: number, kind: 'admitted' | 'refused'): void {
    while (!this.#reaches(atMs)) this.#widen()
    const startMs = this.#startOf(atMs)
    this.#buckets.push(...this.#missing(startMs))
    const bucket = this.#buckets.at(-1) as Bucket
    bucket[kind]++
  }

  #reaches(atMs: number): boolean {
    const first = this.#buckets[0]
    return !first || atMs < first.startMs + MOST_BUCKETS * this.widthMs || this.#width === WIDTHS_MS.length - 1
  }

  #startOf(atMs: number): number {
    return Math.floor(atMs / this.widthMs) * this.widthMs
  }

  #missing(untilMs: number): Bucket[] {
    const last = this.#buckets.at(-1)
    const missing: Bucket[] = []
    for (let startMs = last ? last.startMs + this.widthMs : untilMs; startMs <= untilMs; startMs += this.widthMs) {
      missing.push({ startMs, admitted: 0, refused: 0 })
    }
    return missing
  }

  #widen(): void {
    this.#width++
    const narrow = this.#buckets
    this.#buckets = []
    for (const { startMs, admitted, refused } of narrow) {
      this.#buckets.push(...this.#missing(this.#startOf(startMs)))
      const bucket = this.#buckets.at(-1) as Bucket
      bucket.admitted += admitted
      bucket.refused += refused
    }
  }
}

const BARS = '▁▂▃▄▅▆▇█'

/** A row of blocks, as high as the values; a space for none. @param most the value of a whole block */
export function blocks(values: readonly number[], most: number): string {
  return values
    .map((value) =>
      value === 0 ? ' ' : (BARS[Math.min(BARS.length, Math.ceil((value / most) * BARS.length)) - 1] ?? ''),
    )
    .join('')
}
