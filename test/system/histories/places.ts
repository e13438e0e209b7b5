/** The real stores whose histories are recorded, each with a fault of its own. */

import { withHashSlots } from '../../../src/core/engine/places/hash-slots.ts'
import type { AlgorithmName } from '../../../src/core/model/limits.ts'
import type { Store } from '../../../src/core/model/store.ts'
import { readLatestMs } from '../../../src/core/runtime/clocks.ts'
import { sleep } from '../../../src/core/runtime/sleep.ts'
import { DurableObjectStore } from '../../../src/core/store/durable-object/durable-object-store.ts'
import { openObjects } from '../../../src/core/store/durable-object/objects.ts'
import { MemoryStore } from '../../../src/core/store/memory/memory-store.ts'
import { LUA } from '../../../src/core/store/redis/more-lua.ts'
import { RedisStore } from '../../../src/core/store/redis/redis-store.ts'
import { adaptNodeRedis } from '../../../src/core/store/redis/tcp-clients.ts'
import { startRedisServer } from '../../../tools/redis-server.ts'
import type { Bundle } from '../../support/build-bundle.ts'
import { EVERY_ALGORITHM } from '../../support/charges.ts'
import { startObjectSite } from '../../support/object-site.ts'
import { timeCalls } from '../../support/recorded-store.ts'
import { connectRedis } from '../../support/redis-client.ts'
import { startRedisCluster } from '../../support/redis-cluster.ts'
import { connectNodeCluster } from '../cluster/clients.ts'

export interface Place {
  readonly store: Store
  readonly algorithms: readonly AlgorithmName[]
  /** Whether a decision over several keys is one step. */
  readonly isWhole: boolean
  /** Breaks something, and mends it. */
  disturb?(): Promise<unknown>
  stop(): Promise<unknown>
}

export const PLACE_NAMES = ['memory', 'redis', 'cluster', 'durable-object'] as const
export type PlaceName = (typeof PLACE_NAMES)[number]

/** Slots are left out: the answer to a release tells no time. */
const ALGORITHMS = EVERY_ALGORITHM.filter((name) => name !== 'concurrency')
const TIMEOUT_MS = 5_000
/** For so long, a node of the cluster runs what it is sent, and its answers are lost. */
const LOSSES_LAST_MS = 5
const LOST_ANSWERS = 0.005

/** @param random a number from 0 to below 1 */
export const OPEN_PLACE: Readonly<Record<PlaceName, (random: () => number, bundle: Bundle) => Promise<Place>>> = {
  memory: async () => {
    return { store: new MemoryStore(readLatestMs), algorithms: ALGORITHMS, isWhole: true, stop: async () => {} }
  },

  async redis(random) {
    const server = await startRedisServer()
    const connection = await connectRedis(server.port)
    const client = timeCalls(adaptNodeRedis(connection), () => random() < LOST_ANSWERS)
    return {
      store: new RedisStore({ client, algorithms: ALGORITHMS, moreLua: LUA, timeoutMs: TIMEOUT_MS }),
      algorithms: ALGORITHMS,
      isWhole: true,
      async stop() {
        connection.destroy()
        await server.stop()
      },
    }
  },

  async cluster(random) {
    const cluster = await startRedisCluster()
    const connection = await connectNodeCluster(cluster.ports)
    // What becomes of a bucket that was full depends on the microsecond, which a lost answer does not tell.
    const algorithms = ALGORITHMS.filter((name) => name !== 'token-bucket')
    const client = timeCalls(adaptNodeRedis(connection))
    const store = new RedisStore({ client, algorithms, moreLua: LUA, timeoutMs: TIMEOUT_MS })
    return {
      store: withHashSlots(store, { timeoutMs: TIMEOUT_MS, isCluster: true }),
      algorithms,
      isWhole: false,
      async disturb() {
        const node = cluster.masters[Math.floor(random() * cluster.masters.length)]
        node?.loseAnswers(true)
        await sleep(LOSSES_LAST_MS)
        node?.loseAnswers(false)
      },
      async stop() {
        connection.destroy()
        await cluster.stop()
      },
    }
  },

  async 'durable-object'(_random, bundle) {
    const site = await startObjectSite({ bundle, variables: { STORE: 'durable-object', POLICIES: '' }, points: 1 })
    return {
      store: new DurableObjectStore({ objects: openObjects(site.namespace), timeoutMs: TIMEOUT_MS }),
      algorithms: ALGORITHMS,
      isWhole: false,
      disturb: () => site.abort(),
      stop: () => site.stop(),
    }
  },
}
