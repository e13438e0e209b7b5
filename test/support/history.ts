import type { Limit } from './windows.ts'

/** What was admitted under one key, oldest first, for sums over any span. */
export class History {
  readonly #ms: number[] = []
  readonly #madeMs: number[] = []
  /** Cost of all before each entry, and of all at the end. */
  readonly #before: number[] = [0]

  /**
   * @param ms its date, not before that of the entry before
   * @param madeMs when it was admitted, if it is dated ahead
   */
  add(ms: number, cost: number, madeMs = ms): void {
    if (ms < (this.#ms.at(-1) ?? 0)) throw new Error(`an admission at ${ms} ms comes after a later one`)
    this.#ms.push(ms)
    this.#madeMs.push(madeMs)
    this.#before.push((this.#before.at(-1) as number) + cost)
  }

  /** Cost of what is dated later than `sinceMs`, and was admitted up to and with `untilMs`. */
  used(sinceMs: number, untilMs: number): number {
    const [gone, made] = [countUntil(this.#ms, sinceMs), countUntil(this.#madeMs, untilMs)]
    return (this.#before[Math.max(gone, made)] as number) - (this.#before[gone] as number)
  }

  /** Moments of admissions later than `sinceMs`, up to and with `untilMs`. */
  moments(sinceMs: number, untilMs: number): readonly number[] {
    return this.#madeMs.slice(countUntil(this.#madeMs, sinceMs), countUntil(this.#madeMs, untilMs))
  }
}

function countUntil(inOrder: readonly number[], ms: number): number {
  let low = 0
  let high = inOrder.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((inOrder[middle] as number) <= ms) low = middle + 1
    else high = middle
  }
  return low
}

export interface IdealRequest {
  readonly ms: number
  /** Under each key, what the request costs there. */
  readonly charges: readonly { readonly key: string; readonly limits: readonly Limit[]; readonly cost: number }[]
}

/** Counts the requests that one exact limiter for all admits, which decides each as it is sent. */
export function idealAdmissions(requests: readonly IdealRequest[]): number {
  const histories = new Map<string, History>()
  let admitted = 0
  for (const { ms, charges } of requests.toSorted((a, b) => a.ms - b.ms)) {
    for (const { key } of charges) if (!histories.has(key)) histories.set(key, new History())
    const readHistory = (key: string) => histories.get(key) as History
    const hasRoom = charges.every(({ key, limits, cost }) =>
      limits.every(({ limit, windowMs }) => readHistory(key).used(ms - windowMs, ms) + cost <= limit),
    )
    if (!hasRoom) continue
    for (const { key, cost } of charges) readHistory(key).add(ms, cost)
    admitted++
  }
  return admitted
}
