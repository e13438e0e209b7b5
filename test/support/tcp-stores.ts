import { Redis } from 'ioredis'
import { inject } from 'vitest'
import { joinCounters } from '../../src/core/engine/join-backends.ts'
import type { StatisticsStore } from '../../src/core/store/counters.ts'
import type { DocumentStore } from '../../src/core/store/documents.ts'
import { RedisCounters } from '../../src/core/store/redis/counters/redis-counters.ts'
import { RedisDocuments } from '../../src/core/store/redis/documents/redis-documents.ts'
import { adaptIoRedis, adaptNodeRedis } from '../../src/core/store/redis/tcp-clients.ts'
import { redisStore } from '../../src/library/stores.ts'
import { EVERY_ALGORITHM } from './charges.ts'
import { connectRedis } from './redis-client.ts'
import { realTimeSubject, type Subject } from './subject.ts'

const nodeRedis = await connectRedis(inject('redisPort'))
const others = await Promise.all([1, 2].map((database) => connectRedis(inject('redisPort'), database)))
const ioRedis = new Redis(inject('redisPort'), '127.0.0.1', { autoResendUnfulfilledCommands: false })

// They live as long as the worker, which runs several suites; a test must not wait for them.
for (const client of [nodeRedis, ...others]) client.unref()
ioRedis.on('connect', () => ioRedis.stream.unref())

export const STORES: Record<string, () => Subject> = {
  '@redis/client': () => realTimeSubject(redisStore(nodeRedis, { timeoutMs: 60_000 }).open(EVERY_ALGORITHM)),
  ioredis: () => realTimeSubject(redisStore(ioRedis, { timeoutMs: 60_000 }).open(EVERY_ALGORITHM)),
  'several databases': () => {
    const clients = [...others, ioRedis]
    const shards = clients.map((client, at) => ({ name: `${at}`, client }))
    return realTimeSubject(redisStore(shards, { timeoutMs: 60_000 }).open(EVERY_ALGORITHM))
  },
}

export const DOCUMENTS: Record<string, (key: string) => DocumentStore> = {
  '@redis/client': (key) => new RedisDocuments({ client: adaptNodeRedis(nodeRedis), key, timeoutMs: 60_000 }),
  ioredis: (key) => new RedisDocuments({ client: adaptIoRedis(ioRedis), key, timeoutMs: 60_000 }),
}

export const COUNTERS: Record<string, (keyPrefix: string) => StatisticsStore> = {
  '@redis/client': (keyPrefix) =>
    new RedisCounters({ client: adaptNodeRedis(nodeRedis), keyPrefix, timeoutMs: 60_000 }),
  ioredis: (keyPrefix) => new RedisCounters({ client: adaptIoRedis(ioRedis), keyPrefix, timeoutMs: 60_000 }),
  'several databases': (keyPrefix) =>
    joinCounters(
      [nodeRedis, ...others].map((redis, at) => {
        const counters = new RedisCounters({ client: adaptNodeRedis(redis), keyPrefix, timeoutMs: 60_000 })
        return { name: `${at}`, counters }
      }),
    ),
}
