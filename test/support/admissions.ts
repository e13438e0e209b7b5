import { expect } from 'vitest'

export interface Admission {
  readonly ms: number
  readonly cost: number
}

/** Asserts that no window of this length, (end - windowMs, end], holds more than its limit. */
export function expectNoWindowOver(limit: number, windowMs: number, admitted: readonly Admission[]): void {
  for (const end of admitted) {
    const inWindow = admitted.filter(({ ms }) => ms > end.ms - windowMs && ms <= end.ms)
    expect(inWindow.reduce((sum, { cost }) => sum + cost, 0)).toBeLessThanOrEqual(limit)
  }
}

/** Asserts that no span of time holds more than a bucket's burst and what is refilled in it. */
export function expectNoSpanOver(burst: number, unitsPerMs: number, admitted: readonly Admission[]): void {
  const [{ ms: startMs } = { ms: 0 }] = admitted
  // Units above those refilled since the start: the most that it rises by is the most that any span holds.
  let [spent, least] = [0, Number.POSITIVE_INFINITY]
  for (const { ms, cost } of admitted) {
    least = Math.min(least, spent - unitsPerMs * (ms - startMs))
    spent += cost
    expect(spent - unitsPerMs * (ms - startMs) - least).toBeLessThanOrEqual(burst + 1e-6)
  }
}
