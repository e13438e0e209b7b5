/**
 * Sluice beside its peers, on one Redis and one workerd. About ten minutes; with --quick, two.
 *
 *     npm run bench -- [--quick] [--only redis|gateway|stores|operate|accuracy|worst|library|rules|flood|identities]
 *
 * Prints tables and what the run must show, and writes plots, what the run must show (claims.json) and all figures
 * (results.json, which the repository does not keep) to bench/results/. It fails only if something could not be
 * measured: a figure that is not what it should be is a result.
 */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { type Bundle, buildBundle } from '../test/support/build-bundle.ts'
import { connectRedis } from '../test/support/redis-client.ts'
import { startRedisServer } from '../tools/redis-server.ts'
import { type AccuracyBenchOptions, measureAttacks, measureLeases } from './accuracy/measure.ts'
import { ALL_TARGETS, OWN_TARGETS } from './accuracy/targets.ts'
import { measureFloods } from './floods/measure.ts'
import { HOT, measureGateways } from './gateway/measure.ts'
import { measureSideBySide } from './gateway/side-by-side.ts'
import {
  BARE,
  COMPARED,
  FLOODED,
  FLOOR,
  HONO_RATE_LIMITER,
  LEASED,
  OF_CLAIMS,
  PLAIN,
  SLUICE,
  UPSTASH,
} from './gateway/variants.ts'
import { measureIdentities } from './identities/measure.ts'
import { measureLibrary } from './library/measure.ts'
import { measureOperate } from './operate/measure.ts'
import { connectPeers, installPeers, loadInProcess } from './peers.ts'
import { measureInRedis } from './redis/measure.ts'
import { checkClaims } from './report/claims.ts'
import { drawPlots } from './report/plots.ts'
import { printClaims, printTables } from './report/tables.ts'
import { describeMachine, type Results, roundNumber } from './results.ts'
import { measureRules } from './rules/measure.ts'
import { type Service, startApi, startFront } from './services.ts'
import { measureStores } from './stores/measure.ts'
import { measureLoads, OBJECT_WORKER } from './stores/measure-load.ts'
import { measureWorst, SILENT, type WorstFigures } from './worst/measure.ts'

const TOKEN = 'bench-token'
const LATENCIES_MS = [0, 20]
const RESULTS = fileURLToPath(import.meta.resolve('./results'))

const FULL = {
  latenciesMs: LATENCIES_MS,
  redis: { warmUps: 1, repetitions: 5, budgetMs: 40 },
  gateway: { variants: COMPARED, repetitions: 1, seconds: 2 },
  pairs: { callers: [HOT, 1_000, 100_000], repetitions: 4, slices: 1 },
  stores: { callers: [HOT, 1_000, 100_000], repetitions: 1, seconds: 1, loads: 15 },
  operate: { variants: [PLAIN, LEASED, FLOODED], repetitions: 3, slices: 1 },
  accuracy: { targets: ALL_TARGETS, repetitions: 1, durationMs: 3_000 },
  worst: { seed: 1, candidates: 300, looks: 15, repetitions: 500 },
  library: { repetitions: 5, decisions: 200_000, calls: 500, waits: 3 },
  rules: { entries: 10_000, rounds: 9 },
  flood: { perSecond: 200, seconds: 5 },
  identities: { repetitions: 9 },
}
const QUICK = {
  latenciesMs: [20],
  redis: { warmUps: 0, repetitions: 1, budgetMs: 20 },
  gateway: { variants: OF_CLAIMS, repetitions: 1, seconds: 1 },
  pairs: { callers: [HOT], repetitions: 1, slices: 2 },
  stores: { callers: [HOT], repetitions: 1, seconds: 1, loads: 5 },
  operate: { variants: [PLAIN], repetitions: 1, slices: 2 },
  accuracy: { targets: OWN_TARGETS, repetitions: 1, durationMs: 3_000 },
  worst: { seed: 1, candidates: 60, looks: 10, repetitions: 250 },
  library: { repetitions: 1, decisions: 100_000, calls: 300, waits: 1 },
  rules: { entries: 10_000, rounds: 3 },
  flood: { perSecond: 200, seconds: 5 },
  identities: { repetitions: 5 },
}

const { values } = parseArgs({ options: { quick: { type: 'boolean', default: false }, only: { type: 'string' } } })
const isQuick = values.quick
const settings = isQuick ? QUICK : FULL
const isAsked = (section: string) => values.only === undefined || values.only === section
const SECTIONS = 'redis|gateway|stores|operate|accuracy|worst|library|rules|flood|identities'
if (!SECTIONS.split('|').some(isAsked)) {
  console.error(`usage: npm run bench -- [--quick] [--only ${SECTIONS}]`)
  process.exit(1)
}

installPeers()
const startedMs = performance.now()
const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
const server = await startRedisServer()
const redis = await connectRedis(server.port)
const upstream = await startApi()
const fronts = new Map<number, Service>()
for (const ms of LATENCIES_MS) fronts.set(ms, await startFront(server.port, TOKEN, ms))
const front = fronts.get(0) as Service
/** The fronts through which gateways are compared. */
const compared = new Map([...fronts].filter(([ms]) => settings.latenciesMs.includes(ms)))
const connectTo = (restUrl: string) => connectPeers({ redisPort: server.port, restUrl, token: TOKEN })
const peers = await connectTo(front.url)
try {
  let results: Results = { machine: await describeMachine(redis), isQuick }
  const { contenders } = peers
  if (isAsked('redis')) {
    tell('in Redis')
    const options = { redis, contenders: peers.overTcp, ...settings.redis }
    results = { ...results, redis: await measureInRedis(options) }
  }
  const bundles = new Map<string, Bundle>()
  if (['gateway', 'stores', 'operate', 'accuracy', 'worst'].some(isAsked)) {
    tell('bundles')
    for (const source of [BARE, FLOOR, UPSTASH, HONO_RATE_LIMITER, SLUICE])
      bundles.set(source, await buildBundle({ source, into: folder }))
    const sizes = [...bundles].map(([source, { scriptBytes }]) => [source, scriptBytes / 1024])
    results = { ...results, bundles: Object.fromEntries(sizes) }
  }
  if (isAsked('gateway')) {
    tell('through the gateways')
    const options = { redis, upstream, fronts: compared, token: TOKEN, bundles, ...settings.gateway }
    results = { ...results, gateway: await measureGateways(options) }
    tell('gateways side by side')
    const pairs = { upstream, fronts: compared, token: TOKEN, bundles, ...settings.pairs }
    results = { ...results, pairs: await measureSideBySide(pairs) }
  }
  if (isAsked('stores')) {
    tell('over objects, and over Redis')
    const options = { upstream, fronts: compared, token: TOKEN, bundles, ...settings.stores }
    results = { ...results, stores: await measureStores(options) }
    tell('objects, evicted')
    bundles.set(OBJECT_WORKER, await buildBundle({ source: OBJECT_WORKER, into: folder }))
    results = { ...results, loads: await measureLoads(options) }
  }
  if (isAsked('operate')) {
    tell('what operators turn on')
    const options = { upstream, front, token: TOKEN, bundles, ...settings.operate }
    results = { ...results, operate: await measureOperate(options) }
  }
  if (isAsked('accuracy')) {
    tell('accuracy')
    const options: AccuracyBenchOptions = {
      ...{ redis, upstream, front, token: TOKEN, bundles, contenders },
      ...settings.accuracy,
    }
    results = { ...results, accuracy: await measureAttacks(options) }
    tell('leases, simulated')
    results = { ...results, leases: await measureLeases() }
  }
  if (isAsked('worst')) {
    tell('the worst request')
    bundles.set(SILENT, await buildBundle({ source: SILENT, into: folder }))
    const worst: WorstFigures[] = []
    for (const source of [BARE, SLUICE])
      worst.push(...(await measureWorst(source, { upstream, bundles, ...settings.worst })))
    results = { ...results, worst }
  }
  if (isAsked('library')) {
    tell('the library')
    const rest = { url: front.url, token: TOKEN }
    const options = { ...(await loadInProcess()), contenders, rest, tcp: redis, ...settings.library }
    results = { ...results, library: await measureLibrary(options) }
  }
  if (isAsked('rules')) {
    tell('rules')
    results = { ...results, rules: await measureRules(settings.rules) }
  }
  if (isAsked('flood')) {
    tell('floods')
    results = { ...results, floods: await measureFloods({ redis, ...settings.flood }) }
  }
  if (isAsked('identities')) {
    tell('many identities')
    const options = { redis, front, token: TOKEN, connectTo, ...settings.identities }
    results = { ...results, identities: await measureIdentities(options) }
  }
  await report(results)
} finally {
  await peers.close()
  await redis.close()
  await Promise.all([upstream.stop(), ...[...fronts.values()].map((child) => child.stop())])
  await server.stop()
  await rm(folder, { recursive: true })
}

async function report(results: Results): Promise<void> {
  const { date, processors, versions } = results.machine
  console.log(
    `${date}, ${processors}; ${Object.entries(versions)
      .map((pair) => pair.join(' '))
      .join(', ')}`,
  )
  printTables(results)
  const claims = checkClaims(results)
  printClaims(claims)
  // A short or partial run does not replace the figures that the documentation shows.
  const isWhole = !isQuick && values.only === undefined
  const into = isWhole ? RESULTS : join(RESULTS, 'trial')
  await mkdir(into, { recursive: true })
  const { machine } = results
  await writeFile(join(into, 'results.json'), `${JSON.stringify(results, null, 2)}\n`)
  await writeFile(join(into, 'claims.json'), `${JSON.stringify({ machine, claims }, roundNumber, 2)}\n`)
  for (const [name, svg] of drawPlots(results)) await writeFile(join(into, name), svg)
  const missed = claims.filter(({ isMet }) => !isMet).length
  console.log(`\n${claims.length - missed} of ${claims.length} met. Figures and plots: ${into}`)
}

function tell(what: string): void {
  console.error(`${Math.round((performance.now() - startedMs) / 1_000)} s: ${what} …`)
}
