/** What `sluice serve` takes for a decision by gRPC, and by its HTTP route: the same limits, one process, one Redis. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { DECIDE_TOKEN } from '../../test/support/decisions.ts'
import { writeDomains } from '../../test/support/rate-limit-client.ts'
import { type ServingProcess, startServing } from '../../test/support/serving-process.ts'
import { readRunUs } from '../processor-time.ts'
import { type Spread, summarize } from '../statistics.ts'
import { LIMITS, POLICY, type ServeLoad } from './load.ts'

/** A process serves in each, which the ways take in turns. */
const TURNS = 3
const WAYS = ['grpc', 'http'] as const
type Way = (typeof WAYS)[number]

const run = promisify(execFile)

export interface ServeFigures {
  readonly way: Way
  readonly perSecond: Spread
  readonly p50Ms: Spread
  readonly p99Ms: Spread
  /** Processor time of the process that serves, for a decision. */
  readonly processorUs: Spread
}

export async function measureServe(redisPort: number): Promise<ServeFigures[]> {
  const folder = writeDomains({ [POLICY]: [{ key: POLICY, rate_limit: { limits: LIMITS } }] })
  const env = {
    REDIS_URL: `redis://127.0.0.1:${redisPort}`,
    RATE_LIMITS: 'off',
    POLICIES: [{ name: POLICY, by: 'header:x-caller', limits: LIMITS }],
  }
  const loads: Readonly<Record<Way, (ServeLoad & { readonly us: number })[]>> = { grpc: [], http: [] }
  for (let turn = 0; turn < TURNS; turn++) {
    const serving = await startServing(env, ['--grpc', '0', '--ratelimit-config', folder])
    try {
      for (const way of turn % 2 === 0 ? WAYS : WAYS.toReversed()) {
        const beforeUs = readRunUs(serving.pid)
        const load = await sendLoad(way, serving)
        loads[way].push({ ...load, us: (readRunUs(serving.pid) - beforeUs) / load.decisions })
      }
    } finally {
      await serving.stop()
    }
  }
  return WAYS.map((way) => ({
    way,
    perSecond: summarize(loads[way].map(({ perSecond }) => perSecond)),
    p50Ms: summarize(loads[way].map(({ p50Ms }) => p50Ms)),
    p99Ms: summarize(loads[way].map(({ p99Ms }) => p99Ms)),
    processorUs: summarize(loads[way].map(({ us }) => us)),
  }))
}

async function sendLoad(way: Way, { grpc, url }: ServingProcess): Promise<ServeLoad> {
  const target = way === 'grpc' ? [grpc] : [url.origin, DECIDE_TOKEN]
  const { stdout } = await run(process.execPath, [join(import.meta.dirname, 'client.ts'), way, ...target])
  return JSON.parse(stdout)
}
