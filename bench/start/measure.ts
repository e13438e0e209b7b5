/** Measures what a Worker takes in a workerd of its own until it listens, and for its first request. */
import { type DirectGateway, WORKERD } from '../../test/support/direct-gateway.ts'
import { NAMES, SLUICE, UPSTASH_PLAIN } from '../gateway/variants.ts'
import type { UnderCallgrind } from '../instructions/callgrind.ts'
import { readRunUs } from '../processor-time.ts'
import type { GatewayOptions, GatewayWorker, Site } from '../site.ts'
import { type Spread, summarize } from '../statistics.ts'

/** Each Worker starts so often, in turns. */
const STARTS = 5
const EMPTY: GatewayWorker = { source: 'bench/gateway/empty-worker.ts', bindings: {} }
const PLAIN = { source: SLUICE, bindings: { RATE_LIMITS: '1000/1m', STORE_TIMEOUT_MS: '60000' } }
/** Whatever the gateway does not know is compared with what it knows. */
const OWN = { source: SLUICE, bindings: { ...PLAIN.bindings, SENTRY_ENVIRONMENT: 'production' } }
/** An isolate that starts to hold an object starts a gateway as well. */
const OBJECTS = { source: SLUICE, bindings: { ...PLAIN.bindings, STORE: 'durable-object' } }
const MILLION = 1_000_000
/** Requests that a new isolate gets at once, with Redis so far away. */
const BURST = 256
const BURST_LATENCY_MS = 20

/** Milliseconds of processor time, or millions of instructions. */
interface Cold<T> {
  /** Until it listens. */
  readonly start: T
  readonly request: T
}

export interface StartFigures {
  readonly worker: string
  readonly processorMs: Cold<Spread>
  /** They do not vary with the load of the machine. */
  readonly instructions: Cold<number>
  /** Milliseconds until the last of 256 requests is answered that are the first, with Redis 20 ms away. */
  readonly burstMs: Spread
}

interface Uploaded {
  readonly name: string
  readonly worker: GatewayWorker
  readonly options: GatewayOptions
}

export async function measureStarts(site: Site, underCallgrind: UnderCallgrind): Promise<StartFigures[]> {
  const workers: readonly Uploaded[] = [
    { name: 'empty Worker', worker: EMPTY, options: {} },
    { name: NAMES.upstash, worker: UPSTASH_PLAIN, options: {} },
    { name: NAMES.plain, worker: PLAIN, options: {} },
    { name: 'Sluice, a variable of your own', worker: OWN, options: {} },
    { name: 'Sluice, over Durable Objects', worker: OBJECTS, options: { objects: 'memory' } },
  ]
  const turns: Cold<number>[][] = []
  while (turns.length < STARTS) turns.push(await startAll(workers, (each) => timeStart(each, site)))
  const bursts: number[][] = []
  while (bursts.length < STARTS) bursts.push(await startAll(workers, (each) => timeBurst(each, site)))
  const counts = await startAll(workers, (each) => countStart(each, site, underCallgrind))
  return workers.map(({ name }, at) => {
    const own = turns.map((turn) => turn[at] as Cold<number>)
    const processorMs = {
      start: summarize(own.map(({ start }) => start)),
      request: summarize(own.map(({ request }) => request)),
    }
    const burstMs = summarize(bursts.map((turn) => turn[at] as number))
    return { worker: name, processorMs, instructions: counts[at] as Cold<number>, burstMs }
  })
}

async function startAll<T>(workers: readonly Uploaded[], start: (worker: Uploaded) => Promise<T>): Promise<T[]> {
  const started: T[] = []
  for (const worker of workers) started.push(await start(worker))
  return started
}

async function timeStart({ worker, options }: Uploaded, site: Site): Promise<Cold<number>> {
  await using gateway = await site.startGateway(worker, options)
  const startUs = readRunUs(gateway.pid)
  await request(gateway)
  return { start: startUs / 1_000, request: (readRunUs(gateway.pid) - startUs) / 1_000 }
}

async function timeBurst({ worker, options }: Uploaded, site: Site): Promise<number> {
  await using gateway = await site.startGateway(worker, { ...options, latencyMs: BURST_LATENCY_MS })
  // All bursts of one caller would exceed its limit.
  const caller = crypto.randomUUID()
  const startedMs = performance.now()
  await Promise.all(Array.from({ length: BURST }, () => request(gateway, caller)))
  return performance.now() - startedMs
}

async function countStart(
  { worker, options }: Uploaded,
  site: Site,
  underCallgrind: UnderCallgrind,
): Promise<Cold<number>> {
  await using counted = await underCallgrind(WORKERD)
  await using gateway = await site.startGateway(worker, { ...options, program: counted.file })
  const poke = () => request(gateway)
  const start = await counted.countSoFar(gateway.pid, poke)
  return { start: start / MILLION, request: (await counted.countSoFar(gateway.pid, poke)) / MILLION }
}

async function request({ url, log }: DirectGateway, caller = 'cold'): Promise<void> {
  const response = await fetch(new URL('/v1/things', url), { headers: { Authorization: `Bearer ${caller}` } })
  await response.arrayBuffer()
  if (!response.ok) throw new Error(`answered ${response.status}: ${log.join('\n')}`)
}
