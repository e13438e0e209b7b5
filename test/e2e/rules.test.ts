import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest'
import { createDigest } from '../../src/core/runtime/digest.ts'
import { RedisDocuments } from '../../src/core/store/redis/documents/redis-documents.ts'
import { adaptNodeRedis } from '../../src/core/store/redis/tcp-clients.ts'
import type { Rules } from '../../src/gateway/rules/document.ts'
import { withEntry } from '../../src/gateway/rules/edit-rules.ts'
import { type RedisServer, startRedisServer } from '../../tools/redis-server.ts'
import { type RestFront, startRestFront } from '../../tools/rest-front.ts'
import { type DirectGateway, startDirectGateway } from '../support/direct-gateway.ts'
import { editRules } from '../support/edit-rules.ts'
import { untilConclusive } from '../support/inconclusive.ts'
import { connectRedis, type RedisClient } from '../support/redis-client.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'

const SECRET = 'a secret for tests only'
const ADDRESS = { 'CF-Connecting-IP': '127.0.0.1' }
const digest = createDigest(SECRET)

let upstream: Upstream
/** Requests that came to it. */
let served = 0
let server: RedisServer
let redis: RedisClient
let front: RestFront
let prefix: string
const points: DirectGateway[] = []

beforeAll(async () => {
  upstream = await startUpstream((request, response) => {
    served++
    if (request.method === 'POST') request.pipe(response)
    else response.end('hello')
  })
  server = await startRedisServer()
  redis = await connectRedis(server.port)
  front = await startRestFront({ redisPort: server.port, token: 'e2e' })
})

beforeEach(async () => {
  await Promise.all(points.splice(0).map((point) => point.stop()))
  prefix = randomUUID()
})

afterAll(async () => {
  await Promise.all(points.map((point) => point.stop()))
  redis.destroy()
  await Promise.all([front.stop(), upstream.stop()])
  await server.stop()
})

async function startPoints(count: number, bindings: Record<string, unknown>): Promise<void> {
  const all = {
    UPSTREAM_URL: upstream.url,
    UPSTASH_REDIS_REST_URL: front.url,
    UPSTASH_REDIS_REST_TOKEN: front.token,
    IDENTITY_SECRET: SECRET,
    KEY_PREFIX: prefix,
    // A slow machine is no reason to count on one's own.
    STORE_TIMEOUT_MS: 30_000,
    RULES: 'on',
    ...bindings,
  }
  const start = () => startDirectGateway({ bundle: inject('bundle'), bindings: all })
  points.push(...(await Promise.all(Array.from({ length: count }, start))))
}

/** As the command and the API for operators do it. */
async function edit(change: (rules: Rules) => Rules): Promise<void> {
  const client = adaptNodeRedis(redis)
  const documents = new RedisDocuments({ client, key: `${prefix}:rules`, timeoutMs: 60_000 })
  expect(await editRules(documents, change)).toMatchObject({ changed: true })
}

function call(token: string, point = points[0]): Promise<Response> {
  return fetch(new URL('/things', point?.url), { headers: { ...ADDRESS, Authorization: `Bearer ${token}` } })
}

async function statuses(token: string, count: number): Promise<number[]> {
  const all: number[] = []
  for (let n = 0; n < count; n++) all.push((await call(token)).status)
  return all
}

const createCaller = (token: string) => ({ by: 'token', digest: digest(['token', token]) })

test(
  'four points of presence block a caller within twice the refresh, without an error, and go on when Redis is killed',
  {
    tags: ['slow'],
  },
  (context) =>
    // A busy machine may not even have queried in time.
    untilConclusive(context, [500, 2_000, 8_000], async (refreshMs) => {
      await Promise.all(points.splice(0).map((point) => point.stop()))
      await startPoints(4, { RATE_LIMITS: '100000/1m', RULES_REFRESH_MS: refreshMs, ON_STORE_ERROR: 'local' })
      const [victim, other] = [randomUUID(), randomUUID()]
      let penaltyMs = Number.POSITIVE_INFINITY
      let late = 0
      const seen = { victim: new Set<number>(), other: new Set<number>() }

      /** One client beside the others, until a request sent in good time after the block is refused. */
      const visit = async (point: DirectGateway) => {
        for (;;) {
          const sentMs = Date.now()
          const [status = 0, otherStatus = 0] = (await Promise.all([call(victim, point), call(other, point)])).map(
            (response) => response.status,
          )
          seen.victim.add(status)
          seen.other.add(otherStatus)
          if (sentMs < penaltyMs + 2 * refreshMs) continue
          if (status === 403) return
          late++
          expect(sentMs - penaltyMs).toBeLessThan(20 * refreshMs)
        }
      }
      const visits = points.map(visit)
      await edit((rules) => withEntry('blocks', rules, { ...createCaller(victim), reason: 'leaked' }))
      penaltyMs = Date.now()
      await Promise.all(visits)
      expect([...seen.other]).toEqual([200])
      expect([...seen.victim].filter((status) => status !== 200 && status !== 403)).toEqual([])

      redis.destroy()
      await server.stop()
      for (let i = 0; i < 20; i++) {
        const all = points.flatMap((point) => [call(victim, point), call(other, point)])
        expect((await Promise.all(all)).map(({ status }) => status)).toEqual(points.flatMap(() => [403, 200]))
      }
      server = await startRedisServer({ port: server.port })
      redis = await connectRedis(server.port)
      return late === 0 ? undefined : `${late} requests were admitted later than twice ${refreshMs} ms after the block`
    }),
)

test('a blocked caller gets the reason, without a call to Redis or to the API', async () => {
  const token = randomUUID()
  await edit((rules) =>
    withEntry('blocks', rules, { ...createCaller(token), status: 451, reason: 'as the law demands' }),
  )
  await startPoints(1, { RULES_REFRESH_MS: 3_600_000 })
  await call(randomUUID())
  const [before, requested] = [front.requests, served]
  const response = await call(token)
  expect([response.status, response.headers.get('Content-Type'), response.headers.get('Cache-Control')]).toEqual([
    ...[451, 'application/problem+json', 'no-store'],
  ])
  expect(await response.json()).toEqual({
    ...{
      type: '/_sluice/errors#blocked',
      title: 'Blocked',
      status: 451,
      detail: 'as the law demands',
      code: 'blocked',
    },
  })
  expect(await statuses(token, 5)).toEqual([451, 451, 451, 451, 451])
  expect([front.requests, served]).toEqual([before, requested])
  expect((await fetch(new URL('/_sluice/health', points[0]?.url))).status).toBe(200)
})

test('a caller blocked by its token does not get in by sending something alongside it', async () => {
  const token = randomUUID()
  await edit((rules) => withEntry('blocks', rules, createCaller(token)))
  await startPoints(1, { RULES_REFRESH_MS: 3_600_000 })
  const alongside = [`${token} x`, `x ${token}`, `x, Bearer ${token}`, `${token}, Bearer x`]
  const asRailsReadsIt = [`${token};1`, `;${token}`, `"${token}"`, `token="${token}"`, `token=${token};n="1"`]
  for (const text of [...alongside, ...asRailsReadsIt]) expect((await call(text)).status).toBe(403)
  expect((await call(`${randomUUID()} x`)).status).toBe(200)
})

test('an address in a network is blocked, also for what is exempt, and one that is allowed is never limited', async () => {
  await edit((rules) => withEntry('blocks', withEntry('allows', rules, createCaller('vip')), { cidr: '0.0.0.0/1' }))
  await startPoints(1, { RATE_LIMITS: '2/1m', EXEMPT: 'GET /healthz', RULES_REFRESH_MS: 3_600_000 })
  const health = await fetch(new URL('/healthz', points[0]?.url), { headers: ADDRESS })
  expect([health.status, (await call('anyone')).status]).toEqual([403, 403])
  expect(await statuses('vip', 4)).toEqual([200, 200, 200, 200])
  const response = await call('vip')
  expect([response.status, response.headers.get('RateLimit')]).toEqual([200, null])
})

test("a customer's limit is raised, and policies are replaced by others of another algorithm, without a deploy", async () => {
  await startPoints(1, { RATE_LIMITS: 'off', POLICIES: [{ name: 'api', limits: '2/1h' }], RULES_REFRESH_MS: 100 })
  const [customer, other] = [randomUUID(), randomUUID()]
  expect(await statuses(customer, 3)).toEqual([200, 200, 429])
  await edit((rules) => withEntry('overrides', rules, { ...createCaller(customer), limits: { api: '5/1h' } }))
  // Refusals are remembered, but not for limits that were raised.
  await expect.poll(async () => (await call(customer)).status).toBe(200)
  expect(await statuses(customer, 3)).toEqual([200, 200, 429])
  expect(await statuses(other, 3)).toEqual([200, 200, 429])

  const tables = [{ name: 'bucket', limits: '3/1h', algorithm: 'token-bucket' }]
  await edit((rules) => ({ ...rules, overrides: [], policies: tables }))
  await expect.poll(async () => (await call(other)).headers.get('RateLimit-Policy')).toContain('bucket-1h')
  expect((await redis.keys(`${prefix}:*`)).some((key) => key.startsWith(`${prefix}:bucket:t:`))).toBe(true)
})

test('pushed policies in shadow mode refuse nothing, are in no header, and leave the body to the API', async () => {
  const policies = [
    { name: 'account', limits: '1/1h', by: 'json:/email', mode: 'shadow' },
    { name: 'slots', limits: '1', algorithm: 'concurrency', mode: 'shadow' },
  ]
  await edit((rules) => ({ ...rules, policies }))
  await startPoints(1, { RATE_LIMITS: '100/1m', LEASES: '10', RULES_REFRESH_MS: 3_600_000 })
  const body = JSON.stringify({ email: 'a@example.com', filling: 'x'.repeat(100_000) })
  for (let n = 0; n < 12; n++) {
    const headers = { Authorization: 'Bearer one', 'Content-Type': 'application/json' }
    const response = await fetch(new URL('/login', points[0]?.url), { method: 'POST', headers, body })
    expect([response.status, (await response.text()) === body]).toEqual([200, true])
    expect(response.headers.get('RateLimit-Policy')).toBe('"default-1m";q=100;w=60')
  }
  const line = points[0]?.log.find((each) => each.includes('"shadow_limited"')) ?? '{}'
  expect(JSON.parse(line)).toMatchObject({ violated: ['account-1h'], callers: { account: expect.any(String) } })
  const [key = ''] = await redis.keys(`${prefix}:account:w:{*`)
  expect(await redis.pTTL(key)).toBeGreaterThan(0)
})

test('rules are read once for all requests within the refresh', async () => {
  await startPoints(1, { RULES_REFRESH_MS: 3_600_000 })
  const before = front.requests
  expect(await statuses(randomUUID(), 10)).toEqual(Array.from({ length: 10 }, () => 200))
  // The script is not known at first, and what reads the rules neither.
  expect(front.requests - before).toBeLessThanOrEqual(10 + 1 + 2 * 2)
  const warm = front.requests
  await statuses(randomUUID(), 10)
  expect(front.requests - warm).toBe(10)
})
