/** Isolates of one data center share the rules through Cloudflare's Cache API, as Miniflare has it. */
import { randomUUID } from 'node:crypto'
import { expect, inject, onTestFinished, test } from 'vitest'
import { RedisDocuments } from '../../src/core/store/redis/documents/redis-documents.ts'
import { adaptNodeRedis } from '../../src/core/store/redis/tcp-clients.ts'
import { withEntry } from '../../src/gateway/rules/edit-rules.ts'
import { startRedisServer } from '../../tools/redis-server.ts'
import { startRestFront } from '../../tools/rest-front.ts'
import { editRules } from '../support/edit-rules.ts'
import { send } from '../support/http-client.ts'
import { startObjectSite } from '../support/object-site.ts'
import { connectRedis } from '../support/redis-client.ts'

const NETWORK = '192.0.2.0/24'

test('a new isolate blocks by the copy of another one while the store is away', async () => {
  const prefix = randomUUID()
  const server = await startRedisServer()
  onTestFinished(() => server.stop())
  const redis = await connectRedis(server.port)
  const front = await startRestFront({ redisPort: server.port, token: 'e2e' })
  const documents = new RedisDocuments({ client: adaptNodeRedis(redis), key: `${prefix}:rules`, timeoutMs: 60_000 })
  await editRules(documents, (rules) => withEntry('blocks', rules, { cidr: NETWORK }))
  redis.destroy()
  const store = { UPSTASH_REDIS_REST_URL: front.url, UPSTASH_REDIS_REST_TOKEN: front.token, KEY_PREFIX: prefix }
  const rules = { RULES: 'on', RULES_REFRESH_MS: 60_000, ON_STORE_ERROR: 'local' }
  const site = await startObjectSite({ bundle: inject('bundle'), variables: { ...store, ...rules }, points: 6 })
  onTestFinished(() => site.stop())
  const call = async (at: number) => {
    const headers = { Host: 'gateway.test', 'CF-Connecting-IP': '192.0.2.7' }
    return (await send(site.urls[at] as URL, { headers })).status
  }
  expect(await call(0)).toBe(403)
  await front.stop()
  // It is put there after the answer; whoever comes before that has no rules.
  let next = 0
  await expect.poll(() => call(++next)).toBe(403)
})
