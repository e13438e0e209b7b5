/** How far limiters exceed their limits under attack, and what callers get with leases. */
import { type Admission, checkWindows } from '../../test/support/windows.ts'
import type { Contender } from '../peers.ts'
import type { Site } from '../site.ts'
import { attack, toGateways, toLibrary, watchRedis, withArrivals } from './attack.ts'
import { BUSY, type NamedScenario, NEAR_THE_LIMIT, ROUND_TRIPS_MS, serve } from './places.ts'
import { type Target, toPrefix } from './targets.ts'
import { ATTACKS, type Limit, type Schedule, WARM_UP } from './traffic.ts'

export interface AccuracyFigures {
  readonly target: string
  readonly traffic: string
  /** Most admissions that certainly lay in one window, over the limit; the worst of all repetitions. */
  readonly worst: number
  /** The same by Redis's own clock, where Redis holds each admission's time. */
  readonly worstByRedis?: number
}

/** What a caller gets and what it costs, in virtual time: four places of a gateway, each this far from the store. */
export interface LeaseFigures extends Pick<NamedScenario, 'name' | 'load' | 'leases' | 'roundTripMs'> {
  readonly isRandom: boolean
  readonly isBusy: boolean
  /** Admissions over those of one limiter for all. */
  readonly ofIdeal: number
  readonly callsPerRequest: number
  /** Admissions in the fullest window, over its limit. */
  readonly fullestWindow: number
}

export interface AccuracyBenchOptions {
  readonly site: Site
  readonly contenders: readonly Contender[]
  readonly targets: readonly Target[]
  readonly repetitions: number
  readonly durationMs: number
}

/** Attacked at the same time. More of them would disturb each other. */
const AT_ONCE = 2
/** Every gateway runs twice, and requests take turns. */
const POINTS_OF_PRESENCE = 2
const ATTACKED: Limit = { limit: 40, windowMs: 1_000 }

/** Sends the same adversarial traffic into each limiter. */
export async function measureAttacks(options: AccuracyBenchOptions): Promise<AccuracyFigures[]> {
  const figures: AccuracyFigures[] = []
  for (let from = 0; from < options.targets.length; from += AT_ONCE) {
    const group = options.targets.slice(from, from + AT_ONCE)
    // Libraries without a gateway come with the first group.
    const libraries = from === 0 ? options.contenders.filter(({ name }) => !name.startsWith('@upstash')) : []
    figures.push(...(await measureGroup(group, libraries, options)))
  }
  return figures
}

/** Simulated, so the figures are the same on any machine. */
export async function measureLeases(): Promise<LeaseFigures[]> {
  const busy = BUSY.flatMap((scenario) => ROUND_TRIPS_MS.map((roundTripMs) => ({ ...scenario, roundTripMs })))
  const figures: LeaseFigures[] = []
  for (const isRandom of [false, true]) {
    for (const scenario of [...NEAR_THE_LIMIT, ...busy]) {
      const { name, load, leases, roundTripMs } = scenario
      const { requests, admitted, ideal, calls, fullest } = await serve({ ...scenario, isRandom })
      figures.push({
        ...{ name, load, leases, roundTripMs, isRandom, isBusy: busy.includes(scenario as (typeof busy)[number]) },
        ...{ ofIdeal: admitted / ideal, callsPerRequest: calls / requests, fullestWindow: fullest },
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
  { site, repetitions, durationMs }: AccuracyBenchOptions,
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
    const runs: Run[] = []
    for (let repetition = 0; repetition < repetitions; repetition++) {
      runs.push(...(await attackGroup(running, libraries, draw(ATTACKED, durationMs), site)))
    }
    for (const [target, own] of Map.groupBy(runs, (run) => run.target)) {
      const byRedis = own.flatMap((run) => (run.byRedis ? [run.byRedis] : []))
      const worst = findFullest(own.map(({ admissions }) => admissions))
      figures.push({ target, traffic, worst, ...(byRedis.length > 0 && { worstByRedis: findFullest(byRedis) }) })
    }
  }
  return figures
}

function findFullest(runs: readonly (readonly Admission[])[]): number {
  return Math.max(...runs.map((admissions) => checkWindows(ATTACKED, admissions).fullest))
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
