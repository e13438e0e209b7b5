/**
 * Which store for how much, in virtual time: 300 places, a million callers, from 10 to 50,000 requests a second, over
 * Redis and over Durable Objects, with and without leases. Some twelve minutes of one processor, however busy the machine is;
 * with --quick, seconds.
 *
 *     npm run bench:scale -- [--quick] [--seed 1] [--cross-check] [--only 'token + global']
 *
 * Prints a line for each scenario, and writes the tables of bench/results/scale.md and its plots; with --quick, the plots
 * go to bench/results/trial/. With --cross-check, what runs in real time is run instead, for which the machine should be
 * quiet, and with --only the limits of that name, or 'several databases'; the other figures of the page stay. Fails if any true window of any key
 * held more than its limit.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { renewPage } from './report/markdown.ts'
import { runCrossCheck } from './scale/cross-check.ts'
import { BY_SHARDS, formatCrossCheck, formatFigures, formatLimits } from './scale/page.ts'
import { drawScalePlots } from './scale/plots.ts'
import { computeDollars } from './scale/prices.ts'
import type { ScaleResults, ScaleRow } from './scale/results.ts'
import {
  createByIsolates,
  createByShards,
  createLookingAround,
  createNearRedis,
  createScaledDown,
  listSeries,
} from './scale/scenarios.ts'
import { ISOLATES_PER_PLACE, type Scenario, simulate } from './scale/simulate.ts'

/** A store that leaves this share of the requests undecided gets no higher load. */
const ENDED = 0.5
const PLACES = 300
const PAGE = join(import.meta.dirname, 'results/scale.md')
const RESULTS = join(import.meta.dirname, 'results')

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    seed: { type: 'string', default: '1' },
    'cross-check': { type: 'boolean', default: false },
    only: { type: 'string' },
  },
})
const seed = Number(values.seed)
const startedUs = process.cpuUsage()

if (values['cross-check']) {
  await writePage(formatCrossCheck(await runCrossCheck(seed), describeMachine()))
} else {
  const results = await runAll()
  if (values.only === undefined) await writeFigures(results)
  else if (!values.quick) await writePage(formatLimits(results, await readFile(PAGE, 'utf8')))
  const over = [...results.rows, ...results.byShards].filter(({ fullest }) => fullest > 1)
  if (over.length > 0) throw new Error(`${over.length} scenarios held more than a limit in a true window`)
}

async function runAll(): Promise<ScaleResults> {
  const rows: ScaleRow[] = []
  for (const { policies, scenarios } of listSeries(seed, values.quick)) {
    if (values.only !== undefined && values.only !== policies.name) continue
    for (const scenario of scenarios) {
      const row = await measureRow(scenario)
      rows.push(row)
      if (row.undecided > ENDED * row.requests) break
    }
  }
  const isPart = values.quick || values.only !== undefined
  const others = {
    lookingAround: isPart ? [] : await measureRows(createLookingAround(seed)),
    nearRedis: isPart ? [] : await measureRows(createNearRedis(seed)),
    byShards: isPart && values.only !== BY_SHARDS ? [] : await measureRows(createByShards(seed)),
    byIsolates: isPart ? [] : await measureRows(createByIsolates(seed)),
    scaledDown: isPart ? [] : await measureRows(createScaledDown(seed)),
  }
  return { machine: describeMachine(), seed, rows, ...others }
}

function describeMachine(): ScaleResults['machine'] {
  return {
    date: new Date().toISOString().slice(0, 10),
    processors: `${cpus().length} × ${cpus()[0]?.model.trim()}`,
    node: process.versions.node,
    seconds: readSecondsSince(startedUs),
  }
}

async function measureRow(scenario: Scenario): Promise<ScaleRow> {
  const { policies, store, leases, perSecond, oneIn, isolatesPerPlace = ISOLATES_PER_PLACE, shards = 1 } = scenario
  const beganUs = process.cpuUsage()
  const figures = await simulate(scenario)
  const row = {
    policies: policies.name,
    store,
    leases,
    perSecond,
    oneIn,
    isolates: PLACES * isolatesPerPlace,
    shards,
    ...figures,
    dollars: computeDollars(figures, store),
  }
  const databases = shards === 1 ? '' : ` × ${shards}`
  const what = `${row.policies}, ${store}${databases}, leases ${leases}, ${perSecond.toLocaleString('en')}/s`
  const shown = `${row.p50Ms.toFixed(0)}/${row.p99Ms.toFixed(0)} ms, $${row.dollars.toFixed(2)}, ${row.calls.toFixed(2)} calls`
  const undecided = `${((row.undecided / row.requests) * 100).toFixed(1)}% undecided`
  console.log(
    `${readSecondsSince(beganUs).toFixed(1)} s: ${what}: ${shown}, ${(row.admitted / row.ideal).toFixed(3)}, ${undecided}`,
  )
  return row
}

async function measureRows(scenarios: readonly Scenario[]): Promise<ScaleRow[]> {
  const all: ScaleRow[] = []
  for (const scenario of scenarios) all.push(await measureRow(scenario))
  return all
}

async function writeFigures(results: ScaleResults): Promise<void> {
  const into = values.quick ? join(RESULTS, 'trial') : RESULTS
  await mkdir(into, { recursive: true })
  for (const [name, svg] of drawScalePlots(results)) await writeFile(join(into, name), svg)
  if (!values.quick) await writePage(formatFigures(results))
  console.log(`${results.machine.seconds.toFixed(0)} s of processor time. Plots: ${into}`)
}

async function writePage(parts: ReadonlyMap<string, string>): Promise<void> {
  await writeFile(PAGE, renewPage(await readFile(PAGE, 'utf8'), parts))
}

function readSecondsSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1e6
}
