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

/** Counts of one span of time. */
export interface Bucket extends Counts {
  readonly startMs: number
  /** Counts of each policy. */
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
    return WIDTHS_MS[this.#width] as number
  }

  /** In order, without gaps. */
  get buckets(): readonly Readonly<Bucket>[] {
    return this.#buckets
  }

  /** @param atMs not before that of the call before */
  add(atMs: number, kind: keyof Counts): void {
    while (!this.#reaches(atMs)) this.#widen()
    this.#extendTo(atMs)[kind]++
  }

  /** Counts for a policy the request that was added last. @param index of the policy */
  addToPolicy(index: number, kind: keyof Counts): void {
    const counts = this.#buckets.at(-1)?.policies[index]
    if (counts) counts[kind]++
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
      const policies = Array.from({ length: this.#policies }, () => ({ admitted: 0, refused: 0 }))
      last = { startMs, admitted: 0, refused: 0, policies }
      this.#buckets.push(last)
    }
    return last
  }

  #widen(): void {
    this.#width++
    const narrow = this.#buckets
    this.#buckets = []
    for (const { startMs, policies, ...counts } of narrow) {
      const bucket = this.#extendTo(startMs)
      addUp(bucket, counts)
      for (const [index, each] of policies.entries()) addUp(bucket.policies[index] as Counts, each)
    }
  }
}

function addUp(sum: Counts, { admitted, refused }: Counts): void {
  sum.admitted += admitted
  sum.refused += refused
}
