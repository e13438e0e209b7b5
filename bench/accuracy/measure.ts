/** How far limiters exceed their limits under attack, and what callers get with leases. */
import { type Admission, checkWindows } from '../../test/support/windows.ts'
import { type Contender, UPSTASH } from '../peers.ts'
import type { Site } from '../site.ts'
import { attack, toGateways, toLibrary, watchRedis, withArrivals } from './attack.ts'
import { BUSY, NEAR_THE_LIMIT, ROUND_TRIPS_MS, serve } from './places.ts'
import { TARGETS, type Target, toPrefix } from './targets.ts'
import { ATTACKS, type Limit, type Schedule, WARM_UP } from './traffic.ts'

export interface AccuracyFigures {
  readonly target: string
  readonly traffic: string
  /** Most admissions that certainly lay in one window, over the limit. */
  readonly worst: number
  /** The same by Redis's own clock, where Redis holds each admission's time. */
  readonly worstByRedis?: number
}

/** In virtual time: a caller at half of its limit, at four places of a gateway, each this far from the store. */
export interface LeaseFigures {
  /** The limit. */
  readonly name: string
  readonly roundTripMs: number
  readonly isRandom: boolean
  readonly callsPerRequest: number
}

export interface AccuracyBenchOptions {
  readonly site: Site
  readonly contenders: readonly Contender[]
}

/** Attacked at the same time. More of them would disturb each other. */
const AT_ONCE = 4
const DURATION_MS = 3_000
/** Every gateway runs twice, and requests take turns. */
const POINTS_OF_PRESENCE = 2
const ATTACKED: Limit = { limit: 40, windowMs: 1_000 }

/** Sends the same adversarial traffic into each limiter. */
export async function measureAttacks(options: AccuracyBenchOptions): Promise<AccuracyFigures[]> {
  const figures: AccuracyFigures[] = []
  for (let from = 0; from < TARGETS.length; from += AT_ONCE) {
    const group = TARGETS.slice(from, from + AT_ONCE)
    // Libraries without a gateway come with the first group.
    const libraries = from === 0 ? options.contenders.filter(({ name }) => name !== UPSTASH) : []
    figures.push(...(await measureGroup(group, libraries, options)))
  }
  return figures
}

/** Simulated, so the figures are the same on any machine. */
export async function measureLeases(): Promise<LeaseFigures[]> {
  const busy = BUSY.flatMap((scenario) => ROUND_TRIPS_MS.map((roundTripMs) => ({ ...scenario, roundTripMs })))
  const scarce = NEAR_THE_LIMIT.filter(
    ({ name, load, leases }) => name === '100/1s' && load === 0.5 && leases === 'auto',
  )
  const figures: LeaseFigures[] = []
  for (const isRandom of [false, true]) {
    for (const scenario of [...busy, ...scarce]) {
      const { requests, calls } = await serve({ ...scenario, isRandom })
      figures.push({
        name: scenario.name,
        roundTripMs: scenario.roundTripMs,
        isRandom,
        callsPerRequest: calls / requests,
      })
    }
  }
  return figures
}

interface RunningTarget extends Target {
  readonly urls: readonly string[]
}

async function measureGroup(
  targets: readonly Target[],
  libraries: readonly Contender[],
  { site }: AccuracyBenchOptions,
): Promise<AccuracyFigures[]> {
  await using gateways = new AsyncDisposableStack()
  const running: RunningTarget[] = []
  for (const target of targets) {
    const worker = { source: target.source, bindings: target.bindings(ATTACKED) }
    const start = async () => gateways.use(await site.startGateway(worker)).url.origin
    running.push({ ...target, urls: await Promise.all(Array.from({ length: POINTS_OF_PRESENCE }, start)) })
  }
  await attackGroup(running, libraries, WARM_UP, site)
  const figures: AccuracyFigures[] = []
  for (const [traffic, draw] of Object.entries(ATTACKS)) {
    for (const run of await attackGroup(running, libraries, draw(ATTACKED, DURATION_MS), site)) {
      const byRedis = run.byRedis && { worstByRedis: findFullest(run.byRedis) }
      figures.push({ target: run.target, traffic, worst: findFullest(run.admissions), ...byRedis })
    }
  }
  return figures
}

function findFullest(admissions: readonly Admission[]): number {
  return checkWindows(ATTACKED, admissions).fullest
}

interface Run {
  readonly target: string
  readonly admissions: readonly Admission[]
  readonly byRedis?: readonly Admission[]
}

async function attackGroup(
  targets: readonly RunningTarget[],
  libraries: readonly Contender[],
  schedule: Schedule,
  { redis, upstream }: Site,
): Promise<Run[]> {
  await redis.flushAll()
  const log = await watchRedis(redis)
  const drawCaller = (name: string) => `${toPrefix(name)}-${crypto.randomUUID().slice(0, 8)}`
  const { windowMs } = ATTACKED
  const byGateways = targets.map(async (target) => {
    const caller = drawCaller(target.name)
    return { target, caller, admissions: await attack(schedule, windowMs, toGateways(target.urls, caller)) }
  })
  const byLibraries = libraries.map(async ({ name, make }): Promise<Run> => {
    const admissions = await attack(schedule, windowMs, toLibrary(make([ATTACKED]), drawCaller(name)))
    return { target: name, admissions: [...admissions.values()] }
  })
  const ended = await Promise.all(byGateways)
  const arrivals = new Map(await upstream.ask<[string, number][]>('arrivals'))
  const runs = ended.map(({ target: { name, isLogged }, caller, admissions }): Run => {
    const closer = [...withArrivals(admissions, caller, arrivals).values()]
    return { target: name, admissions: closer, ...(isLogged && { byRedis: log.list(toPrefix(name)) }) }
  })
  log.stop()
  return [...runs, ...(await Promise.all(byLibraries))]
}
