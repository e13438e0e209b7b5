/** Whoever reads answers, logs or keys learns no secret of the operator's, and no token or address of a caller's. */
import { afterEach, expect, inject, test, vi } from 'vitest'
import { PLANTED } from '../../setup/secret-watch.ts'
import { redisBindings } from '../../support/gateway.ts'
import { type Answer, json, send } from '../../support/http-client.ts'
import { connectRedis } from '../../support/redis-client.ts'
import { startOwnThreatenedGateway, type ThreatenedGateway } from '../../support/threatened-gateway.ts'
import { startUpstream } from '../../support/upstream.ts'

const ADDRESS = '203.0.113.99'
const TOKEN = `${PLANTED}-of-a-caller`
const HEADERS = { Authorization: `Bearer ${TOKEN}`, 'X-Key': TOKEN, 'CF-Connecting-IP': ADDRESS }
const PATH = `/?key=${TOKEN}`
const BY_CLAIM = { POLICIES: [{ name: 'users', limits: '5/1h', by: 'claim:sub' }] }

const reported: string[] = []
afterEach(() => {
  expect(reported.length).toBeGreaterThan(0)
  for (const text of reported.splice(0)) {
    expect(text).not.toContain(PLANTED)
    expect(text).not.toContain(ADDRESS)
  }
})

async function call(gateway: ThreatenedGateway, status: number, path = PATH): Promise<Answer> {
  const answer = await send(gateway.url, { path, headers: HEADERS })
  expect(answer.status).toBe(status)
  reported.push(`${answer.rawHeaders.join('\n')}\n${answer.body}`, gateway.log.join('\n'))
  return answer
}

/** Lines come after the answers that they are about. */
async function logged(gateway: ThreatenedGateway, event: string): Promise<void> {
  await vi.waitFor(() => expect(gateway.log.join()).toContain(event), { timeout: 60_000 })
  reported.push(gateway.log.join('\n'))
}

test('no secret is shown when requests are admitted and limited, nor kept in Redis', async () => {
  const bindings = redisBindings()
  const policies = ['token', 'ip', 'header:x-key', 'query:key', 'route'].map((by, i) => ({
    name: `p${i}`,
    limits: '1/1h',
    by,
  }))
  const gateway = await startOwnThreatenedGateway({ ...bindings, POLICIES: policies })
  await call(gateway, 200)
  await call(gateway, 429)
  const redis = await connectRedis(inject('redisPort'))
  const keys = await redis.keys(`${bindings.KEY_PREFIX}*`)
  expect(keys).toHaveLength(policies.length + 1)
  for (const key of keys) reported.push(key, JSON.stringify(await redis.xRange(key, '-', '+')))
  await redis.close()
})

test.each(['local', 'open', 'closed'])(
  'no secret is shown when Redis refuses its token, with ON_STORE_ERROR=%s',
  async (ON_STORE_ERROR) => {
    const gateway = await startOwnThreatenedGateway({
      ...redisBindings(),
      UPSTASH_REDIS_REST_TOKEN: `${PLANTED}-wrong`,
      ON_STORE_ERROR,
    })
    await call(gateway, ON_STORE_ERROR === 'closed' ? 503 : 200)
    await call(gateway, 200, '/_sluice/health')
    await logged(gateway, 'store_error')
  },
)

test.each([
  ['repeats what it was sent', 400],
  ['repeats what it was sent', 500],
  ['repeats what it was sent as a result', 200],
])('no secret is shown when Redis %s, with status %d', async (_, status) => {
  const front = await startUpstream((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (chunk) => {
      body += chunk
    })
    request.on('end', () => {
      const echo = `${request.headers.authorization} ${body}`
      response.writeHead(status, { 'Content-Type': 'application/json' })
      response.end(JSON.stringify(status === 200 ? { result: echo } : { error: `ERR ${echo}` }))
    })
  })
  const gateway = await startOwnThreatenedGateway({
    ...redisBindings(),
    UPSTASH_REDIS_REST_URL: front.url,
    ON_STORE_ERROR: 'local',
  })
  await call(gateway, 200)
  await call(gateway, 200, '/_sluice/health')
  await front.stop()
})

test('no secret is shown when nobody is at the other end', async () => {
  const nowhere = 'http://127.0.0.1:1'
  await call(await startOwnThreatenedGateway({ UPSTREAM_URL: nowhere }), 502)
  const gateway = await startOwnThreatenedGateway({
    ...redisBindings(),
    UPSTASH_REDIS_REST_URL: nowhere,
    ON_STORE_ERROR: 'closed',
  })
  await call(gateway, 503)
})

test.each([
  ['UPSTREAM_URL', { UPSTREAM_URL: `https://${PLANTED}:x@api.example.com` }],
  ['UPSTREAM_URL', { UPSTREAM_URL: `https://api.example.com?key=${PLANTED}` }],
  ['UPSTASH_REDIS_REST_URL', { UPSTASH_REDIS_REST_URL: `rediss://default:${PLANTED}@x.upstash.io:6379` }],
  [
    'UPSTASH_REDIS_REST_URL',
    { UPSTASH_REDIS_REST_URL: `https://x.upstash.io?_token=${PLANTED}`, UPSTASH_REDIS_REST_TOKEN: 'x' },
  ],
  [
    'UPSTASH_REDIS_REST_TOKEN',
    { UPSTASH_REDIS_REST_URL: 'https://x.upstash.io', UPSTASH_REDIS_REST_TOKEN: `${PLANTED} with a space` },
  ],
  ['UPSTASH_REDIS_REST_URL', { UPSTASH_REDIS_REST_TOKEN: `${PLANTED}-alone` }],
  ['IDENTITY_SECRET', { IDENTITY_SECRET: PLANTED }],
  ['POLICIES', { POLICIES: `[{"name":"${PLANTED}"}]` }],
  ['ADMIN_TOKEN', { ADMIN_TOKEN: PLANTED }],
  ['ADMIN_HOST', { ADMIN_TOKEN: `${PLANTED}-of-operators-0123456789abcdef`, ADMIN_HOST: 'https://admin.example.com' }],
  ['JWT_SECRET', { ...BY_CLAIM, JWT_SECRET: `${PLANTED}-that-signs-tokens`, JWKS_URL: 'https://id.example.com/keys' }],
  ['POLICIES', BY_CLAIM],
])(
  'no secret is shown when a variable is wrong, which is named, and nobody is served: %s (%#)',
  async (name, bindings) => {
    const gateway = await startOwnThreatenedGateway(bindings)
    for (const path of [PATH, '/_sluice/health']) {
      const answer = await call(gateway, 500, path)
      expect(answer.headers).toMatchObject({ 'content-type': 'application/problem+json', 'cache-control': 'no-store' })
      expect(json(answer)).toEqual({
        ...{ type: '/_sluice/errors#misconfigured', title: 'Misconfigured', status: 500 },
        detail: `Gateway misconfigured: ${name} is invalid. See the log.`,
        code: 'misconfigured',
      })
    }
    expect(gateway.upstream.take()).toEqual([])
    await logged(gateway, `"message":"${name}`)
    expect(gateway.log).toHaveLength(1)
  },
)

test('no secret is shown when a caller is refused for want of an identity or of a cost', async () => {
  const policies = [
    { name: 'unknown', limits: '5/1h', by: 'header:x-other', match: '/unknown', anonymous: 'deny:403' },
    { name: 'dear', limits: '5/1h', cost: 'header:x-key', max_cost: 5, match: '/dear' },
  ]
  const gateway = await startOwnThreatenedGateway({ POLICIES: policies })
  await call(gateway, 403, '/unknown')
  await call(gateway, 400, '/dear')
})
