import { setTimeout } from 'node:timers/promises'
import { type RedisClient, readCounts, resetCounts } from '../command-counts.ts'
import type { Child } from '../processes/child.ts'
import { medians } from '../statistics.ts'
import type { Bundle } from './bundle.ts'
import { processorUs } from './processor-time.ts'
import { ONE_TIER, THREE_TIERS, type Variant } from './variants.ts'
import { type Gateway, startGateway } from './workerd.ts'
import { load } from './wrk.ts'

export const HOT = 1

export interface GatewayFigures {
  readonly variant: string
  readonly callers: number
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
  readonly upstream: Child
  /** REST fronts by their added latency in milliseconds. */
  readonly fronts: ReadonlyMap<number, Child>
  readonly token: string
  readonly bundles: ReadonlyMap<string, Bundle>
  /** Numbers of callers, and how often each is measured. */
  readonly repetitions: ReadonlyMap<number, number>
  /** Time for which each load is measured, after a shorter one that is not. */
  readonly seconds: number
}

interface Cell {
  readonly variant: Variant
  readonly callers: number
  readonly restLatencyMs: number
  readonly gateway: Gateway
  readonly runs: Omit<GatewayFigures, 'variant' | 'callers' | 'restLatencyMs'>[]
}

/** Loads every gateway in turns, each with the whole machine to itself for the time. */
export async function measureGateways(options: GatewayBenchOptions): Promise<GatewayFigures[]> {
  const cells: Cell[] = []
  const gateways: Gateway[] = []
  try {
    for (const [restLatencyMs, front] of options.fronts) {
      const started: [Variant, Gateway][] = []
      for (const variant of [...ONE_TIER, ...THREE_TIERS]) started.push([variant, await start(variant, front, options)])
      gateways.push(...started.map(([, gateway]) => gateway))
      // Those that are compared follow upon each other. Several tiers are at one caller only, where they cost most.
      for (const callers of options.repetitions.keys()) {
        const compared = started.filter(([{ tiers }]) => tiers <= 1 || callers === HOT)
        cells.push(...compared.map(([variant, gateway]) => ({ variant, callers, restLatencyMs, gateway, runs: [] })))
      }
    }
    for (let turn = 0; turn < Math.max(...options.repetitions.values()); turn++) {
      for (const cell of cells) {
        if (turn < (options.repetitions.get(cell.callers) ?? 0)) cell.runs.push(await run(cell, options))
      }
    }
  } finally {
    await Promise.all(gateways.map((gateway) => gateway.stop()))
  }
  return cells.map(({ variant, callers, restLatencyMs, runs }) => {
    return { variant: variant.name, callers, restLatencyMs, ...medians(runs) }
  })
}

function start(variant: Variant, front: Child, { upstream, token, bundles }: GatewayBenchOptions): Promise<Gateway> {
  const bundle = bundles.get(variant.source)
  if (!bundle) throw new Error(`no bundle of ${variant.source}`)
  const services = { UPSTREAM_URL: upstream.url, UPSTASH_REDIS_REST_URL: front.url, UPSTASH_REDIS_REST_TOKEN: token }
  return startGateway(bundle, { bindings: { ...services, ...variant.bindings } })
}

async function run(cell: Cell, { redis, fronts, seconds }: GatewayBenchOptions): Promise<Cell['runs'][number]> {
  const { variant, callers, restLatencyMs, gateway, runs } = cell
  const front = fronts.get(restLatencyMs) as Child
  const name = `${crypto.randomUUID().slice(0, 8)}-${runs.length}`
  const target = { url: gateway.url, name, callers }
  await redis.flushAll()
  // Also brings a flood's callers to their limits.
  await load({ ...target, seconds: Math.ceil(seconds / 3) })
  const callsBefore = await settledCalls(front)
  await resetCounts(redis)
  const processorBeforeUs = processorUs(gateway.pid)
  const result = await load({ ...target, seconds })
  const processor = processorUs(gateway.pid) - processorBeforeUs
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

/** REST calls so far, once those that a load left behind have come to their end. */
async function settledCalls(front: Child): Promise<number> {
  let calls = await front.ask<number>('requests')
  for (let attempt = 0; attempt < 20; attempt++) {
    await setTimeout(100)
    const now = await front.ask<number>('requests')
    if (now === calls) return now
    calls = now
  }
  throw new Error('Redis is called without end')
}
