import type { Bundle } from '../../test/support/build-bundle.ts'
import { startDirectGateway } from '../../test/support/direct-gateway.ts'
import { HOT } from '../gateway/measure.ts'
import { LEASED, PLAIN, SLUICE, type Variant } from '../gateway/variants.ts'
import { load } from '../gateway/wrk.ts'
import { runUs } from '../processor-time.ts'
import { type Service, serviceBindings } from '../services.ts'
import { medians } from '../statistics.ts'

export const OBJECTS = 'Durable Objects'
export interface StoreFigures {
  readonly variant: string
  /** Where counts are kept. */
  readonly store: string
  readonly callers: number
  readonly requestsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Of requests that are sent one after the other. */
  readonly aloneP50Ms: number
  /** Processor time of the gateway's workerd per request, its objects included. */
  readonly processorUs: number
}

export interface StoreBenchOptions {
  readonly upstream: Service
  /** REST fronts before Redis by their added latency in milliseconds. */
  readonly fronts: ReadonlyMap<number, Service>
  readonly token: string
  readonly bundles: ReadonlyMap<string, Bundle>
  /** Numbers of callers who are served in random turns. */
  readonly callers: readonly number[]
  readonly repetitions: number
  readonly seconds: number
}

interface Cell {
  readonly variant: Variant
  readonly store: string
  /** Before Redis; undefined for objects. */
  readonly front?: Service
  readonly callers: number
  readonly runs: Omit<StoreFigures, 'variant' | 'store' | 'callers'>[]
}

export function redisAt(latencyMs: number): string {
  return `Redis + ${latencyMs} ms`
}

/** The same gateway over each store, in turns, each time in a new process with the machine to itself. */
export async function measureStores(options: StoreBenchOptions): Promise<StoreFigures[]> {
  const cells = options.callers.flatMap((callers) => {
    // Only for busy callers, permits are taken in advance.
    const variants = callers === HOT ? [PLAIN, LEASED] : [PLAIN]
    return variants.flatMap((variant): Cell[] => [
      { variant, store: OBJECTS, callers, runs: [] },
      ...[...options.fronts].map(([ms, front]) => ({ variant, store: redisAt(ms), front, callers, runs: [] })),
    ])
  })
  for (let turn = 0; turn < options.repetitions; turn++) {
    for (const cell of cells) cell.runs.push(await run(cell, options))
  }
  return cells.map(({ variant, store, callers, runs }) => ({ variant: variant.name, store, callers, ...medians(runs) }))
}

async function run({ variant, front, callers }: Cell, options: StoreBenchOptions): Promise<Cell['runs'][number]> {
  const { upstream, token, bundles, seconds } = options
  const bundle = bundles.get(SLUICE)
  if (!bundle) throw new Error(`no bundle of ${SLUICE}`)
  const bindings = front
    ? { STORE: 'redis', ...serviceBindings({ upstream, front, token }) }
    : { STORE: 'durable-object', UPSTREAM_URL: upstream.url }
  // Redis keeps nothing on disk here, either.
  const objects = front ? {} : ({ objects: 'memory' } as const)
  const gateway = await startDirectGateway({ bundle, bindings: { ...bindings, ...variant.bindings }, ...objects })
  try {
    const target = { url: gateway.url.origin, name: crypto.randomUUID().slice(0, 8), callers }
    // Compiles what is hot.
    await load({ ...target, seconds: 1 })
    const beforeUs = runUs(gateway.pid)
    const busy = await load({ ...target, seconds })
    const processorUs = (runUs(gateway.pid) - beforeUs) / busy.sent
    const alone = await load({ ...target, seconds: 1, connections: 1 })
    for (const { failed, refused } of [busy, alone]) {
      if (failed + refused > 0) throw new Error(`${failed + refused} requests were refused or failed`)
    }
    const { requestsPerSecond, p50Ms, p99Ms } = busy
    return { requestsPerSecond, p50Ms, p99Ms, aloneP50Ms: alone.p50Ms, processorUs }
  } finally {
    await gateway.stop()
  }
}
