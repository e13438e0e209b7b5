/**
 * Measures what bench/results/performance.md says, Sluice beside its peers, on one Redis and one workerd. About ten minutes.
 *
 *     npm run bench -- [--only <section>]
 *
 * Prints the parts of the page and what the run must show. A whole run writes them there, and to README.md what that says
 * of them; its plots and claims.json to bench/results/, and all figures to results.json there, which the repository does
 * not keep. It fails only if something could not be measured: a figure that is not what it should be is a result. Needs
 * valgrind and wrk.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { measureAttacks, measureLeases } from './accuracy/measure.ts'
import { measureFloods } from './floods/measure.ts'
import { measureAdded } from './gateway/added.ts'
import { measureSideBySide } from './gateway/side-by-side.ts'
import { BARE_PROXY, PLAIN } from './gateway/variants.ts'
import { measureIdentities } from './identities/measure.ts'
import { requireCallgrind } from './instructions/callgrind.ts'
import { countInRedis } from './instructions/in-redis.ts'
import { measureLibrary } from './library/measure.ts'
import { connectPeers, installPeers, loadInProcess } from './peers.ts'
import { measureInRedis } from './redis/measure.ts'
import { checkClaims } from './report/claims.ts'
import { formatRows, renewPage, round } from './report/markdown.ts'
import { formatParts, renewReadme } from './report/page.ts'
import { drawPlots } from './report/plots.ts'
import { describeMachine, type Results, roundNumber } from './results.ts'
import { measureRules } from './rules/measure.ts'
import { measureServe } from './serve/measure.ts'
import { openSite, TOKEN } from './site.ts'
import { measureStarts } from './start/measure.ts'
import { measureEvictions } from './stores/evictions.ts'
import { measureWorst } from './worst/measure.ts'

const RESULTS = join(import.meta.dirname, 'results')
const PAGE = join(RESULTS, 'performance.md')
const README = join(import.meta.dirname, '../README.md')

const SECTIONS: Readonly<Record<string, () => Promise<Partial<Results>>>> = {
  accuracy: async () => ({ accuracy: await measureAttacks({ site, contenders: peers.contenders }) }),
  redis: async () => ({ redis: await measureInRedis({ redis, contenders: peers.overTcp, turns: 3 }) }),
  instructions: async () => ({ instructions: await countInRedis(underCallgrind) }),
  identities: async () => ({ identities: await measureIdentities({ redis, front, token: TOKEN, connectTo }) }),
  gateway: async () => ({ gateway: await measureSideBySide({ site, repetitions: 4 }) }),
  added: async () => ({ added: await measureAdded({ site, turns: 2 }) }),
  start: async () => ({ start: await measureStarts(site, underCallgrind) }),
  worst: async () => ({ worst: [...(await measureWorst(BARE_PROXY, site)), ...(await measureWorst(PLAIN, site))] }),
  rules: async () => ({ rules: await measureRules() }),
  evictions: async () => ({ evictions: await measureEvictions(site) }),
  floods: async () => ({ floods: await measureFloods({ redis, perSecond: 200, seconds: 5 }) }),
  leases: async () => ({ leases: await measureLeases() }),
  library: async () => ({ library: await measureLibrary({ ...(await loadInProcess()), front }) }),
  serve: async () => ({ serve: await measureServe(redisPort) }),
}

const { values } = parseArgs({ options: { only: { type: 'string' } } })
const sections = Object.entries(SECTIONS).filter(([name]) => values.only === undefined || values.only === name)
if (sections.length === 0) {
  console.error(`usage: npm run bench -- [--only ${Object.keys(SECTIONS).join('|')}]`)
  process.exit(1)
}

const underCallgrind = await requireCallgrind()
installPeers()
await using site = await openSite()
const { redis, redisPort } = site
const front = await site.findFront(0)
const connectTo = (restUrl: string) => connectPeers({ redisPort, restUrl, token: TOKEN })
const peers = await connectTo(front.url)
try {
  let results: Results = { machine: await describeMachine(redis) }
  for (const [name, measure] of sections) {
    const startedMs = performance.now()
    results = { ...results, ...(await measure()) }
    console.error(`${name}: ${Math.round((performance.now() - startedMs) / 1_000)} s`)
  }
  await report(results)
} finally {
  await peers.close()
}

async function report(results: Results): Promise<void> {
  const parts = formatParts(results)
  for (const [name, text] of parts) console.log(`## ${name}\n\n${text}\n`)
  const { machine } = results
  const claims = checkClaims(results)
  if (claims.length > 0) {
    const rows = claims.map(({ claim, measured, isMet }) => ({
      '': isMet ? 'met' : 'NOT MET',
      claim,
      measured: round(measured),
    }))
    console.log(`## What it must show\n\n${formatRows(rows)}\n`)
  }
  // A part of a run does not replace the figures that the documentation shows.
  const isWhole = values.only === undefined
  const into = isWhole ? RESULTS : join(RESULTS, 'trial')
  await mkdir(into, { recursive: true })
  await writeFile(join(into, 'results.json'), `${JSON.stringify(results, null, 2)}\n`)
  await writeFile(join(into, 'claims.json'), `${JSON.stringify({ machine, claims }, roundNumber, 2)}\n`)
  for (const [name, svg] of drawPlots(results)) await writeFile(join(into, name), svg)
  if (isWhole) {
    await writeFile(PAGE, renewPage(await readFile(PAGE, 'utf8'), parts))
    await writeFile(README, renewReadme(await readFile(README, 'utf8'), results))
  }
  const missed = claims.filter(({ isMet }) => !isMet).length
  console.log(`${claims.length - missed} of ${claims.length} met. Plots and figures: ${into}`)
}
