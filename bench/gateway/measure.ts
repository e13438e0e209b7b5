import { setTimeout } from 'node:timers/promises'
import type { Bundle } from '../../test/support/build-bundle.ts'
import { type DirectGateway, startDirectGateway } from '../../test/support/direct-gateway.ts'
import type { RedisClient } from '../../test/support/redis-client.ts'
import { readCounts, resetCounts } from '../command-counts.ts'
import { runUs } from '../processor-time.ts'
import { type Service, serviceBindings } from '../services.ts'
import { medians } from '../statistics.ts'
import type { Variant } from './variants.ts'
import { load } from './wrk.ts'

export const HOT = 1
const WARM_UP_S = 1

export interface GatewayFigures {
  readonly variant: string
  /** Milliseconds by which Redis's answers come later. */
  readonly restLatencyMs: number
  readonly requestsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** HTTP requests to Redis's REST front per request of a client. */
  readonly restCalls: number
  /** Redis commands, as Upstash bills them, per request of a client. */
  readonly billed: number
  /** Processor time of the gateway's workerd per request: what is left when nothing is waited for. */
  readonly processorUs: number
}

export interface GatewayBenchOptions {
  readonly redis: RedisClient
  readonly upstream: Service
  /** REST fronts by their added latency in milliseconds. */
  readonly fronts: ReadonlyMap<number, Service>
  readonly token: string
  readonly bundles: ReadonlyMap<string, Bundle>
  readonly variants: readonly Variant[]
  readonly repetitions: number
  /** Time for which each load is measured, after one of a second that is not. */
  readonly seconds: number
}

interface Cell {
  readonly variant: Variant
  readonly restLatencyMs: number
  readonly runs: Omit<GatewayFigures, 'variant' | 'restLatencyMs'>[]
}

/**
 * Loads every gateway by one hot caller, in turns, each with the whole machine to itself for the time, and each time in a
 * new process: two processes of the same gateway can differ for as long as they live.
 */
export async function measureGateways(options: GatewayBenchOptions): Promise<GatewayFigures[]> {
  // Those that are compared run right after each other.
  const cells = [...options.fronts.keys()].flatMap((restLatencyMs) =>
    options.variants.map((variant): Cell => ({ variant, restLatencyMs, runs: [] })),
  )
  for (let turn = 0; turn < options.repetitions; turn++) {
    for (const cell of cells) cell.runs.push(await run(cell, options))
  }
  return cells.map(({ variant, restLatencyMs, runs }) => ({ variant: variant.name, restLatencyMs, ...medians(runs) }))
}

async function run(cell: Cell, options: GatewayBenchOptions): Promise<Cell['runs'][number]> {
  const front = options.fronts.get(cell.restLatencyMs) as Service
  const gateway = await start(cell.variant, front, options)
  try {
    return await measure(cell, gateway, front, options)
  } finally {
    await gateway.stop()
  }
}

function start(
  variant: Variant,
  front: Service,
  { upstream, token, bundles }: GatewayBenchOptions,
): Promise<DirectGateway> {
  const bundle = bundles.get(variant.source)
  if (!bundle) throw new Error(`no bundle of ${variant.source}`)
  return startDirectGateway({
    bundle,
    bindings: { ...serviceBindings({ upstream, front, token }), ...variant.bindings },
  })
}

async function measure(
  { variant, runs }: Cell,
  gateway: DirectGateway,
  front: Service,
  { redis, seconds }: GatewayBenchOptions,
): Promise<Cell['runs'][number]> {
  const name = `${crypto.randomUUID().slice(0, 8)}-${runs.length}`
  const target = { url: gateway.url.origin, name, callers: HOT }
  await redis.flushAll()
  // Compiles what is hot, and brings a flood's callers to their limits.
  await load({ ...target, seconds: WARM_UP_S })
  const callsBefore = await settledCalls(front)
  await resetCounts(redis)
  const processorBeforeUs = runUs(gateway.pid)
  const result = await load({ ...target, seconds })
  const processor = runUs(gateway.pid) - processorBeforeUs
  const restCalls = (await settledCalls(front)) - callsBefore
  const { billed } = await readCounts(redis)
  const { requests, sent, requestsPerSecond, p50Ms, p99Ms, refused, failed } = result
  if (failed > 0) throw new Error(`${variant.name}: ${failed} of ${requests} requests failed`)
  if (!variant.isFlooded && refused > 0) throw new Error(`${variant.name} refused ${refused} of ${requests} requests`)
  return {
    ...{ requestsPerSecond, p50Ms, p99Ms },
    ...{ restCalls: restCalls / sent, billed: billed / sent, processorUs: processor / sent },
  }
}

/** REST calls so far, once those that a load left behind have ended. */
async function settledCalls(front: Service): Promise<number> {
  let calls = await front.ask<number>('requests')
  for (let attempt = 0; attempt < 20; attempt++) {
    await setTimeout(100)
    const now = await front.ask<number>('requests')
    if (now === calls) return now
    calls = now
  }
  throw new Error('Redis is called without end')
}
