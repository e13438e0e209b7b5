import { Redis } from 'ioredis'
import { inject } from 'vitest'
import { RedisCounters } from '../../src/store/redis/counters/redis-counters.ts'
import { ioRedisClient, nodeRedisClient } from '../../src/store/redis/tcp-clients.ts'
import type { CountersOf } from './counters.ts'
import { connectRedis } from './script-store.ts'

const nodeRedis = await connectRedis(inject('redisPort'))
const ioRedis = new Redis(inject('redisPort'), '127.0.0.1', { autoResendUnfulfilledCommands: false })

// They live as long as the worker, which runs several suites; a test must not wait for them.
nodeRedis.unref()
ioRedis.on('connect', () => ioRedis.stream.unref())

export const TCP_COUNTERS: Record<string, CountersOf> = {
  '@redis/client': (keyPrefix) =>
    new RedisCounters({ client: nodeRedisClient(nodeRedis), keyPrefix, timeoutMs: 60_000 }),
  ioredis: (keyPrefix) => new RedisCounters({ client: ioRedisClient(ioRedis), keyPrefix, timeoutMs: 60_000 }),
}
