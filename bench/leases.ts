/**
 * What leases save and what they withhold, in virtual time: each run gives the same figures.
 *
 *     npm run bench:leases -- [--only near,hot,bursts,slow,stops,isolates,world] [--quick] [--off]
 *
 * Near limits, far from them, in bursts and pauses, of slow callers, of bursts that stop, and of one identity that many
 * isolates share: without a network between, and as the world would ask for it. Some three minutes of one processor;
 * --quick leaves out the longest bursts and takes one round trip; --off shows the same without leases. Fails if any true
 * window held more than its limit.
 */
import { parseArgs } from 'node:util'
import { parseLimits } from '../src/core/model/limits.ts'
import { seededRandom } from '../tools/seeded-random.ts'
import { BUSY, HOT, NEAR_THE_LIMIT, type Service, serve, serveTraffic } from './accuracy/places.ts'
import type { ScalePolicies } from './scale/policies.ts'
import { simulate } from './scale/simulate.ts'
import { START_MS } from './scale/virtual-time.ts'

const TABLES = ['near', 'hot', 'bursts', 'slow', 'stops', 'isolates', 'world']
const SEED = 7
const S = 1_000
const ROUND_TRIPS_MS = [20, 100, 160]
/** A longer scenario ends with the request of this number. */
const MAX_REQUESTS = 150_000
/** A call saves the most if it brings this many permits: a caller that sends fewer within a lease cannot save as much. */
const ENOUGH_PER_PLACE = 20

const { values } = parseArgs({
  options: {
    only: { type: 'string', default: TABLES.join() },
    quick: { type: 'boolean', default: false },
    off: { type: 'boolean', default: false },
  },
})
const leases = values.off ? 'off' : 'auto'
const roundTripsMs = values.quick ? [20] : ROUND_TRIPS_MS
let fullest = 0

interface Shape {
  readonly name: string
  readonly lengthMs: number
  /** From the beginning of a burst to that of the next; undefined if there is only one. */
  readonly everyMs?: number
}

const SHAPES: readonly Shape[] = [
  { name: '1 s each 3 s', lengthMs: S, everyMs: 3 * S },
  { name: '2 s each 5 s', lengthMs: 2 * S, everyMs: 5 * S },
  { name: '3 s', lengthMs: 3 * S },
  { name: '20 s', lengthMs: 20 * S },
  { name: '70 s', lengthMs: 70 * S },
]
const REPEATED_FOR_MS = 90 * S
const BURST_LIMITS = ['1000/1m', '6000/1m', '60000/1m', '20000/10s, 60000/1m, 100000/1h']

function readLimits(text: string) {
  return parseLimits(text) ?? []
}

/** @param perSecond requests, at random */
function burst(perSecond: number, fromMs: number, toMs: number, random: () => number): number[] {
  const arrivals: number[] = []
  for (let ms = fromMs; ms < toMs; ms += (-Math.log(1 - random()) * S) / perSecond) {
    arrivals.push(START_MS + Math.floor(ms))
  }
  return arrivals
}

function createArrivals(perSecond: number, { lengthMs, everyMs }: Shape, totalMs = REPEATED_FOR_MS): number[] {
  const random = seededRandom(SEED)
  const bursts: number[][] = []
  for (let ms = 0; ms < (everyMs === undefined ? 1 : totalMs); ms += everyMs ?? totalMs) {
    bursts.push(burst(perSecond, ms, ms + lengthMs, random))
  }
  return bursts.flat().slice(0, MAX_REQUESTS)
}

async function measure(limits: string, roundTripMs: number, arrivals: readonly number[], places = 4): Promise<Service> {
  const service = await serveTraffic({ limits: readLimits(limits), leases, roundTripMs, places, arrivals })
  fullest = Math.max(fullest, service.fullest)
  return service
}

const round = (value: number) => Math.round(value * 1_000) / 1_000
const ofIdeal = ({ admitted, ideal }: Service) => round(admitted / ideal)
const callsEach = ({ calls, requests }: Pick<Service, 'calls' | 'requests'>) => round(calls / Math.max(1, requests))

function print(title: string, rows: readonly object[]): void {
  console.log(`\n${title}`)
  console.table(rows)
}

async function printNear(): Promise<void> {
  const near = NEAR_THE_LIMIT.filter((scenario) => scenario.leases === 'auto')
  const busy = BUSY.flatMap((scenario) => [0, ...roundTripsMs].map((roundTripMs) => ({ ...scenario, roundTripMs })))
  const table = async (scenarios: typeof near) => {
    const rows = []
    for (const { isRandom, ...scenario } of scenarios.flatMap((one) => [one, { ...one, isRandom: true }])) {
      const service = await serve({ ...scenario, leases, isRandom: isRandom ?? false })
      fullest = Math.max(fullest, service.fullest)
      const { name, load, roundTripMs } = scenario
      const row = { limits: name, load, ms: roundTripMs, random: isRandom ?? false }
      rows.push({ ...row, ofIdeal: ofIdeal(service), calls: callsEach(service) })
    }
    return rows
  }
  const rows = await table(near.filter(({ roundTripMs }) => roundTripMs === 0 || roundTripsMs.includes(roundTripMs)))
  const worst = Math.min(...rows.map((row) => row.ofIdeal))
  print(`Near limits: ${rows.length} rows, the worst admits ${worst} of its ideal; the five worst`, [
    ...rows.toSorted((a, b) => a.ofIdeal - b.ofIdeal).slice(0, 5),
  ])
  print('Busy, at half of the limit: at most 0.1 calls a request are aimed at', await table(busy))
}

async function printHot(): Promise<void> {
  const rows = []
  for (const [at, hot] of HOT.entries()) {
    for (const roundTripMs of roundTripsMs) {
      const service = await serveTraffic({ ...hot, leases, roundTripMs })
      rows.push({ inBunches: at === 1, ms: roundTripMs, calls: callsEach(service), ofIdeal: ofIdeal(service) })
    }
  }
  print('One hot caller of one place, far from its limit', rows)
}

async function printBursts(): Promise<void> {
  const rows = []
  for (const limits of BURST_LIMITS) {
    const paces = readLimits(limits).map(({ limit, windowMs }) => (limit * S) / windowMs)
    const shortestMs = Math.min(...readLimits(limits).map(({ windowMs }) => windowMs))
    for (const pace of new Set([paces[0] as number, paces.at(-1) as number])) {
      for (const times of [1, 2, 10]) {
        for (const shape of SHAPES) {
          if (values.quick && shape.lengthMs > 3 * S && pace * times > 2_000) continue
          const arrivals = createArrivals(pace * times, shape)
          for (const ms of roundTripsMs) {
            const service = await measure(limits, ms, arrivals)
            const { early } = service
            // Requests that come before a first answer can, and those that the longest lease is too short for.
            const cold = ms / shape.lengthMs
            const canSave = pace * times * Math.min(shape.lengthMs, shortestMs / 10) >= 4 * S * ENOUGH_PER_PLACE
            const row = { limits, perSecond: Math.round(pace * times), burst: shape.name, ms }
            rows.push({ ...row, ofIdeal: ofIdeal(service), early: callsEach(early), cold: round(cold), canSave })
          }
        }
      }
    }
  }
  const withheld = rows.filter((row) => row.ofIdeal < 0.95)
  const worst = Math.min(...rows.map((row) => row.ofIdeal))
  print(`Bursts: ${rows.length} rows, the worst admits ${worst}; below 0.95: ${withheld.length}`, withheld)
  const possible = rows.filter(({ cold, canSave }) => canSave && cold < 0.03)
  const asking = possible.filter(({ early }) => early > 0.06)
  print(`Calls while half of each limit is left, of ${possible.length} rows that can save: above 0.06`, asking)
  const groups = Map.groupBy(rows, ({ limits, perSecond, ms }) => `${limits}, ${perSecond}/s, ${ms} ms`)
  const summary = [...groups].map(([traffic, group]) => ({
    traffic,
    ofIdeal: Math.min(...group.map((row) => row.ofIdeal)),
    ...Object.fromEntries(group.map((row) => [row.burst, row.early])),
  }))
  print('All: the least of the ideal, and calls while half of each limit is left by burst', summary)
}

async function printSlow(): Promise<void> {
  const rows = []
  for (const perPlace of [0.5, 1, 2, 4]) {
    for (const ms of roundTripsMs) {
      const arrivals = createArrivals(4 * perPlace, { name: '', lengthMs: 1_200 * S })
      const service = await measure('1000/1m', ms, arrivals)
      rows.push({ perPlace, ms, calls: callsEach(service), ofIdeal: ofIdeal(service), counted: counted(service) })
    }
  }
  print('Slow callers, requests a second and place under 1000/1m', rows)
}

/** Units counted for each that was used. */
function counted({ charged, admitted }: Service): number {
  return round(charged / admitted)
}

async function printStops(): Promise<void> {
  const rows = []
  const traffics = [
    { limits: '60000/1m', perSecond: 1_700, name: 'once, 0.2 s', lengthMs: 200 },
    { limits: '60000/1m', perSecond: 1_700, name: 'once, 0.5 s', lengthMs: 500 },
    { limits: '60000/1m', perSecond: 500, name: 'once, 0.3 s', lengthMs: 300 },
    { limits: '60000/1m', perSecond: 500, name: 'once, 2 s', lengthMs: 2 * S },
    { limits: '6000/1m', perSecond: 300, name: 'once, 3 s', lengthMs: 3 * S },
    { limits: '3600/1h', perSecond: 200, name: '0.3 s each 40 s', lengthMs: 300, everyMs: 40 * S },
    { limits: '10000/1h', perSecond: 500, name: '0.2 s each 30 s', lengthMs: 200, everyMs: 30 * S },
  ]
  for (const { limits, perSecond, ...shape } of traffics) {
    for (const ms of roundTripsMs) {
      const service = await measure(limits, ms, createArrivals(perSecond, shape, 2 * 3_600 * S))
      const row = { limits, perSecond, burst: shape.name, ms, counted: counted(service) }
      rows.push({ ...row, calls: callsEach(service), ofIdeal: ofIdeal(service) })
    }
  }
  print('Bursts that stop: units counted for each used', rows)
}

async function printIsolates(): Promise<void> {
  const rows = []
  for (const places of [100, 1_200]) {
    for (const [perSecond, lengthMs] of [
      [500, 60 * S],
      [1_900, 70 * S],
    ] as const) {
      const service = await measure('60000/1m', 20, createArrivals(perSecond, { name: '', lengthMs }), places)
      const row = { isolates: places, perSecond, ofIdeal: ofIdeal(service), calls: callsEach(service) }
      rows.push({ ...row, mostCallsPerSecond: service.peakCalls, counted: counted(service) })
    }
  }
  print('60000/1m, shared by many isolates, 20 ms', rows)
}

/** One identity, which 1,200 isolates ask for 3,000 times a second. */
async function printWorld(): Promise<void> {
  const rows = []
  for (const [store, load, windowMs] of [
    ['durable-object', 0.5, 10 * S],
    ['redis', 0.5, 10 * S],
    ['durable-object', 2, 10 * S],
    ['redis', 2, 10 * S],
    ['durable-object', 0.8, 60 * S],
  ] as const) {
    const ofAll = { limit: (3_000 * windowMs) / S / load, windowMs }
    const policies: ScalePolicies = { name: 'one identity', limitsOf: () => ({ ofAll }) }
    const times =
      windowMs === 10 * S ? { warmUpMs: 10 * S, measuredMs: 10 * S } : { warmUpMs: 30 * S, measuredMs: 5 * S }
    const common = { perSecond: 3_000, oneIn: 1, callers: 10_000, seed: 1, ...times }
    const figures = await simulate({ policies, store, leases, ...common })
    const { requests, admitted, ideal, undecided, calls } = figures
    fullest = Math.max(fullest, figures.fullest)
    const row = { store, load, windowS: windowMs / S, ofIdeal: round(admitted / ideal), calls: round(calls) }
    rows.push({ ...row, callsPerSecond: Math.round(calls * 3_000), undecided: round(undecided / requests) })
  }
  print('One identity of all the world', rows)
}

const printers: Record<string, () => Promise<void>> = {
  near: printNear,
  hot: printHot,
  bursts: printBursts,
  slow: printSlow,
  stops: printStops,
  isolates: printIsolates,
  world: printWorld,
}
for (const name of values.only.split(',')) await printers[name]?.()
console.log(`The fullest true window of all held ${round(fullest)} of its limit`)
if (fullest > 1) process.exitCode = 1
