/** Measures what gateways add to the latency of a request. */
import type { Site } from '../site.ts'
import { type Spread, summarize } from '../statistics.ts'
import { BARE_PROXY, PLAIN, TWO_CALLS, UPSTASH_PLAIN, type Variant } from './variants.ts'
import { load } from './wrk.ts'

const LATENCIES_MS = [0, 5, 20]
/** Each waits for its answer before it sends the next request. */
const CONNECTIONS = [1, 16, 64, 256]
/** The first adds one round trip, and nothing else. */
const VARIANTS = [TWO_CALLS, UPSTASH_PLAIN, PLAIN]
const WARM_UP_S = 1
const SLICE_S = 1

/** Milliseconds that a gateway adds to those of a proxy without a limiter. */
export interface AddedFigures {
  readonly variant: string
  /** The answers of Redis come later by this. */
  readonly latencyMs: number
  readonly connections: number
  readonly p50Ms: Spread
  readonly p99Ms: Spread
}

interface Latency {
  readonly connections: number
  readonly p50Ms: number
  readonly p99Ms: number
}

/** Loads one gateway after the other, with the machine to itself, in each turn in a new process. */
export async function measureAdded({ site, turns }: { site: Site; turns: number }): Promise<AddedFigures[]> {
  const kinds = LATENCIES_MS.flatMap((latencyMs) => VARIANTS.map((variant) => ({ variant, latencyMs })))
  const rows: (Latency & { readonly variant: string; readonly latencyMs: number })[] = []
  for (let turn = 0; turn < turns; turn++) {
    const bare = await measureLatencies(BARE_PROXY, 0, site)
    for (const { variant, latencyMs } of kinds) {
      for (const [at, latency] of (await measureLatencies(variant, latencyMs, site)).entries()) {
        const { p50Ms, p99Ms } = bare[at] as Latency
        const added = { ...latency, p50Ms: latency.p50Ms - p50Ms, p99Ms: latency.p99Ms - p99Ms }
        rows.push({ variant: variant.name, latencyMs, ...added })
      }
    }
  }
  const cells = Map.groupBy(rows, ({ variant, latencyMs, connections }) => [variant, latencyMs, connections].join())
  return [...cells.values()].map((own) => ({
    ...(own[0] as (typeof rows)[number]),
    p50Ms: summarize(own.map(({ p50Ms }) => p50Ms)),
    p99Ms: summarize(own.map(({ p99Ms }) => p99Ms)),
  }))
}

async function measureLatencies(variant: Variant, latencyMs: number, site: Site): Promise<Latency[]> {
  await using gateway = await site.startGateway(variant, { latencyMs })
  const target = { url: gateway.url.origin, name: crypto.randomUUID().slice(0, 8), callers: 1 }
  // Compiles what is hot.
  await load({ ...target, seconds: WARM_UP_S })
  const latencies: Latency[] = []
  for (const connections of CONNECTIONS) {
    const { p50Ms, p99Ms, refused, failed } = await load({ ...target, seconds: SLICE_S, connections })
    if (refused + failed > 0) throw new Error(`${variant.name}: ${refused + failed} requests were refused or failed`)
    latencies.push({ connections, p50Ms, p99Ms })
  }
  return latencies
}
