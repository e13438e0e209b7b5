import { afterAll, afterEach, beforeAll, beforeEach, inject } from 'vitest'
import { type RedisServer, startRedisServer } from '../../tools/redis-server.ts'
import { connectRedis, type RedisClient, readCommandStats } from './redis-client.ts'
import { share } from './share.ts'

export interface OwnRedis {
  readonly client: RedisClient
  readonly port: number
  /**
   * Number of times that each command was run by this work, those inside of scripts one by one. What Redis itself has
   * counted is what Upstash bills.
   */
  billed(work: () => Promise<unknown>): Promise<Record<string, number>>
}

/**
 * A Redis that a file of tests has for itself, from the first of them to the last. Each test has a connection of its own,
 * which ends with it: one that ran out of time cannot go on beside the next.
 */
export function ownRedis(): OwnRedis {
  let server: RedisServer
  let client: RedisClient
  beforeAll(async () => {
    server = await startRedisServer()
  })
  beforeEach(async () => {
    client = await connectRedis(server.port)
  })
  afterEach(() => client.destroy())
  afterAll(() => server.stop())
  return {
    get client() {
      return client
    },
    get port() {
      return server.port
    },
    async billed(work) {
      await client.sendCommand(['CONFIG', 'RESETSTAT'])
      await work()
      const stats = await readCommandStats(client)
      const own = stats.filter(({ name }) => name !== 'config|resetstat')
      return Object.fromEntries(own.map(({ name, calls }) => [name, calls]))
    },
  }
}

/** A connection to the Redis of all tests, for the tests of one file. */
export function shareRedis(): RedisClient {
  return share(
    () => connectRedis(inject('redisPort')),
    (client) => client.close(),
  )
}

export function total(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((sum, calls) => sum + calls, 0)
}
