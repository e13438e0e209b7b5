/** Measures the cost of a request from one hot caller through each gateway. */
import { setTimeout } from 'node:timers/promises'
import type { DirectGateway } from '../../test/support/direct-gateway.ts'
import { readCounts, resetCounts } from '../command-counts.ts'
import type { Service } from '../services.ts'
import type { Site } from '../site.ts'
import { summarizeRows } from '../statistics.ts'
import type { Variant } from './variants.ts'
import { load } from './wrk.ts'

export const HOT = 1
const WARM_UP_S = 1

export interface GatewayFigures {
  readonly variant: string
  /** The answers of Redis come later by this. */
  readonly latencyMs: number
  readonly requestsPerSecond: number
  readonly p50Ms: number
  /** HTTP requests to Redis's REST front per request of a client. */
  readonly restCalls: number
  /** Redis commands, as Upstash bills them, per request of a client. */
  readonly billed: number
}

export interface GatewayBenchOptions {
  readonly site: Site
  readonly latenciesMs: readonly number[]
  readonly variants: readonly Variant[]
  readonly repetitions: number
  /** Time for which each load is measured, after one of a second that is not. */
  readonly seconds: number
}

interface Cell {
  readonly variant: Variant
  readonly latencyMs: number
  readonly runs: Omit<GatewayFigures, 'variant' | 'latencyMs'>[]
}

/**
 * Loads every gateway in turns, each with the whole machine to itself for the time, and each time in a new process: two
 * processes of the same gateway can differ for as long as they live.
 */
export async function measureGateways(options: GatewayBenchOptions): Promise<GatewayFigures[]> {
  // Variants that are compared run right after each other.
  const cells = options.latenciesMs.flatMap((latencyMs) =>
    options.variants.map((variant): Cell => ({ variant, latencyMs, runs: [] })),
  )
  for (let turn = 0; turn < options.repetitions; turn++) {
    for (const cell of cells) {
      await using gateway = await options.site.startGateway(cell.variant, { latencyMs: cell.latencyMs })
      cell.runs.push(await measure(cell, gateway, options))
    }
  }
  return cells.map(({ variant, latencyMs, runs }) => ({ variant: variant.name, latencyMs, ...summarizeRows(runs) }))
}

async function measure(
  { variant, latencyMs }: Cell,
  gateway: DirectGateway,
  { site, seconds }: GatewayBenchOptions,
): Promise<Cell['runs'][number]> {
  const { redis } = site
  const front = await site.findFront(latencyMs)
  const target = { url: gateway.url.origin, name: crypto.randomUUID().slice(0, 8), callers: HOT }
  await redis.flushAll()
  // Compiles what is hot, and brings a flood's callers to their limits.
  await load({ ...target, seconds: WARM_UP_S })
  const callsBefore = await countSettledCalls(front)
  await resetCounts(redis)
  const { requests, sent, requestsPerSecond, p50Ms, refused, failed } = await load({ ...target, seconds })
  const restCalls = (await countSettledCalls(front)) - callsBefore
  const { billed } = await readCounts(redis)
  if (failed > 0) throw new Error(`${variant.name}: ${failed} of ${requests} requests failed`)
  if (!variant.isFlooded && refused > 0) throw new Error(`${variant.name} refused ${refused} of ${requests} requests`)
  return { requestsPerSecond, p50Ms, restCalls: restCalls / sent, billed: billed / sent }
}

/** Counts REST calls so far, once those that a load left behind have ended. */
async function countSettledCalls(front: Service): Promise<number> {
  let calls = await front.ask<number>('requests')
  for (let attempt = 0; attempt < 20; attempt++) {
    await setTimeout(100)
    const now = await front.ask<number>('requests')
    if (now === calls) return now
    calls = now
  }
  throw new Error('Redis is called without end')
}
