/** What was admitted under one key by Redis's own record, oldest first, for sums over any span. */
export class History {
  readonly #ms: number[] = []
  /** Cost of all before each entry, and of all at the end. */
  readonly #before: number[] = [0]

  /** @param ms not before that of the entry before */
  add(ms: number, cost: number): void {
    if (ms < (this.#ms.at(-1) ?? 0)) throw new Error(`an admission at ${ms} ms comes after a later one`)
    this.#ms.push(ms)
    this.#before.push((this.#before.at(-1) as number) + cost)
  }

  /** Cost of what was admitted later than `sinceMs`, up to and with `untilMs`. */
  used(sinceMs: number, untilMs: number): number {
    return this.#costUntil(untilMs) - this.#costUntil(sinceMs)
  }

  /** Moments of admissions later than `sinceMs`, up to and with `untilMs`. */
  moments(sinceMs: number, untilMs: number): readonly number[] {
    return this.#ms.slice(this.#countUntil(sinceMs), this.#countUntil(untilMs))
  }

  #costUntil(ms: number): number {
    return this.#before[this.#countUntil(ms)] as number
  }

  #countUntil(ms: number): number {
    let low = 0
    let high = this.#ms.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#ms[middle] as number) <= ms) low = middle + 1
      else high = middle
    }
    return low
  }
}
