/** The plots of bench/results/scale.md. */
import { drawLines } from '../report/svg.ts'
import { HOT_GLOBAL, PER_TOKEN } from './policies.ts'
import { canKeepUp, type ScaleResults, type ScaleRow } from './results.ts'

const X_LABEL = 'requests a second, of all the world'
const LINES = [
  { name: 'Redis', store: 'redis', leases: 'off' },
  { name: 'Redis, leases', store: 'redis', leases: 'auto' },
  { name: 'objects', store: 'durable-object', leases: 'off' },
  { name: 'objects, leases', store: 'durable-object', leases: 'auto' },
] as const

/** @returns plots by name of the file */
export function drawScalePlots({ rows }: ScaleResults): Map<string, string> {
  // What is not decided costs nothing and takes no time: a line ends where its store does.
  const perToken = rows.filter((row) => row.policies === PER_TOKEN.name && canKeepUp(row))
  const global = rows.filter(({ policies }) => policies === HOT_GLOBAL.name)
  const decided = (row: ScaleRow) => (row.perSecond * (row.requests - row.undecided)) / row.requests
  return new Map([
    [
      'scale-dollars.svg',
      drawPlot('Dollars for a million requests, limits per token', perToken, ({ dollars }) => dollars),
    ],
    [
      'scale-latency.svg',
      drawPlot('Added by a decision, median in ms, limits per token', perToken, ({ p50Ms }) => p50Ms),
    ],
    ['scale-global.svg', drawPlot('Requests decided a second, one limit for all', global, decided)],
  ])
}

function drawPlot(title: string, rows: readonly ScaleRow[], y: (row: ScaleRow) => number): string {
  const series = LINES.map(({ name, store, leases }) => {
    const own = rows.filter((row) => row.store === store && row.leases === leases)
    // Nothing is at zero on a logarithmic axis.
    return { name, points: own.map((row) => [row.perSecond, y(row)] as const).filter(([, value]) => value > 0) }
  })
  return drawLines({ title, xLabel: X_LABEL, series })
}
