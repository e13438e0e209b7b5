/** The plots of a run. */
import { NEW_CALLER, OCCUPANCIES } from '../redis/measure.ts'
import { PREFIX_SUMS, SORTED_SET_LOG, SUMMED_STREAM } from '../redis/subjects.ts'
import type { Results } from '../results.ts'
import { drawBars, drawLines } from './svg.ts'

/** These are plotted, in the order of their colors. */
const PLOTTED = [
  PREFIX_SUMS,
  SUMMED_STREAM,
  SORTED_SET_LOG,
  '@upstash/ratelimit sliding window',
  'rate-limiter-flexible',
]

/** @returns plots by name of the file */
export function drawPlots({ redis, gateway, accuracy }: Results): Map<string, string> {
  const plots = new Map<string, string>()
  if (redis) plots.set('server-time.svg', drawServerTime(redis))
  if (gateway) plots.set('requests.svg', drawRequests(gateway))
  if (accuracy) plots.set('worst-window.svg', drawWorstWindow(accuracy))
  return plots
}

function drawServerTime(redis: NonNullable<Results['redis']>): string {
  const series = PLOTTED.map((name) => {
    const own = redis.filter((row) => row.subject === name && row.limits === 1 && row.entries !== NEW_CALLER)
    return { name, points: own.map(({ entries, serverUs }) => [entries, serverUs] as const) }
  })
  const xLabel = `requests in the window (${OCCUPANCIES.map((n) => n.toLocaleString('en')).join(', ')})`
  return drawLines({ title: 'Redis’s time for a decision, µs (1 limit)', xLabel, series })
}

function drawRequests(gateway: NonNullable<Results['gateway']>): string {
  const latencies = [...new Set(gateway.map(({ latencyMs }) => latencyMs))]
  const groups = [...Map.groupBy(gateway, ({ variant }) => variant)].map(([name, rows]) => {
    return { name, values: rows.map(({ requestsPerSecond }) => requestsPerSecond) }
  })
  return drawBars({
    title: 'Requests a second through the gateway, one hot caller',
    series: latencies.map((ms) => `Redis ${ms} ms away`),
    groups,
    format: (value) => Math.round(value).toLocaleString('en'),
  })
}

function drawWorstWindow(accuracy: NonNullable<Results['accuracy']>): string {
  const groups = [...Map.groupBy(accuracy, ({ target }) => target)].map(([name, rows]) => {
    return { name, values: [Math.max(...rows.map(({ worst }) => worst))] }
  })
  return drawBars({
    title: 'Most requests admitted in any true window ÷ limit, under attack',
    series: ['worst'],
    groups,
    format: (value) => value.toFixed(2),
    mark: 1,
  })
}
