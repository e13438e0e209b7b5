/** The plots of a run. */
import { FLEXIBLE, UPSTASH } from '../peers.ts'
import { OCCUPANCIES } from '../redis/measure.ts'
import { PREFIX_SUMS, SORTED_SET_LOG, SUMMED_STREAM } from '../redis/subjects.ts'
import type { Results } from '../results.ts'
import { drawBars, drawLines } from './svg.ts'

/** These are plotted, in the order of their colors. */
const PLOTTED = [PREFIX_SUMS, SUMMED_STREAM, SORTED_SET_LOG, UPSTASH, FLEXIBLE]

/** @returns plots by name of the file */
export function drawPlots({ redis, accuracy }: Results): Map<string, string> {
  const plots = new Map<string, string>()
  if (redis) plots.set('server-time.svg', drawServerTime(redis))
  if (accuracy) plots.set('worst-window.svg', drawWorstWindow(accuracy))
  return plots
}

function drawServerTime(redis: NonNullable<Results['redis']>): string {
  const series = PLOTTED.map((name) => {
    const own = redis.filter(({ subject }) => subject === name)
    return { name, points: own.map(({ entries, serverUs }) => [entries, serverUs.median] as const) }
  })
  const xLabel = `requests in the window (${OCCUPANCIES.map((n) => n.toLocaleString('en')).join(', ')})`
  return drawLines({ title: 'Redis’s time for a decision, µs (1 limit)', xLabel, series })
}

function drawWorstWindow(accuracy: NonNullable<Results['accuracy']>): string {
  const bars = [...Map.groupBy(accuracy, ({ target }) => target)].map(([name, rows]) => {
    return { name, value: Math.max(...rows.map(({ worst }) => worst)) }
  })
  return drawBars({
    title: 'Most requests admitted in any true window ÷ limit, under attack',
    bars,
    format: (value) => value.toFixed(2),
    mark: 1,
  })
}
