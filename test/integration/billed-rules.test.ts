import { randomUUID } from 'node:crypto'
import { beforeEach, expect, test } from 'vitest'
import { KEPT_VERSIONS, NO_DOCUMENT } from '../../src/core/store/documents.ts'
import { RedisDocuments } from '../../src/core/store/redis/documents/redis-documents.ts'
import { adaptNodeRedis } from '../../src/core/store/redis/tcp-clients.ts'
import { ownRedis } from '../support/own-redis.ts'

// Upstash bills every command, those inside of a script one by one. What Redis itself has counted is what is billed.

const redis = ownRedis()
let documents: RedisDocuments

beforeEach(async () => {
  const client = adaptNodeRedis(redis.client)
  documents = new RedisDocuments({ client, key: `${randomUUID()}:rules`, timeoutMs: 60_000 })
  // So that the scripts are known.
  for (let version = 0; version < KEPT_VERSIONS; version++) await write(version)
  await documents.read()
  await documents.readVersion(1)
  await documents.readHistory()
})

function write(expectedVersion: number) {
  return documents.write({ text: '{}', expectedVersion, actor: 'test', comment: 'test' })
}

test('to find out that the rules are the same takes two commands, to read others three', async () => {
  const newest = await documents.read()
  expect(await redis.billed(() => documents.read(newest))).toEqual({ evalsha: 1, hmget: 1 })
  expect(await redis.billed(() => documents.read(NO_DOCUMENT))).toEqual({ evalsha: 1, hmget: 2 })
})

test('what operators do takes a few', async () => {
  expect(await redis.billed(() => documents.readVersion(3))).toEqual({ evalsha: 1, hmget: 1 })
  expect(await redis.billed(() => documents.readHistory())).toEqual({ evalsha: 1, hget: 1, hmget: 1 })
  expect(await redis.billed(() => write(KEPT_VERSIONS))).toEqual({ evalsha: 1, hmget: 1, time: 1, hset: 1, hdel: 1 })
  expect(await redis.billed(() => write(0))).toEqual({ evalsha: 1, hmget: 1 })
})
