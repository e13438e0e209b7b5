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

export interface Counts {
  admitted: number
  refused: number
}

/** Counts of one span of time. */
export interface Bucket extends Counts {
  readonly startMs: number
  /** Those of each policy. */
  readonly policies: readonly Counts[]
}

/** Counts over time, in at most a hundred buckets, which get wider as time goes on. */
export class Timeline {
  readonly #policies: number
  #width = 0
  #buckets: Bucket[] = []

  /** @param policies how many are counted apart */
  constructor(policies: number) {
    this.#policies = policies
  }

  get widthMs(): number {
    return WIDTHS_MS[this.#width] ?? D
  }

  /** In order, without gaps. */
  get buckets(): readonly Readonly<Bucket>[] {
    return this.#buckets
  }

  /** @param atMs not before that of the call before */
  add(atMs: number, kind: keyof Counts): void {
    while (!this.#reaches(atMs)) this.#widen()
    this.#bucketAt(atMs)[kind]++
  }

  /** What a policy says of the request that was added last. @param index of the policy */
  addToPolicy(index: number, kind: keyof Counts): void {
    const counts = this.#buckets.at(-1)?.policies[index]
    if (counts) counts[kind]++
  }

  #reaches(atMs: number): boolean {
    const first = this.#buckets[0]
    return !first || atMs < first.startMs + MOST_BUCKETS * this.widthMs || this.#width === WIDTHS_MS.length - 1
  }

  /** The last bucket, after those up to it were added. */
  #bucketAt(atMs: number): Bucket {
    const untilMs = Math.floor(atMs / this.widthMs) * this.widthMs
    let last = this.#buckets.at(-1)
    while (!last || last.startMs < untilMs) {
      last = this.#bucketOf(last ? last.startMs + this.widthMs : untilMs)
      this.#buckets.push(last)
    }
    return last
  }

  #bucketOf(startMs: number): Bucket {
    const policies = Array.from({ length: this.#policies }, () => ({ admitted: 0, refused: 0 }))
    return { startMs, admitted: 0, refused: 0, policies }
  }

  #widen(): void {
    this.#width++
    const narrow = this.#buckets
    this.#buckets = []
    for (const { startMs, policies, ...counts } of narrow) {
      const bucket = this.#bucketAt(startMs)
      addUp(bucket, counts)
      for (const [index, each] of policies.entries()) addUp(bucket.policies[index] as Counts, each)
    }
  }
}

function addUp(sum: Counts, { admitted, refused }: Counts): void {
  sum.admitted += admitted
  sum.refused += refused
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
