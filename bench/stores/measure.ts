/** The same gateway over Durable Objects and over Redis. */
import { HOT } from '../gateway/measure.ts'
import { LEASED, PLAIN, type Variant } from '../gateway/variants.ts'
import { load } from '../gateway/wrk.ts'
import type { Site } from '../site.ts'
import { summarizeRows } from '../statistics.ts'

export const OBJECTS = 'Durable Objects'

export interface StoreFigures {
  readonly variant: string
  /** Where counts are kept. */
  readonly store: string
  readonly callers: number
  readonly requestsPerSecond: number
  /** The median of requests that are sent one after the other. */
  readonly aloneP50Ms: number
}

export interface StoreBenchOptions {
  readonly site: Site
  readonly latenciesMs: readonly number[]
  /** Numbers of callers who are served in random turns. */
  readonly callers: readonly number[]
  readonly repetitions: number
  readonly seconds: number
}

interface Cell {
  readonly variant: Variant
  readonly store: string
  /** How much later Redis answers; undefined for objects. */
  readonly latencyMs?: number
  readonly callers: number
  readonly runs: Omit<StoreFigures, 'variant' | 'store' | 'callers'>[]
}

export function nameRedis(latencyMs: number): string {
  return `Redis + ${latencyMs} ms`
}

/** Measures in turns, each time in a new process with the machine to itself. */
export async function measureStores(options: StoreBenchOptions): Promise<StoreFigures[]> {
  const cells = options.callers.flatMap((callers) => {
    // Only for busy callers, permits are taken in advance.
    const variants = callers === HOT ? [PLAIN, LEASED] : [PLAIN]
    return variants.flatMap((variant): Cell[] => [
      { variant, store: OBJECTS, callers, runs: [] },
      ...options.latenciesMs.map((ms) => ({ variant, store: nameRedis(ms), latencyMs: ms, callers, runs: [] })),
    ])
  })
  for (let turn = 0; turn < options.repetitions; turn++) {
    for (const cell of cells) cell.runs.push(await measure(cell, options))
  }
  return cells.map(({ variant, store, callers, runs }) => {
    return { variant: variant.name, store, callers, ...summarizeRows(runs) }
  })
}

async function measure(
  { variant, latencyMs, callers }: Cell,
  { site, seconds }: StoreBenchOptions,
): Promise<Cell['runs'][number]> {
  const isRedis = latencyMs !== undefined
  const bindings = { ...variant.bindings, STORE: isRedis ? 'redis' : 'durable-object' }
  // Redis keeps nothing on disk here, either.
  const options = isRedis ? { latencyMs } : ({ objects: 'memory' } as const)
  await using gateway = await site.startGateway({ ...variant, bindings }, options)
  const target = { url: gateway.url.origin, name: crypto.randomUUID().slice(0, 8), callers }
  // Compiles what is hot.
  await load({ ...target, seconds: 1 })
  const busy = await load({ ...target, seconds })
  const alone = await load({ ...target, seconds: 1, connections: 1 })
  for (const { failed, refused } of [busy, alone]) {
    if (failed + refused > 0) throw new Error(`${failed + refused} requests were refused or failed`)
  }
  return { requestsPerSecond: busy.requestsPerSecond, aloneP50Ms: alone.p50Ms }
}
