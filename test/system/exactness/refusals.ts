import type { History } from '../../support/history.ts'
import type { Limit } from '../../support/windows.ts'

/** What a request would have cost under one key, and what was admitted there. */
export interface Demand {
  readonly cost: number
  readonly limits: readonly Limit[]
  readonly history: History
}

/** Whether a refused request would not have fitted: not at any moment considered, at each of them, or at some only. */
export type Judgement = 'undue' | 'due' | 'either'

/**
 * Judges a refusal by Redis, at some moment from `earliestMs` to `latestMs` by its clock.
 * @param demands with all that was admitted before the refusal, and no more
 */
export function judgeInOrder(demands: readonly Demand[], earliestMs: number, latestMs: number): Judgement {
  const isDueAt = (ms: number) => isDue(demands, ms, Number.POSITIVE_INFINITY)
  // As time goes by, admissions only leave: what is due late was due early.
  if (isDueAt(latestMs)) return 'due'
  return isDueAt(earliestMs) ? 'either' : 'undue'
}

/**
 * Judges a refusal that Redis has not seen, by when the client sent the request and had the answer.
 * @param demands with all that was ever admitted
 * @returns `undue` if it was so at every moment in between
 */
export function judgeBetween(demands: readonly Demand[], sentMs: number, receivedMs: number): 'due' | 'undue' {
  // Room shrinks with an admission only, so these are the moments at which there is least of it. Entries are dated by the
  // end of their millisecond, and leave their window by its beginning.
  const dates = demands.flatMap(({ history }) => history.moments(sentMs, Math.ceil(receivedMs)))
  const isDueIn = (fromMs: number, dateMs: number) => isDue(demands, Math.floor(fromMs), dateMs)
  const isDueAmong = (dateMs: number) => isDueIn(Math.max(sentMs, dateMs - 1), dateMs)
  return isDueIn(sentMs, Math.ceil(sentMs)) || dates.some(isDueAmong) ? 'due' : 'undue'
}

function isDue(demands: readonly Demand[], atMs: number, untilMs: number): boolean {
  return demands.some(({ cost, limits, history }) =>
    limits.some(({ limit, windowMs }) => history.used(atMs - windowMs, untilMs) + cost > limit),
  )
}
