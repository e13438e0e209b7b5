/**
 * What a cold start takes, in a workerd of its own: processor time until it listens, above that of a Worker that does
 * nothing, and that of the first request. About a minute.
 *
 *     npm run bench:cold-start [-- instructions]
 *
 * With `instructions`, instructions of the processor, which no other load on the machine changes: valgrind counts them.
 */
import { cpus } from 'node:os'
import { type DirectGateway, WORKERD } from '../test/support/direct-gateway.ts'
import { recordParts } from '../tools/needed-parts.ts'
import { NAMES, SLUICE, UPSTASH_PLAIN } from './gateway/variants.ts'
import { requireCallgrind } from './instructions/callgrind.ts'
import { installPeers } from './peers.ts'
import { readRunUs } from './processor-time.ts'
import { print } from './report/tables.ts'
import { type GatewayOptions, type GatewayWorker, openSite } from './site.ts'
import { computeMedian, summarizeRows } from './statistics.ts'

/** Each Worker starts so often, in turns. */
const STARTS = 25
const SECRET = 'x'.repeat(32)
const PLAIN = { source: SLUICE, bindings: { RATE_LIMITS: '1000/1m' } }
const ALL_ON = {
  ...{ RULES: 'on', STATISTICS: 'on', SHEDDING: 'on', LEASES: 'auto' },
  ...{ JWT_SECRET: SECRET, ADMIN_TOKEN: SECRET, METRICS_TOKEN: SECRET },
}

/** Milliseconds, or millions of instructions. */
type Cold = { readonly start: number; readonly request: number }

const [part, ...others] = process.argv.slice(2)
if (others.length > 0 || (part !== undefined && part !== 'instructions')) {
  console.error('usage: npm run bench:cold-start [-- instructions]')
  process.exit(1)
}
const underCallgrind = part && (await requireCallgrind())

installPeers()
await using site = await openSite()
const variables = { ...(await site.findBindings()), ...PLAIN.bindings }
const needed = await recordParts({ variables, bindings: [] })
const EMPTY: GatewayWorker = { source: 'bench/gateway/empty-worker.ts', bindings: {} }
const WORKERS = [
  { name: 'empty Worker', worker: EMPTY },
  { name: NAMES.upstash, worker: UPSTASH_PLAIN },
  { name: NAMES.plain, worker: PLAIN },
  { name: 'Sluice, uploaded with the parts it needs', worker: PLAIN, build: { needed } },
  { name: 'Sluice, all on', worker: { ...PLAIN, bindings: { ...PLAIN.bindings, ...ALL_ON } } },
].map((each) => ({ build: {}, ...each, figures: [] as Cold[] }))
for (let turn = 0; turn < (underCallgrind ? 1 : STARTS); turn++) {
  for (const { worker, build, figures } of WORKERS) {
    figures.push(await (underCallgrind ? countColdStart : timeColdStart)(worker, { build }))
  }
}
const empty = WORKERS[0]?.figures ?? []
const unit = underCallgrind ? 'million instructions' : 'ms of processor time, medians'
print(
  `Cold start: ${unit}; ${new Date().toISOString().slice(0, 10)}, ${cpus()[0]?.model.trim()}`,
  WORKERS.map(({ name, figures }) => {
    const { start, request } = summarizeRows(figures)
    const above = computeMedian(figures.map((each, turn) => each.start - (empty[turn]?.start ?? Number.NaN)))
    return {
      worker: name,
      'until it listens': round(start),
      'above empty': round(above),
      'first request': round(request),
    }
  }),
)

async function timeColdStart(worker: GatewayWorker, options: GatewayOptions): Promise<Cold> {
  await using gateway = await site.startGateway(worker, options)
  const startUs = readRunUs(gateway.pid)
  await request(gateway)
  return { start: startUs / 1_000, request: (readRunUs(gateway.pid) - startUs) / 1_000 }
}

async function countColdStart(worker: GatewayWorker, options: GatewayOptions): Promise<Cold> {
  if (!underCallgrind) throw new Error('no valgrind')
  await using counted = await underCallgrind(WORKERD)
  await using gateway = await site.startGateway(worker, { ...options, program: counted.file })
  const poke = () => request(gateway)
  const started = await counted.countSoFar(gateway.pid, poke)
  return { start: started / 1e6, request: (await counted.countSoFar(gateway.pid, poke)) / 1e6 }
}

async function request({ url, log }: DirectGateway): Promise<void> {
  const response = await fetch(new URL('/v1/things', url), { headers: { Authorization: 'Bearer cold' } })
  await response.arrayBuffer()
  if (!response.ok) throw new Error(`answered ${response.status}: ${log.join('\n')}`)
}

function round(figure: number): number {
  return Math.round(figure * 10) / 10
}
