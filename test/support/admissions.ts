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
