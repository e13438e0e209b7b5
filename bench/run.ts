/**
 * Sluice compared with its peers, on one Redis and one workerd. About ten minutes; with --quick, two.
 *
 *     npm run bench -- [--quick] [--only redis|gateway|stores|operate|accuracy|worst|library|rules|flood|identities]
 *
 * Prints tables and what the run must show, and writes plots, what the run must show (claims.json) and all figures
 * (results.json, which the repository does not keep) to bench/results/. It fails only if something could not be
 * measured: a figure that is not what it should be is a result.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { measureAttacks, measureLeases } from './accuracy/measure.ts'
import { ALL_TARGETS, OWN_TARGETS } from './accuracy/targets.ts'
import { measureFloods } from './floods/measure.ts'
import { HOT, measureGateways } from './gateway/measure.ts'
import { measureOperate } from './gateway/operate.ts'
import { measureSideBySide } from './gateway/side-by-side.ts'
import { BARE_PROXY, COMPARED, FLOODED, LEASED, OF_CLAIMS, PLAIN } from './gateway/variants.ts'
import { measureIdentities } from './identities/measure.ts'
import { measureLibrary } from './library/measure.ts'
import { connectPeers, installPeers, loadInProcess } from './peers.ts'
import { measureInRedis } from './redis/measure.ts'
import { checkClaims } from './report/claims.ts'
import { drawPlots } from './report/plots.ts'
import { printClaims, printTables } from './report/tables.ts'
import { describeMachine, type Results, roundNumber } from './results.ts'
import { measureRules } from './rules/measure.ts'
import { openSite, TOKEN } from './site.ts'
import { measureStores } from './stores/measure.ts'
import { measureLoads } from './stores/measure-load.ts'
import { measureWorst } from './worst/measure.ts'

const RESULTS = join(import.meta.dirname, 'results')

const FULL = {
  latenciesMs: [0, 20],
  redis: { warmUps: 1, repetitions: 5, budgetMs: 40 },
  gateway: { variants: COMPARED, repetitions: 1, seconds: 2 },
  pairs: { callers: [HOT, 1_000, 100_000], repetitions: 4, slices: 1 },
  stores: { callers: [HOT, 1_000, 100_000], repetitions: 1, seconds: 1 },
  loads: 15,
  operate: { variants: [PLAIN, LEASED, FLOODED], repetitions: 3, slices: 1 },
  accuracy: { targets: ALL_TARGETS, repetitions: 1, durationMs: 3_000 },
  worst: { seed: 1, candidates: 300, looks: 15, repetitions: 500 },
  library: { repetitions: 5, decisions: 500_000, calls: 500, waits: 3 },
  rules: { entries: 10_000, rounds: 9 },
  identities: { repetitions: 9 },
}
const QUICK: typeof FULL = {
  latenciesMs: [20],
  redis: { warmUps: 0, repetitions: 1, budgetMs: 20 },
  gateway: { variants: OF_CLAIMS, repetitions: 1, seconds: 1 },
  pairs: { callers: [HOT], repetitions: 1, slices: 2 },
  stores: { callers: [HOT], repetitions: 1, seconds: 1 },
  loads: 5,
  operate: { variants: [PLAIN], repetitions: 1, slices: 2 },
  accuracy: { targets: OWN_TARGETS, repetitions: 1, durationMs: 3_000 },
  worst: { seed: 1, candidates: 60, looks: 10, repetitions: 250 },
  library: { repetitions: 1, decisions: 100_000, calls: 300, waits: 1 },
  rules: { entries: 10_000, rounds: 3 },
  identities: { repetitions: 5 },
}

const { values } = parseArgs({ options: { quick: { type: 'boolean', default: false }, only: { type: 'string' } } })
const settings = values.quick ? QUICK : FULL
const { latenciesMs } = settings

const SECTIONS: Readonly<Record<string, () => Promise<Partial<Results>>>> = {
  redis: async () => ({ redis: await measureInRedis({ redis, contenders: peers.overTcp, ...settings.redis }) }),
  gateway: async () => ({
    gateway: await measureGateways({ site, latenciesMs, ...settings.gateway }),
    pairs: await measureSideBySide({ site, latenciesMs, ...settings.pairs }),
  }),
  stores: async () => ({
    stores: await measureStores({ site, latenciesMs, ...settings.stores }),
    loads: await measureLoads(site, settings.loads),
  }),
  operate: async () => ({ operate: await measureOperate({ site, ...settings.operate }) }),
  accuracy: async () => ({
    accuracy: await measureAttacks({ site, contenders: peers.contenders, ...settings.accuracy }),
    leases: await measureLeases(),
  }),
  worst: async () => {
    const options = { site, ...settings.worst }
    return { worst: [...(await measureWorst(BARE_PROXY, options)), ...(await measureWorst(PLAIN, options))] }
  },
  library: async () => ({
    library: await measureLibrary({ ...(await loadInProcess()), front, ...settings.library }),
  }),
  rules: async () => ({ rules: await measureRules(settings.rules) }),
  flood: async () => ({ floods: await measureFloods({ redis, perSecond: 200, seconds: 5 }) }),
  identities: async () => ({
    identities: await measureIdentities({ redis, front, token: TOKEN, connectTo, ...settings.identities }),
  }),
}
const sections = Object.entries(SECTIONS).filter(([name]) => values.only === undefined || values.only === name)
if (sections.length === 0) {
  console.error(`usage: npm run bench -- [--quick] [--only ${Object.keys(SECTIONS).join('|')}]`)
  process.exit(1)
}

installPeers()
const startedMs = performance.now()
await using site = await openSite()
const { redis, redisPort } = site
const front = await site.findFront(0)
const connectTo = (restUrl: string) => connectPeers({ redisPort, restUrl, token: TOKEN })
const peers = await connectTo(front.url)
try {
  let results: Results = { machine: await describeMachine(redis), isQuick: values.quick }
  for (const [name, measure] of sections) {
    console.error(`${Math.round((performance.now() - startedMs) / 1_000)} s: ${name} …`)
    results = { ...results, ...(await measure()) }
  }
  await report(results)
} finally {
  await peers.close()
}

async function report(results: Results): Promise<void> {
  const { machine } = results
  const versions = Object.entries(machine.versions).map((pair) => pair.join(' '))
  console.log(`${machine.date}, ${machine.processors}; ${versions.join(', ')}`)
  printTables(results)
  const claims = checkClaims(results)
  printClaims(claims)
  // A short or partial run does not replace the figures that the documentation shows.
  const isWhole = !values.quick && values.only === undefined
  const into = isWhole ? RESULTS : join(RESULTS, 'trial')
  await mkdir(into, { recursive: true })
  await writeFile(join(into, 'results.json'), `${JSON.stringify(results, null, 2)}\n`)
  await writeFile(join(into, 'claims.json'), `${JSON.stringify({ machine, claims }, roundNumber, 2)}\n`)
  for (const [name, svg] of drawPlots(results)) await writeFile(join(into, name), svg)
  const missed = claims.filter(({ isMet }) => !isMet).length
  console.log(`\n${claims.length - missed} of ${claims.length} met. Figures and plots: ${into}`)
}
