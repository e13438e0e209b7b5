import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { KEPT_VERSIONS } from '../../src/store/documents.ts'
import { nodeRedisClient } from '../../src/store/redis/clients/node-redis.ts'
import { RedisDocuments } from '../../src/store/redis/documents/redis-documents.ts'
import { type RedisServer, startRedisServer } from '../../tools/redis-server.ts'
import { connectRedis, type RedisClient } from '../support/script-store.ts'

// Upstash bills every command, those inside of a script one by one. What Redis itself has counted is what is billed.

let server: RedisServer
let redis: RedisClient
let documents: RedisDocuments

beforeAll(async () => {
  server = await startRedisServer()
  redis = await connectRedis(server.port)
  documents = new RedisDocuments({ client: nodeRedisClient(redis), key: `${randomUUID()}:rules`, timeoutMs: 60_000 })
  // So that the scripts are known.
  for (let version = 0; version < KEPT_VERSIONS; version++) await write(version)
  await documents.read()
  await documents.readVersion(1)
  await documents.history()
})

afterAll(async () => {
  await redis.close()
  await server.stop()
})

function write(expectedVersion: number) {
  return documents.write({ text: '{}', expectedVersion, by: 'test', why: 'test' })
}

async function billed(work: () => Promise<unknown>): Promise<Record<string, number>> {
  await redis.sendCommand(['CONFIG', 'RESETSTAT'])
  await work()
  const stats = await redis.info('commandstats')
  const counts = [...stats.matchAll(/^cmdstat_(\S+?):calls=(\d+)/gm)]
    .filter(([, command]) => command !== 'config|resetstat')
    .map(([, command, calls]) => [command, Number(calls)])
  return Object.fromEntries(counts)
}

test('to find out that the rules are the same takes two commands, to read others three', async () => {
  expect(await billed(() => documents.read(KEPT_VERSIONS))).toEqual({ evalsha: 1, hget: 1 })
  expect(await billed(() => documents.read(KEPT_VERSIONS - 1))).toEqual({ evalsha: 1, hget: 1, hmget: 1 })
})

test('what operators do takes a few', async () => {
  expect(await billed(() => documents.readVersion(3))).toEqual({ evalsha: 1, hmget: 1 })
  expect(await billed(() => documents.history())).toEqual({ evalsha: 1, hget: 1, hmget: 1 })
  expect(await billed(() => write(KEPT_VERSIONS))).toEqual({ evalsha: 1, hget: 1, time: 1, hset: 1, hdel: 1 })
  expect(await billed(() => write(0))).toEqual({ evalsha: 1, hget: 1 })
})
