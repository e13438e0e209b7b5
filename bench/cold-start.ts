/**
 * What a cold start takes, in a workerd of its own: processor time until it listens, and that of the first request,
 * beside a Worker that does nothing. About a minute.
 *
 *     npm run bench:cold-start [-- instructions]
 *
 * With `instructions`, instructions of the processor, which no other load on the machine changes: valgrind counts them.
 */
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { type Bundle, buildBundle } from '../test/support/build-bundle.ts'
import { type DirectGateway, startDirectGateway, WORKERD } from '../test/support/direct-gateway.ts'
import { recordParts } from '../tools/needed-parts.ts'
import { startRedisServer } from '../tools/redis-server.ts'
import type { Compared } from './gateway/compare.ts'
import { NAMES, SLUICE, UPSTASH_PLAIN } from './gateway/variants.ts'
import { findCallgrind } from './instructions/callgrind.ts'
import { installPeers } from './peers.ts'
import { runUs } from './processor-time.ts'
import { print } from './report/tables.ts'
import { serviceBindings, startApi, startFront } from './services.ts'
import { median, medians } from './statistics.ts'

/** Of each Worker, in turns. */
const STARTS = 25
const TOKEN = 'bench-token'
const SECRET = 'x'.repeat(32)
const PLAIN = { RATE_LIMITS: '1000/1m' }
const ALL_ON = {
  ...{ RULES: 'on', STATISTICS: 'on', SHEDDING: 'on', LEASES: 'auto' },
  ...{ JWT_SECRET: SECRET, ADMIN_TOKEN: SECRET, METRICS_TOKEN: SECRET },
}

const EMPTY = 'empty Worker'
const LEAN = 'Sluice, uploaded with the parts it needs'
const WORKERS = new Map<string, Compared>([
  [EMPTY, { source: 'bench/gateway/empty-worker.ts', bindings: {} }],
  [NAMES.upstash, UPSTASH_PLAIN],
  [NAMES.plain, { source: SLUICE, bindings: PLAIN }],
  [LEAN, { source: SLUICE, bindings: PLAIN }],
  ['Sluice, all on', { source: SLUICE, bindings: { ...PLAIN, ...ALL_ON } }],
])

/** Milliseconds, or millions of instructions. */
type Cold = { readonly start: number; readonly request: number }

const countsInstructions = process.argv[2] === 'instructions'
const underCallgrind = countsInstructions ? await findCallgrind() : undefined
if (process.argv.length > (countsInstructions ? 3 : 2) || (countsInstructions && !underCallgrind)) {
  console.error('usage: npm run bench:cold-start [-- instructions], which needs valgrind: apt-get install valgrind')
  process.exit(1)
}

installPeers()
const folder = await mkdtemp(join(tmpdir(), 'sluice-cold-start-'))
const server = await startRedisServer()
const upstream = await startApi()
const front = await startFront(server.port, TOKEN, 0)
const services = serviceBindings({ upstream, front, token: TOKEN })
const bundles = new Map<string, Bundle>()
try {
  for (const [name, { source, bindings }] of WORKERS) {
    const needed =
      name === LEAN ? await recordParts({ variables: { ...services, ...bindings }, bindings: [] }) : undefined
    bundles.set(name, await buildBundle({ source, into: folder, needed }))
  }
  const figures = new Map([...WORKERS.keys()].map((name): [string, Cold[]] => [name, []]))
  const measure = underCallgrind ? countColdStart : timeColdStart
  for (let round = 0; round < (underCallgrind ? 1 : STARTS); round++) {
    for (const name of WORKERS.keys()) figures.get(name)?.push(await measure(name))
  }
  const unit = underCallgrind ? 'million instructions' : 'ms of processor time, medians'
  print(
    `Cold start: ${unit}; ${new Date().toISOString().slice(0, 10)}, ${cpus()[0]?.model.trim()}`,
    [...WORKERS.keys()].map((name) => toRow(name, figures)),
  )
} finally {
  await Promise.all([upstream.stop(), front.stop()])
  await server.stop()
  await rm(folder, { recursive: true })
}

async function timeColdStart(name: string): Promise<Cold> {
  const gateway = await start(name)
  try {
    const startUs = runUs(gateway.pid)
    await request(gateway)
    return { start: startUs / 1_000, request: (runUs(gateway.pid) - startUs) / 1_000 }
  } finally {
    await gateway.stop()
  }
}

async function countColdStart(name: string): Promise<Cold> {
  if (!underCallgrind) throw new Error('no valgrind')
  await using counted = await underCallgrind(WORKERD)
  const gateway = await start(name, counted.file)
  try {
    const poke = () => request(gateway)
    const started = await counted.countSoFar(gateway.pid, poke)
    return { start: started / 1e6, request: (await counted.countSoFar(gateway.pid, poke)) / 1e6 }
  } finally {
    await gateway.stop()
  }
}

function start(name: string, program = WORKERD): Promise<DirectGateway> {
  const bundle = bundles.get(name) as Bundle
  return startDirectGateway({ bundle, bindings: { ...services, ...WORKERS.get(name)?.bindings }, program })
}

async function request({ url, log }: DirectGateway): Promise<void> {
  const response = await fetch(new URL('/v1/things', url), { headers: { Authorization: 'Bearer cold' } })
  await response.arrayBuffer()
  if (!response.ok) throw new Error(`answered ${response.status}: ${log.join('\n')}`)
}

function toRow(name: string, figures: ReadonlyMap<string, readonly Cold[]>) {
  const of = (name: string) => figures.get(name) ?? []
  const { start, request } = medians(of(name))
  const { folder = '', modules = [] } = bundles.get(name) ?? {}
  const files = modules.map((module) => readFileSync(join(folder, module)))
  const kib = (sizes: readonly number[]) => Math.round(sizes.reduce((sum, size) => sum + size, 0) / 1_024)
  return {
    worker: name,
    'KiB uploaded': kib(files.map(({ length }) => length)),
    gzipped: kib(files.map((file) => gzipSync(file).length)),
    'until it listens': round(start),
    'above empty': round(median(of(name).map((each, turn) => each.start - (of(EMPTY)[turn]?.start ?? Number.NaN)))),
    'first request': round(request),
  }
}

function round(figure: number): number {
  return Math.round(figure * 10) / 10
}
