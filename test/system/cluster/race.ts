import { sleep } from '../../../src/core/runtime/sleep.ts'
import { type AnyRedis, createLimiter, redisStore, slidingWindow } from '../../../src/index.ts'
import type { ClusterNode, RedisCluster } from '../../support/redis-cluster.ts'
import type { Admission } from '../../support/windows.ts'
import { readAdmissions } from '../kit/streams.ts'

/** Policies by name: each counts by an identity of its own. */
export const LIMITS = { caller: 20, tenant: 40, all: 60 } as const
export const WINDOW_MS = 500
export const TIMEOUT_MS = 20_000
const CALLERS = 12
const TENANTS = 3

export interface RaceOptions {
  readonly cluster: RedisCluster
  /** Each stands for a process. */
  readonly clients: readonly AnyRedis[]
  readonly policies: readonly (keyof typeof LIMITS)[]
  /** Requests of each process that are decided at once. */
  readonly concurrency: number
  readonly durationMs: number
  /** Mean pause of a caller between two requests. */
  readonly pauseMs: number
}

export interface Race {
  readonly decisions: number
  readonly granted: number
  /** All that each stream has admitted, by key. */
  readonly streams: ReadonlyMap<string, readonly Admission[]>
  /** Units that were charged for requests that were refused, of each policy. */
  readonly lost: Readonly<Record<string, number>>
}

/** Presses against shared limits from all sides, without a refusal cache: each request is decided by the cluster. */
export async function race(options: RaceOptions): Promise<Race> {
  const { cluster, clients, policies, concurrency, durationMs, pauseMs } = options
  const keyPrefix = crypto.randomUUID()
  let [decisions, granted] = [0, 0]
  const endMs = performance.now() + durationMs
  const press = async (client: AnyRedis, first: number) => {
    const limiter = createLimiter({
      keyPrefix,
      store: redisStore(client, { timeoutMs: TIMEOUT_MS }),
      // The second limit keeps every entry until the end.
      policies: policies.map((name) => ({ name, ...slidingWindow(`${LIMITS[name]}/${WINDOW_MS}ms, 100000/1h`) })),
      refusalCache: false,
    })
    for (let n = first; performance.now() < endMs; n++) {
      const identities = { caller: `${n % CALLERS}`, tenant: `${n % TENANTS}`, all: 'everybody' }
      const decision = await limiter.take(Object.fromEntries(policies.map((name) => [name, identities[name]])))
      if (decision.degraded) throw new Error('the cluster has not decided')
      decisions++
      if (decision.granted) granted++
      if (pauseMs > 0) await sleep(2 * pauseMs * Math.random())
    }
  }
  await Promise.all(
    clients.flatMap((client, process) => Array.from({ length: concurrency }, (_, n) => press(client, 7 * process + n))),
  )
  const streams = await readStreams(cluster.masters, keyPrefix)
  const countUnits = (name: string) => {
    const own = [...streams].filter(([key]) => key.startsWith(`${keyPrefix}:${name}:`))
    return own.flatMap(([, admissions]) => admissions).reduce((sum, { cost }) => sum + cost, 0)
  }
  return {
    decisions,
    granted,
    streams,
    lost: Object.fromEntries(policies.map((name) => [name, countUnits(name) - granted])),
  }
}

/** Reads everything that was admitted under a prefix from those of the nodes that are masters. */
export async function readStreams(nodes: readonly ClusterNode[], keyPrefix: string): Promise<Map<string, Admission[]>> {
  const streams = new Map<string, Admission[]>()
  for (const { send } of nodes) {
    const [role] = (await send(['ROLE'])) as [string]
    const keys = role === 'master' ? ((await send(['KEYS', `${keyPrefix}:*`])) as string[]) : []
    for (const key of keys) streams.set(key, await readAdmissions(send, key))
  }
  return streams
}
