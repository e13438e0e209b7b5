import { type Counters, PERIOD_MS, type Period, type Resolution, SKETCH_CAPACITY, startOf } from '../store/counters.ts'
import { mergeSketches, NO_SKETCH, type Sketch } from '../store/sketch.ts'
import { REFUSED_CALLERS } from './count-names.ts'
import { type Numbers, numbersOf, sumCounts } from './numbers.ts'

export interface StatisticsQuery {
  /** By minute for the last two hours, or by hour for the last 30 days. */
  readonly resolution: Resolution
  /** Milliseconds since the Unix epoch; periods that have a part from here … */
  readonly fromMs: number
  /** … to before here are answered. */
  readonly toMs: number
}

/** What all isolates have counted. Plain data: it can be shown, or sent as JSON. */
export interface Statistics {
  readonly resolution: Resolution
  readonly periodMs: number
  /** Start of the first period. */
  readonly fromMs: number
  /** End of the last one. */
  readonly toMs: number
  /** Those in which something was counted, the earliest first. */
  readonly periods: readonly PeriodNumbers[]
  /** Over all of them. */
  readonly total: Numbers
  /** Who was refused most over all of them. */
  readonly refused: RefusedCallers
}

export interface PeriodNumbers extends Numbers {
  /** Milliseconds since the Unix epoch. */
  readonly startMs: number
  readonly refused: RefusedCallers
}

export interface RefusedCallers {
  /** At most 50, the most first. */
  readonly callers: readonly RefusedCaller[]
  /** How often a caller that is not among them may have been refused by one policy. */
  readonly othersAtMost: number
}

export interface RefusedCaller {
  /** The policy that has refused it. */
  readonly policy: string
  /** As in Redis keys and in logs. */
  readonly digest: string
  /** How many of its requests were refused, at most … */
  readonly atMost: number
  /** … and at least. */
  readonly atLeast: number
  /** What CALLER_LABEL names said of it. Whoever shows it must escape it: callers write it. */
  readonly label?: string
}

/** @throws {StoreError} */
export async function readStatistics(counters: Counters, query: StatisticsQuery): Promise<Statistics> {
  const { resolution, fromMs, toMs } = query
  const periods = await counters.read(resolution, fromMs, toMs)
  const sketches = periods.map(sketchOf)
  return {
    resolution,
    periodMs: PERIOD_MS[resolution],
    fromMs: startOf(resolution, fromMs),
    toMs: startOf(resolution, toMs - 1) + PERIOD_MS[resolution],
    periods: periods.map((period) => ({
      startMs: period.startMs,
      ...numbersOf(period.counts),
      refused: refusedCallersIn(period),
    })),
    total: numbersOf(sumCounts(periods.map(({ counts }) => counts))),
    refused: refusedOf(sketches.reduce((sum, sketch) => mergeSketches(sum, sketch, SKETCH_CAPACITY), NO_SKETCH)),
  }
}

/**
 * Everything counted so far, for counters that only grow. They begin anew after a month without a request.
 * @throws {StoreError}
 */
export async function readTotals(counters: Counters): Promise<Numbers> {
  return numbersOf(await counters.totals())
}

/** Who was refused most in a period. */
export function refusedCallersIn(period: Period): RefusedCallers {
  return refusedOf(sketchOf(period))
}

function sketchOf({ sketches }: Period): Sketch {
  return sketches.get(REFUSED_CALLERS) ?? NO_SKETCH
}

function refusedOf({ items, floor }: Sketch): RefusedCallers {
  const callers = items.map(({ name, count, over, label }): RefusedCaller => {
    const at = name.indexOf(':')
    return {
      policy: name.slice(0, at),
      digest: name.slice(at + 1),
      atMost: count,
      atLeast: count - over,
      ...(label !== undefined && { label }),
    }
  })
  return { callers, othersAtMost: floor }
}
