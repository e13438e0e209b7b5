import type { Bundle } from '../../test/support/build-bundle.ts'
import { type DirectGateway, startDirectGateway } from '../../test/support/direct-gateway.ts'
import { idealAdmissions } from '../../test/support/history.ts'
import type { RedisClient } from '../../test/support/redis-client.ts'
import { type Admission, checkWindows } from '../../test/support/windows.ts'
import type { Contender } from '../peers.ts'
import { type Service, serviceBindings } from '../services.ts'
import { median } from '../statistics.ts'
import { type Attacked, attack, atUpstream, byLibrary, throughGateways, watchRedis } from './attack.ts'
import { BUSY, type NamedScenario, NEAR_THE_LIMIT, ROUND_TRIPS_MS, serve } from './places.ts'
import { prefixOf, type Target } from './targets.ts'
import { ATTACKS, type Limit, type Schedule, WARM_UP } from './traffic.ts'

export interface AccuracyFigures {
  readonly target: string
  readonly traffic: string
  /** Most admissions that certainly lay in one window, over the limit; the worst of all repetitions. */
  readonly worst: number
  /** Admissions over those of an exact limiter; the median. */
  readonly ofIdeal: number
  /** The moment of an admission is known to within this many ms; the median. */
  readonly uncertainMs: number
  /** The worst of all repetitions by Redis's own clock, where Redis holds each admission's time. */
  readonly worstByRedis?: number
}

/** What a caller gets and what it costs, in virtual time: four places of a gateway, each this far from the store. */
export interface LeaseFigures extends Pick<NamedScenario, 'name' | 'load' | 'leases' | 'roundTripMs'> {
  readonly isRandom: boolean
  readonly isBusy: boolean
  /** Admissions over those of one limiter for all. */
  readonly ofIdeal: number
  readonly callsPerRequest: number
  /** Over its limit. */
  readonly fullestWindow: number
}

export interface AccuracyBenchOptions {
  readonly redis: RedisClient
  readonly upstream: Service
  readonly front: Service
  readonly token: string
  readonly bundles: ReadonlyMap<string, Bundle>
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

type Pattern = (limit: Limit, durationMs: number) => Schedule

/** The same adversarial traffic into each limiter. */
export async function measureAttacks(options: AccuracyBenchOptions): Promise<AccuracyFigures[]> {
  const figures: AccuracyFigures[] = []
  for (let from = 0; from < options.targets.length; from += AT_ONCE) {
    const group = options.targets.slice(from, from + AT_ONCE)
    // Libraries without a gateway come with the first group.
    const libraries = from === 0 ? options.contenders.filter(({ name }) => !name.startsWith('@upstash')) : []
    figures.push(...(await measureGroup(group, libraries, ATTACKED, ATTACKS, options)))
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

async function measureGroup(
  targets: readonly Target[],
  libraries: readonly Contender[],
  limit: Limit,
  traffic: Readonly<Record<string, Pattern>>,
  options: AccuracyBenchOptions,
): Promise<AccuracyFigures[]> {
  const gateways = new Map<Target, DirectGateway[]>()
  try {
    for (const target of targets) gateways.set(target, await startGateways(target, limit, options))
    await runGroup(gateways, libraries, limit, WARM_UP, options)
    const figures: AccuracyFigures[] = []
    for (const [name, pattern] of Object.entries(traffic)) {
      const schedule = pattern(limit, options.durationMs)
      const runs: Run[] = []
      for (let repetition = 0; repetition < options.repetitions; repetition++) {
        runs.push(...(await runGroup(gateways, libraries, limit, schedule, options)))
      }
      figures.push(...summarize(name, limit, runs))
    }
    return figures
  } finally {
    await Promise.all([...gateways.values()].flat().map((gateway) => gateway.stop()))
  }
}

interface Run extends Attacked {
  readonly target: string
  readonly byRedis?: readonly Admission[]
}

async function runGroup(
  gateways: ReadonlyMap<Target, readonly DirectGateway[]>,
  libraries: readonly Contender[],
  limit: Limit,
  schedule: Schedule,
  { redis, upstream }: AccuracyBenchOptions,
): Promise<Run[]> {
  await redis.flushAll()
  const log = await watchRedis(redis)
  const callerOf = (name: string) => `${prefixOf(name)}-${crypto.randomUUID().slice(0, 8)}`
  const { windowMs } = limit
  const byGateways = [...gateways].map(async ([target, pair]) => {
    const caller = callerOf(target.name)
    const send = throughGateways(
      pair.map(({ url }) => url.origin),
      caller,
    )
    return { target, caller, attacked: await attack(schedule, windowMs, send) }
  })
  const byLibraries = libraries.map(async ({ name, make }) => {
    return { target: name, ...(await attack(schedule, windowMs, byLibrary(make([limit]), callerOf(name)))) }
  })
  const ended = await Promise.all(byGateways)
  const arrivals = new Map(await upstream.ask<[string, number][]>('arrivals'))
  const runs = ended.map(({ target, caller, attacked }): Run => {
    const byRedis = target.isLogged && log.admissions(prefixOf(target.name))
    return { target: target.name, ...atUpstream(attacked, caller, arrivals), ...(byRedis && { byRedis }) }
  })
  log.stop()
  return [...runs, ...(await Promise.all(byLibraries))]
}

function summarize(traffic: string, { limit, windowMs }: Limit, runs: readonly Run[]): AccuracyFigures[] {
  const worstOf = (lists: readonly (readonly Admission[])[]) =>
    Math.max(...lists.map((list) => checkWindows({ limit, windowMs }, list).fullest))
  return [...Map.groupBy(runs, ({ target }) => target)].map(([target, own]) => {
    const lists = own.map(({ admissions }) => [...admissions.values()])
    const byRedis = own.flatMap((run) => (run.byRedis ? [run.byRedis] : []))
    return {
      target,
      traffic,
      worst: worstOf(lists),
      ofIdeal: median(
        own.map(
          ({ sentMs, admissions }) =>
            admissions.size /
            idealAdmissions(
              sentMs.map((ms) => ({ ms, charges: [{ key: target, limits: [{ limit, windowMs }], cost: 1 }] })),
            ),
        ),
      ),
      uncertainMs: median(lists.flat().map(({ ms, latestMs = ms }) => latestMs - ms)),
      ...(byRedis.length > 0 && { worstByRedis: worstOf(byRedis) }),
    }
  })
}

function startGateways(
  { source, bindings }: Target,
  limit: Limit,
  options: AccuracyBenchOptions,
): Promise<DirectGateway[]> {
  const bundle = options.bundles.get(source)
  if (!bundle) throw new Error(`no bundle of ${source}`)
  const start = () => startDirectGateway({ bundle, bindings: { ...serviceBindings(options), ...bindings(limit) } })
  return Promise.all(Array.from({ length: POINTS_OF_PRESENCE }, start))
}
