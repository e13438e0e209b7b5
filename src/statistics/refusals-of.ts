import { type Counters, PERIOD_MS, startOf } from '../store/counters.ts'
import { refusedCallersIn, type StatisticsQuery } from './read-statistics.ts'

/** When a caller was refused, as far as it is kept. */
export interface Refusals {
  readonly periodMs: number
  /** Start of the first period. */
  readonly fromMs: number
  /** End of the last one. */
  readonly toMs: number
  /** Those in which anything was counted, the earliest first. */
  readonly periods: RefusalsOfPeriod[]
}

export interface RefusalsOfPeriod {
  /** Milliseconds since the Unix epoch. */
  readonly startMs: number
  /** In which it was among those refused most. */
  readonly policies: { readonly policy: string; readonly atLeast: number; readonly atMost: number }[]
  /** How often any other policy may have refused it. */
  readonly othersAtMost: number
}

/** @param digests that the caller is known by @throws {StoreError} */
export async function refusalsOf(
  counters: Counters,
  digests: ReadonlySet<string>,
  { resolution, fromMs, toMs }: StatisticsQuery,
): Promise<Refusals> {
  const periods = await counters.read(resolution, fromMs, toMs)
  return {
    periodMs: PERIOD_MS[resolution],
    fromMs: startOf(resolution, fromMs),
    toMs: startOf(resolution, toMs - 1) + PERIOD_MS[resolution],
    periods: periods.map((period) => {
      const { callers, othersAtMost } = refusedCallersIn(period)
      const own = callers.filter(({ digest }) => digests.has(digest))
      return {
        startMs: period.startMs,
        policies: own.map(({ policy, atLeast, atMost }) => ({ policy, atLeast, atMost })),
        othersAtMost,
      }
    }),
  }
}
