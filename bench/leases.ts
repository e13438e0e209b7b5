/**
 * What leases save and what they withhold, in virtual time: each run gives the same figures.
 *
 *     npm run bench:leases -- [--only bursts,slow,stops,isolates] [--quick] [--off]
 *
 * In bursts and pauses, of slow callers, of bursts that stop, and of one identity that many isolates share. Some three
 * minutes of one processor; --quick leaves out the longest bursts and takes one round trip; --off shows the same without
 * leases. Fails if any true window held more than its limit. Near limits and far from them, `npm run bench` simulates too.
 */
import { parseArgs } from 'node:util'
import { parseLimits } from '../src/core/model/limits.ts'
import { seededRandom } from '../tools/seeded-random.ts'
import { type ServiceFigures, serveTraffic } from './accuracy/places.ts'
import { START_MS } from './scale/virtual-time.ts'

const SEED = 7
const S = 1_000
const ROUND_TRIPS_MS = [20, 100, 160]
/** A longer scenario ends with the request of this number. */
const MAX_REQUESTS = 150_000
/** A call saves the most if it brings this many permits: a caller that sends fewer within a lease cannot save as much. */
const ENOUGH_PER_PLACE = 20
const REPEATED_FOR_MS = 90 * S

interface Shape {
  readonly name: string
  readonly lengthMs: number
  /** The time from the beginning of a burst to that of the next; undefined if there is only one. */
  readonly everyMs?: number
}

const SHAPES: readonly Shape[] = [
  { name: '1 s each 3 s', lengthMs: S, everyMs: 3 * S },
  { name: '2 s each 5 s', lengthMs: 2 * S, everyMs: 5 * S },
  { name: '3 s', lengthMs: 3 * S },
  { name: '20 s', lengthMs: 20 * S },
  { name: '70 s', lengthMs: 70 * S },
]
const BURST_LIMITS = ['1000/1m', '6000/1m', '60000/1m', '20000/10s, 60000/1m, 100000/1h']
const STOPPING = [
  { limits: '60000/1m', perSecond: 1_700, name: 'once, 0.2 s', lengthMs: 200 },
  { limits: '60000/1m', perSecond: 1_700, name: 'once, 0.5 s', lengthMs: 500 },
  { limits: '60000/1m', perSecond: 500, name: 'once, 0.3 s', lengthMs: 300 },
  { limits: '60000/1m', perSecond: 500, name: 'once, 2 s', lengthMs: 2 * S },
  { limits: '6000/1m', perSecond: 300, name: 'once, 3 s', lengthMs: 3 * S },
  { limits: '3600/1h', perSecond: 200, name: '0.3 s each 40 s', lengthMs: 300, everyMs: 40 * S },
  { limits: '10000/1h', perSecond: 500, name: '0.2 s each 30 s', lengthMs: 200, everyMs: 30 * S },
]

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    quick: { type: 'boolean', default: false },
    off: { type: 'boolean', default: false },
  },
})
const leases = values.off ? 'off' : 'auto'
const roundTripsMs = values.quick ? [20] : ROUND_TRIPS_MS
let fullest = 0
const PRINTERS: Readonly<Record<string, () => Promise<void>>> = {
  bursts: printBursts,
  slow: printSlow,
  stops: printStops,
  isolates: printIsolates,
}
for (const name of values.only?.split(',') ?? Object.keys(PRINTERS)) await PRINTERS[name]?.()
console.log(`The fullest true window of all held ${round(fullest)} of its limit`)
if (fullest > 1) process.exitCode = 1

async function printBursts(): Promise<void> {
  const rows = []
  for (const { limits, perSecond, shape, ms } of listBursts()) {
    const figures = await measure(limits, ms, drawArrivals(perSecond, shape))
    const shortestMs = Math.min(...readLimits(limits).map(({ windowMs }) => windowMs))
    // Requests that come before a first answer can, and those that the longest lease is too short for.
    const cold = ms / shape.lengthMs
    const canSave = perSecond * Math.min(shape.lengthMs, shortestMs / 10) >= 4 * S * ENOUGH_PER_PLACE
    const row = { limits, perSecond: Math.round(perSecond), burst: shape.name, ms }
    const early = round(figures.early.calls / Math.max(1, figures.early.requests))
    rows.push({ ...row, ofIdeal: toRatios(figures).ofIdeal, early, cold: round(cold), canSave })
  }
  const withheld = rows.filter((row) => row.ofIdeal < 0.95)
  const worst = Math.min(...rows.map((row) => row.ofIdeal))
  print(`Bursts: ${rows.length} rows, the worst admits ${worst}; below 0.95: ${withheld.length}`, withheld)
  const possible = rows.filter(({ cold, canSave }) => canSave && cold < 0.03)
  const calling = possible.filter(({ early }) => early > 0.06)
  print(`Calls while half of each limit is left, of ${possible.length} rows that can save: above 0.06`, calling)
  const groups = Map.groupBy(rows, ({ limits, perSecond, ms }) => `${limits}, ${perSecond}/s, ${ms} ms`)
  const summary = [...groups].map(([traffic, group]) => ({
    traffic,
    ofIdeal: Math.min(...group.map((row) => row.ofIdeal)),
    ...Object.fromEntries(group.map((row) => [row.burst, row.early])),
  }))
  print('All: the least of the ideal, and calls while half of each limit is left by burst', summary)
}

/** Lists bursts at one, two and ten times the pace of the shortest and of the longest limit. */
function listBursts() {
  return BURST_LIMITS.flatMap((limits) => {
    const paces = readLimits(limits).map(({ limit, windowMs }) => (limit * S) / windowMs)
    return [...new Set([paces[0] as number, paces.at(-1) as number])].flatMap((pace) =>
      [1, 2, 10]
        .flatMap((times) => SHAPES.map((shape) => ({ limits, perSecond: pace * times, shape })))
        .filter(({ shape, perSecond }) => !values.quick || shape.lengthMs <= 3 * S || perSecond <= 2_000)
        .flatMap((burst) => roundTripsMs.map((ms) => ({ ...burst, ms }))),
    )
  })
}

async function printSlow(): Promise<void> {
  const rows = []
  for (const perPlace of [0.5, 1, 2, 4]) {
    const arrivals = drawArrivals(4 * perPlace, { name: '', lengthMs: 1_200 * S })
    for (const ms of roundTripsMs) rows.push({ perPlace, ms, ...toRatios(await measure('1000/1m', ms, arrivals)) })
  }
  print('Slow callers, requests a second and place under 1000/1m', rows)
}

async function printStops(): Promise<void> {
  const rows = []
  for (const { limits, perSecond, ...shape } of STOPPING) {
    for (const ms of roundTripsMs) {
      const figures = await measure(limits, ms, drawArrivals(perSecond, shape, 2 * 3_600 * S))
      rows.push({ limits, perSecond, burst: shape.name, ms, ...toRatios(figures) })
    }
  }
  print('Bursts that stop', rows)
}

async function printIsolates(): Promise<void> {
  const rows = []
  for (const isolates of [100, 1_200]) {
    for (const [perSecond, seconds] of [
      [500, 60],
      [1_900, 70],
    ] as const) {
      const arrivals = drawArrivals(perSecond, { name: '', lengthMs: seconds * S })
      const figures = await measure('60000/1m', 20, arrivals, isolates)
      rows.push({ isolates, perSecond, ...toRatios(figures), maxCallsPerSecond: figures.peakCalls })
    }
  }
  print('60000/1m, shared by many isolates, 20 ms', rows)
}

async function measure(limits: string, roundTripMs: number, arrivals: readonly number[], places = 4) {
  const figures = await serveTraffic({ limits: readLimits(limits), leases, roundTripMs, places, arrivals })
  fullest = Math.max(fullest, figures.fullest)
  return figures
}

/** Draws the times of requests at random, at a pace within bursts. */
function drawArrivals(perSecond: number, { lengthMs, everyMs }: Shape, totalMs = REPEATED_FOR_MS): number[] {
  const random = seededRandom(SEED)
  const arrivals: number[] = []
  for (let startMs = 0; startMs < (everyMs === undefined ? 1 : totalMs); startMs += everyMs ?? totalMs) {
    for (let ms = startMs; ms < startMs + lengthMs; ms += (-Math.log(1 - random()) * S) / perSecond) {
      arrivals.push(START_MS + Math.floor(ms))
    }
  }
  return arrivals.slice(0, MAX_REQUESTS)
}

/** `counted` is units that the store counted for each that was used. */
function toRatios({ admitted, ideal, calls, requests, charged }: ServiceFigures) {
  return { ofIdeal: round(admitted / ideal), calls: round(calls / requests), counted: round(charged / admitted) }
}

function readLimits(text: string) {
  return parseLimits(text) ?? []
}

function round(value: number): number {
  return Math.round(value * 1_000) / 1_000
}

function print(title: string, rows: readonly object[]): void {
  console.log(`\n${title}`)
  console.table(rows)
}
