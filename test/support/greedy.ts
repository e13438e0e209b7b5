import type { Limit } from '../../src/core/model/limits.ts'

/**
 * The most that limits allow: when calls go if there is always one, and each goes as soon as every window has room.
 * @returns milliseconds from the first call
 */
export function greedyTimes(limits: readonly Limit[], count: number): number[] {
  const times: number[] = []
  for (let index = 0; index < count; index++) {
    const freed = limits.map(({ limit, windowMs }) => (index < limit ? 0 : (times[index - limit] as number) + windowMs))
    times.push(Math.max(times.at(-1) ?? 0, ...freed))
  }
  return times
}
