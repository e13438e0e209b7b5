/** Traffic that tries to get more than a limit allows. */
import { seededRandom } from '../../tools/seeded-random.ts'

/** When requests are sent: milliseconds from the beginning of a window that is aligned to the clock. */
export type Schedule = readonly number[]

export interface Limit {
  readonly limit: number
  readonly windowMs: number
}

/** Each is named for what it tries. */
export const ATTACKS = {
  /**
   * One request, for windows that begin with the first; all others at the end of that window; then more than are
   * allowed through all of the next.
   */
  'burst at a window’s end'({ limit, windowMs }: Limit, durationMs: number): Schedule {
    const cycleMs = 3 * windowMs
    return listCycles(durationMs, cycleMs).flatMap((start) => [
      start + 0.02 * windowMs,
      ...spread(limit - 1, start + 0.84 * windowMs, start + 0.99 * windowMs),
      ...spread(2 * limit, start + 1.005 * windowMs, start + 2 * windowMs),
    ])
  },
  /** Nothing between the bursts, for counters that let the last window fade away. */
  'two late bursts'({ limit, windowMs }: Limit, durationMs: number): Schedule {
    const spreadBurst = (fromMs: number) => spread(limit, fromMs, fromMs + 0.11 * windowMs)
    return listCycles(durationMs, 3 * windowMs).flatMap((start) => [
      ...spreadBurst(start + 0.88 * windowMs),
      ...spreadBurst(start + 1.76 * windowMs),
    ])
  },
  'steady hammering': ({ limit, windowMs }: Limit, durationMs: number): Schedule =>
    spread((3 * limit * durationMs) / windowMs, 0, durationMs),
  random({ limit, windowMs }: Limit, durationMs: number): Schedule {
    const random = seededRandom(20261121)
    const meanGapMs = windowMs / limit
    const times: number[] = []
    let ms = 0
    while (ms < durationMs) {
      times.push(ms)
      // Now and then many at once.
      if (random() < 1 / limit) times.push(...spread(limit / 2, ms, ms + windowMs / 20))
      ms += -Math.log(1 - random()) * meanGapMs
    }
    return times.toSorted((a, b) => a - b)
  },
} as const

/** What opens connections and compiles scripts. */
export const WARM_UP: Schedule = spread(100, 0, 500)

function listCycles(durationMs: number, cycleMs: number): number[] {
  return Array.from({ length: Math.max(1, Math.floor(durationMs / cycleMs)) }, (_, index) => index * cycleMs)
}

function spread(count: number, fromMs: number, toMs: number): number[] {
  const whole = Math.round(count)
  return Array.from({ length: whole }, (_, index) => fromMs + ((toMs - fromMs) * index) / whole)
}
