import { randomUUID } from 'node:crypto'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { beforeAll, describe, expect, inject, test } from 'vitest'
import manifest from '../../../package.json' with { type: 'json' }
import { startGateway } from '../../support/gateway.ts'
import { json, send } from '../../support/http-client.ts'
import { ADMIN_TOKEN, type OperatorRequest, operate } from '../../support/operator.ts'
import { connectRedis } from '../../support/redis-client.ts'
import { share } from '../../support/share.ts'
import { startUpstream } from '../../support/upstream.ts'

const { version } = manifest

const KEY_PREFIX = `admin-${randomUUID()}`
const POLICIES = [
  { name: 'login', limits: '5/1h', by: 'ip', match: 'POST /login' },
  { name: 'bucket', limits: '1/1h', burst: 20, algorithm: 'token-bucket', mode: 'shadow' },
]

interface OpenApi {
  readonly paths: Record<string, Record<string, { readonly operationId: string; readonly responses: Responses }>>
  readonly components: { readonly schemas: { readonly Problem: object } }
}
type Responses = { readonly 200: { readonly content: Record<string, { readonly schema: object }> } }

const upstream = share(() => startUpstream((_request, response) => response.end()))
const gateway = share(() =>
  startGateway({
    UPSTREAM_URL: upstream.url,
    RATE_LIMITS: '10/1h, 100/1d',
    SHEDDING: 'on',
    POLICIES,
    KEY_PREFIX,
    RULES: 'on',
    RULES_REFRESH_MS: 100,
    STATISTICS: 'on',
    ADMIN_TOKEN,
  }),
)
let document: OpenApi
/** Operations that were called, as `METHOD /path`. */
const called = new Set<string>()
const ajv = new Ajv2020({ strict: false, validateFormats: false })

beforeAll(async () => {
  document = json(await operate(gateway.url, '/openapi.json')) as OpenApi
})

/** Calls an operation, and checks its answer against the document. */
async function call(path: string, request: OperatorRequest = {}, status = 200) {
  const { method = request.body === undefined ? 'GET' : 'POST' } = request
  const answer = await operate(gateway.url, path, request)
  expect([answer.status, answer.body.toString()]).toEqual([status, expect.any(String)])
  const [operation = ''] = path.split('?')
  const described = document.paths[operation]?.[method.toLowerCase()]
  expect(described, `${method} ${operation}`).toBeDefined()
  const isProblem = status >= 400
  expect(answer.headers['content-type']).toBe(isProblem ? 'application/problem+json' : 'application/json')
  expect(answer.headers['cache-control']).toBe('no-store')
  const schema = isProblem
    ? document.components.schemas.Problem
    : described?.responses[200].content['application/json']?.schema
  const validate = ajv.compile(schema as object)
  const value = json(answer)
  expect(validate(value), JSON.stringify([validate.errors, value])).toBe(true)
  if (!isProblem) called.add(`${method} ${operation}`)
  return value as Record<string, unknown>
}

/** Reads the audit log as Redis has it. */
async function readAuditLog(): Promise<object> {
  const redis = await connectRedis(inject('redisPort'))
  const log = await redis.hGetAll(`${KEY_PREFIX}:audit`)
  redis.destroy()
  return log
}

async function consume(path: string, headers: Readonly<Record<string, string>>, method = 'GET'): Promise<number> {
  return (await send(gateway.url, { path, headers, method })).status
}

test('the document of the API is OpenAPI', async () => {
  const result = await new Validator().validate({ ...document })
  expect(result).toMatchObject({ valid: true })
})

test('status shows the release, the store and the shed level', async () => {
  expect(await call('/status')).toMatchObject({
    release: version,
    status: 'ok',
    store: { kind: 'redis', reachable: true, circuit: 'closed' },
    shedLevel: 0,
  })
})

/** The first events of the stream. */
async function liveEvents(count: number): Promise<readonly string[]> {
  const response = await fetch(new URL('/_sluice/admin/live', gateway.url), {
    headers: { Authorization: `Bearer ${ADMIN_TOKEN}` },
  })
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/event-stream'])
  let text = ''
  for await (const chunk of response.body ?? []) {
    text += new TextDecoder().decode(chunk)
    if (text.split('\n\n').length > count) break
  }
  return text.split('\n\n').slice(0, count)
}

test('live streams the status', async () => {
  const { schema } = (document.paths['/live']?.get?.responses[200].content['text/event-stream'] ?? {}) as {
    schema: { contentSchema: object }
  }
  const validate = ajv.compile(schema.contentSchema)
  const [event = ''] = await liveEvents(1)
  const [, data = ''] = /^event: message\ndata: (.*)$/.exec(event) ?? []
  expect(validate(JSON.parse(data)), JSON.stringify(validate.errors)).toBe(true)
  called.add('GET /live')
})

test('live sends the status again and again', { tags: ['slow'] }, async () => {
  for (const event of await liveEvents(2)) expect(event).toMatch(/^event: message\ndata: \{/)
})

test('policies lists those in force', async () => {
  const { source, policies, tables } = await call('/policies')
  expect([source, tables]).toEqual(['deploy', POLICIES])
  expect(policies).toMatchObject([
    { name: 'default', by: ['token'], match: null, limits: [{ name: 'default-1h', limit: 10 }, { limit: 100 }] },
    { name: 'login', by: ['ip'], match: ['POST /login'], mode: 'enforce' },
    { name: 'bucket', burst: 20, mode: 'shadow' },
  ])
})

test('usage and reset take a caller by its token, its address, both, or its digest', async () => {
  const token = randomUUID()
  const ip = '203.0.113.21'
  const headers = { Authorization: `Bearer ${token}`, 'CF-Connecting-IP': ip }
  expect(await consume('/a', headers)).toBe(200)
  expect(await consume('/login', headers, 'POST')).toBe(200)
  const usedBy = async (caller: object) => {
    const { limits } = await call('/usage', { body: { caller } })
    return Object.fromEntries((limits as { name: string; used: number }[]).map(({ name, used }) => [name, used]))
  }
  const whole = { 'default-1h': 2, 'default-1d': 2, 'bucket-1h': 2, 'login-1h': 1 }
  expect(await usedBy({ token, ip })).toEqual(whole)
  const { limits, skipped } = await call('/usage', { body: { caller: { token } } })
  expect(skipped).toEqual([{ policy: 'login', reason: 'it counts this caller by address', needs: 'ip' }])
  const [{ key = '' } = {}] = limits as { key?: string }[]
  expect(await usedBy({ digest: key.slice(-23, -1) })).toMatchObject({ 'default-1h': 2, 'login-1h': 0 })
  expect(await usedBy({ token, route: 'GET /b' })).toEqual({ 'default-1h': 2, 'default-1d': 2, 'bucket-1h': 2 })

  const one = await call('/reset', { body: { caller: { token, ip }, policies: ['login'] } })
  expect(one).toMatchObject({ keys: [{ policy: 'login' }], skipped: [] })
  expect(await usedBy({ token, ip })).toEqual({ ...whole, 'login-1h': 0 })
  await call('/reset', { body: { caller: { digest: key.slice(-23, -1) } } })
  expect(await usedBy({ token, ip })).toMatchObject({ 'default-1h': 0, 'default-1d': 0 })
})

test('reset ends a refusal that the isolate remembers', async () => {
  const headers = { 'CF-Connecting-IP': '203.0.113.22', Authorization: `Bearer ${randomUUID()}` }
  const statuses: number[] = []
  for (let at = 0; at < 7; at++) statuses.push(await consume('/login', headers, 'POST'))
  expect(statuses).toEqual([200, 200, 200, 200, 200, 429, 429])
  await call('/reset', { body: { caller: { ip: headers['CF-Connecting-IP'] } } })
  expect(await consume('/login', headers, 'POST')).toBe(200)
})

test.each([
  ['/usage', {}, 'caller'],
  ['/history', { caller: {} }, 'caller'],
  ['/history', { caller: { ip: '203.0.113.7' }, periods: 0 }, 'periods'],
  ['/usage', { caller: {} }, 'caller'],
  ['/usage', { caller: 'x' }, 'caller'],
  ['/usage', { caller: { name: 'x' } }, 'caller.name'],
  ['/usage', { caller: { token: 7 } }, 'caller.token'],
  ['/usage', { caller: { token: 'x' }, more: 1 }, 'more'],
  ['/usage', { caller: { ip: '203.0.113' } }, 'caller.ip'],
  ['/usage', { caller: { header: { a: 1 } } }, 'caller.header.a'],
  ['/usage', { caller: { header: { 'not a name': 'x' } } }, 'caller'],
  ['/usage', { caller: { route: 'login' } }, 'caller.route'],
  ['/usage', { caller: { digest: 'x*' } }, 'caller.digest'],
  ['/usage', { caller: { digest: 'A'.repeat(22), ip: '203.0.113.7' } }, 'caller'],
  ['/reset', { caller: { ip: '203.0.113.7' }, policies: ['other'] }, 'policies.0'],
  ['/reset', [], 'caller'],
  ['/reset', 'x', ''],
  ['/block', { target: {} }, 'target'],
  ['/block', { target: { ip: '203.0.113.7', token: 'x' } }, 'target'],
  ['/block', { target: { ip: '203.0.113.7', cidr: '203.0.113.0/24' } }, 'target'],
  ['/block', { target: { ip: '203.0.113' } }, 'target.ip'],
  ['/block', { target: { token: '' } }, 'target.token'],
  ['/block', { target: { header: { a: '1', b: '2' } } }, 'target.header'],
  ['/block', { target: { claim: {} } }, 'target.claim'],
  ['/block', { target: { claim: { sub: { a: 1 } } } }, 'target.claim'],
  ['/block', { target: { cidr: '203.0.113.7/24' } }, 'target.cidr'],
  ['/block', { target: { country: 'DE' }, status: 200 }, 'status'],
  ['/block', { target: { country: 'DE' }, for: 'ever' }, 'for'],
  ['/block', { target: { country: 'DE' }, until: 'tomorrow' }, 'until'],
  ['/allow', { target: { country: 'DE' } }, 'target.country'],
  ['/block', { target: { ip: '203.0.113.7' }, for: '1h', until: '2099-01-01T00:00:00Z' }, 'for'],
  ['/block', { target: { ip: '203.0.113.7' }, until: '2001-01-01T00:00:00Z' }, 'until'],
  ['/block', { target: { ip: '203.0.113.7' }, remove: true, reason: 'x' }, 'remove'],
  ['/override', { target: { ip: '203.0.113.7' } }, ''],
  ['/override', { target: { ip: '203.0.113.7' }, limits: { nobody: '5/1h' } }, 'limits'],
  ['/override', { target: { ip: '203.0.113.7' }, limits: { login: '5/7m' } }, 'limits.login'],
  ['/policies/push', { policies: [{ name: 'login' }] }, 'policies.0.limits'],
  ['/policies/push', { policies: [] }, 'policies'],
  ['/policies/diff', { policies: [{ name: 'x', limits: '1' }] }, 'policies.0.limits'],
] as const)('%s refuses %j, and names the place', async (path, body, pointer) => {
  expect(await call(path, { body }, 400)).toMatchObject({
    pointer: pointer === '' ? '#' : `#/${pointer.replaceAll('.', '/')}`,
  })
})

test.each(['/statistics?by=day', '/statistics?periods=0', '/statistics?at=7', '/version', '/version?version=x'])(
  '%s is refused, and the place named',
  async (path) => {
    const [, name = 'version'] = /[?](\w+)/.exec(path) ?? []
    expect(json(await operate(gateway.url, path))).toMatchObject({ status: 400, pointer: `#/${name}` })
  },
)

/** Sends requests until they are answered so: isolates read the rules every 100 ms. */
async function expectSoon(headers: Readonly<Record<string, string>>, status: number, path = '/'): Promise<void> {
  await expect.poll(() => consume(path, headers), { interval: 50 }).toBe(status)
}

describe('the rules', () => {
  const ip = '203.0.113.31'
  const token = randomUUID()
  const caller = { 'CF-Connecting-IP': ip, Authorization: `Bearer ${token}` }

  test('are none at first', async () => {
    expect(await call('/rules')).toMatchObject({
      version: 0,
      rules: { blocks: [], allows: [], overrides: [], policies: null },
    })
    expect(await call('/versions')).toEqual({ versions: [] })
  })

  test('keep a blocked caller out, and let it in again', async () => {
    const target = { token }
    expect(
      await call('/block', { body: { target, reason: 'abuse', for: '1h', actor: 'ann', comment: 'a test' } }),
    ).toEqual({
      ...{
        version: 1,
        changed: true,
        scope: 'all',
        target: { by: 'token', digest: expect.any(String) },
      },
      entry: {
        by: 'token',
        digest: expect.any(String),
        reason: 'abuse',
        until: expect.any(String),
      },
    })
    await expectSoon(caller, 403)
    const { blocked } = await call('/usage', { body: { caller: { token } } })
    expect(blocked).toEqual({ status: 403, reason: 'abuse', untilMs: expect.any(Number), shadow: false })
    const { rules, actor, comment } = await call('/rules')
    expect([actor, comment]).toEqual(['ann', 'a test'])
    expect(JSON.stringify(rules)).not.toContain(token)
    const taken = {
      version: 2,
      scope: 'all',
      target: { by: 'token', digest: expect.any(String) },
      entry: null,
    }
    expect(await call('/block', { body: { target, remove: true } })).toEqual({ ...taken, changed: true })
    expect(await call('/block', { body: { target, remove: true } })).toEqual({ ...taken, changed: false })
    expect(await call('/rules')).toMatchObject({ comment: expect.stringMatching(/^remove block token \S{22}$/) })
    await expectSoon(caller, 200)
  })

  test.each([
    ['/block', { country: 'de' }, { country: 'DE' }, { reason: 'again' }, 'blocks'],
    ['/allow', { cidr: '2001:DB8::/32' }, { cidr: '2001:db8::/32' }, { for: '1h' }, 'allows'],
    [
      '/override',
      { by: 'claim:/tenant', value: 'acme-*' },
      { by: 'claim:tenant', value: 'acme-*' },
      { multiplier: 0.5 },
      'overrides',
    ],
  ])('%s in another spelling takes the place of the former: %j', async (path, first, second, said, list) => {
    await call(path, { body: { target: first, ...(list === 'overrides' && { unlimited: true }) } })
    await call(path, { body: { target: second, ...said } })
    await call(path, { body: { target: first, ...said } })
    const { rules } = await call('/rules')
    expect((rules as Record<string, unknown[]>)[list]).toEqual([expect.objectContaining(second)])
    await call(path, { body: { target: first, remove: true } })
  })

  test('name callers by a header, a parameter or a claim, and keep only its digest', async () => {
    for (const target of [{ header: { 'X-Tenant': 'acme' } }, { query: { key: 'acme' } }, { claim: { sub: 'acme' } }]) {
      await call('/block', { body: { target } })
      const { rules } = await call('/rules')
      const [{ by, digest } = {}] = (rules as { blocks: { by?: string; digest?: string }[] }).blocks
      expect([by, digest]).toEqual([
        expect.stringMatching(/^(header:x-tenant|query:key|claim:sub)$/),
        expect.any(String),
      ])
      expect(JSON.stringify(rules)).not.toContain('acme')
      await call('/block', { body: { target, remove: true } })
    }
  })

  test('let an allowed network pass its limits', async () => {
    const from = { ...caller, 'CF-Connecting-IP': '198.51.100.9', Authorization: `Bearer ${randomUUID()}` }
    const statuses: number[] = []
    for (let at = 0; at < 11; at++) statuses.push(await consume('/', from))
    expect(statuses.at(-1)).toBe(429)
    await call('/allow', { body: { target: { cidr: '198.51.100.0/24' } } })
    await expectSoon(from, 200)
    const { limits } = await call('/usage', { body: { caller: { ip: '198.51.100.9' } } })
    expect(limits).toMatchObject([{ unlimited: true }, {}, {}, {}])
    await call('/allow', { body: { target: { cidr: '198.51.100.0/24' }, remove: true } })
    await expectSoon(from, 429)
  })

  test('give a caller other limits, which its usage reports, also by its digest', async () => {
    const from = { ...caller, Authorization: `Bearer ${randomUUID()}` }
    for (let at = 0; at < 11; at++) await consume('/', from)
    expect(await consume('/', from)).toBe(429)
    const target = { token: from.Authorization }
    await call('/override', { body: { target, limits: { default: '50/1h, 100/1d' } } })
    await expectSoon(from, 200)
    const { limits } = await call('/usage', { body: { caller: target } })
    expect(limits).toMatchObject([{ name: 'default-1h', limit: 50 }, { limit: 100 }, {}])
    const digest = (limits as { key: string }[])[0]?.key.slice(-23, -1)
    const found = await call('/usage', { body: { caller: { digest } } })
    expect(found.limits).toMatchObject([{ name: 'default-1h', limit: 50 }, {}, {}, {}])
    await call('/override', { body: { target, remove: true } })
    await expectSoon(from, 429)
  })

  test('put pushed policies in force, and go back', async () => {
    const from = { ...caller, Authorization: `Bearer ${randomUUID()}` }
    expect(await consume('/', from)).toBe(200)
    const policies = [
      { name: 'login', limits: '7/1h', by: 'ip', match: 'POST /login' },
      { name: 'tight', limits: '1/1h', by: 'token' },
    ]
    expect(await call('/policies/validate', { body: { policies } })).toEqual({ valid: true, problems: [] })
    const costlier = [{ ...POLICIES[0], cost: 2 }, POLICIES[1]]
    expect(await call('/policies/diff', { body: { policies: costlier } })).toEqual({
      changes: [{ policy: 'login', change: 'changed', keys: [{ key: 'cost', before: null, after: '2' }] }],
    })
    const wrong = [
      { name: 'a', limits: 'x' },
      { name: 'b', limit: '1/1m' },
    ]
    expect(await call('/policies/validate', { body: { policies: wrong } })).toMatchObject({
      valid: false,
      problems: [{ pointer: '#/policies/0/limits' }, { pointer: '#/policies/1/limit' }],
    })
    const differences = await call('/policies/diff', { body: { policies } })
    expect(differences.changes).toMatchObject([
      { policy: 'login', change: 'changed', keys: [{ key: 'limits', before: '"5/1h"', after: '"7/1h"' }] },
      { policy: 'bucket', change: 'removed' },
      { policy: 'tight', change: 'added' },
    ])
    const { version, id } = await call('/rules')
    await call('/policies/push', { body: { policies, expectedVersion: version, expectedId: 'of-a-lost-one' } }, 409)
    await call('/policies/push', { body: { policies, expectedVersion: version, expectedId: id, comment: 'tighter' } })
    await call('/policies/push', { body: { policies: null, expectedVersion: version } }, 409)
    await expectSoon(from, 429)
    expect(await call('/policies')).toMatchObject({ source: 'rules', tables: policies })
    expect(await call('/usage', { body: { caller: { token: from.Authorization } } })).toMatchObject({
      limits: [{}, {}, { name: 'tight-1h', limit: 1 }],
    })
    expect(await call(`/version?version=${Number(version) + 1}`)).toMatchObject({
      comment: 'tighter',
      rules: { policies },
    })
    await call('/version?version=999', {}, 404)

    await call('/rollback', { body: { version, actor: 'bob' } })
    await expectSoon(from, 200)
    const { versions } = await call('/versions')
    expect(versions).toMatchObject(
      Object.assign([], versions, [
        { actor: 'bob', comment: `policies back to version ${version}` },
        { comment: 'tighter' },
      ]),
    )
    await call('/rollback', { body: { version: 999 } }, 404)
  })

  test('try a policy in shadow mode alongside the others, which is logged and refuses nothing', async () => {
    const from = { ...caller, Authorization: `Bearer ${token}-shadow` }
    const policies = [...POLICIES, { name: 'trial', limits: '1/1h', by: 'token', mode: 'shadow' }]
    await call('/policies/push', { body: { policies } })
    const shadowed = async () => {
      expect(await consume('/', from)).toBe(200)
      return gateway.log.filter((line) => line.includes('shadow_limited') && line.includes('trial-1h'))
    }
    await expect.poll(shadowed, { interval: 50 }).not.toEqual([])
    expect((await call('/policies')).policies).toContainEqual(
      expect.objectContaining({ name: 'trial', mode: 'shadow' }),
    )
    await call('/policies/push', { body: { policies: null } })
    expect(await call('/rules')).toMatchObject({ rules: { policies: null } })
  })
})

test('history shows what was done about a caller, by whom and why', async () => {
  const token = randomUUID()
  await call('/block', { body: { target: { token }, status: 404, actor: 'ann', comment: 'abuse' } })
  await call('/block', { body: { target: { token }, remove: true, actor: 'bob' } })
  await call('/override', { body: { target: { token }, limits: { default: '3/1h, 100/1d' }, reason: 'slower' } })
  await call('/override', { body: { target: { token: 'another' }, multiplier: 2 } })
  await call('/allow', { body: { target: { cidr: '192.0.2.0/24' } } })
  await call('/reset', { body: { caller: { token }, policies: ['default'], actor: 'ann' } })
  const { audit } = await call('/history', { body: { caller: { token } } })
  expect(audit).toMatchObject([
    { actor: 'ann', action: 'reset of default', comment: '' },
    { actor: 'operator', action: 'override, default 3/1h, 100/1d', comment: 'slower' },
    { actor: 'bob', action: 'block removed', comment: '' },
    { actor: 'ann', action: 'block, answered 404', comment: 'abuse' },
  ])
  expect((await call('/history', { body: { caller: { digest: await findDigest(token) } } })).audit).toEqual(audit)
  expect(await call('/history', { body: { caller: { token: randomUUID() } } })).toMatchObject({ audit: [] })
  expect(JSON.stringify(await readAuditLog())).not.toContain(token)
})

async function findDigest(token: string): Promise<string | undefined> {
  const { limits } = await call('/usage', { body: { caller: { token } } })
  return (limits as { key: string }[])[0]?.key.slice(-23, -1)
}

test('history reports when a caller was refused', { tags: ['slow'] }, async () => {
  const token = randomUUID()
  await expect.poll(() => consume('/', { Authorization: `Bearer ${token}` }), { interval: 50 }).toBe(429)
  const reported = (caller: object) => async () => {
    // What an isolate has counted goes out with a later request.
    await consume('/', { 'CF-Connecting-IP': '203.0.113.50' })
    const { refusals } = await call('/history', { body: { caller, by: 'minute' } })
    const { periods } = refusals as { periods: { policies: { policy: string; min: number }[] }[] }
    return periods.flatMap(({ policies }) => policies.map(({ policy, min }) => `${policy} ${min > 0}`))
  }
  await expect.poll(reported({ token })).toContain('default true')
  expect(await reported({ digest: await findDigest(token) })()).toContain('default true')
})

test('statistics reports what was counted, minute by minute and hour by hour', async () => {
  expect(await call('/statistics')).toMatchObject({ total: { requests: { admitted: expect.any(Number) } } })
  const { resolution, toMs, fromMs } = await call('/statistics?by=hour&periods=24')
  expect([resolution, Number(toMs) - Number(fromMs)]).toEqual(['hour', expect.any(Number)])
})

test('statistics reports each request, once it was sent', { tags: ['slow'] }, async () => {
  await expect
    .poll(async () => {
      // What an isolate has counted goes out with a later request.
      await consume('/', { 'CF-Connecting-IP': '203.0.113.50' })
      const { total } = await call('/statistics')
      return (total as { requests: { admitted: number } }).requests.admitted
    })
    .toBeGreaterThan(0)
})

test('without RULES, operations on rules answer 404', async () => {
  const plain = await startGateway({ UPSTREAM_URL: upstream.url, ADMIN_TOKEN })
  for (const path of ['/rules', '/versions', '/statistics']) {
    expect((await operate(plain.url, path)).status, path).toBe(404)
  }
  expect((await operate(plain.url, '/block', { body: { target: { ip: '203.0.113.7' } } })).status).toBe(404)
  expect((await operate(plain.url, '/policies')).status).toBe(200)
  const body = { caller: { token: 'x' } }
  expect(json(await operate(plain.url, '/history', { body }))).toEqual({ refusals: null, audit: null })
  await plain.stop()
})

test('a wrong method is answered 405 with the right one', async () => {
  expect(await call('/status', { body: {}, method: 'GET' })).toMatchObject({ status: 'ok' })
  const answer = await operate(gateway.url, '/usage')
  expect([answer.status, answer.headers.allow]).toEqual([405, 'POST'])
  expect((await operate(gateway.url, '/nothing')).status).toBe(404)
})

test('while the store is unavailable, usage and reset answer 503, and status says degraded', async () => {
  const lost = await startGateway({
    UPSTREAM_URL: upstream.url,
    UPSTASH_REDIS_REST_URL: 'http://127.0.0.1:1',
    ADMIN_TOKEN,
    ON_STORE_ERROR: 'local',
  })
  const body = { caller: { token: 'x' } }
  expect((await operate(lost.url, '/usage', { body })).status).toBe(503)
  expect((await operate(lost.url, '/reset', { body })).status).toBe(503)
  expect(json(await operate(lost.url, '/status'))).toMatchObject({ status: 'degraded', store: { reachable: false } })
  await lost.stop()
})

// Last: it looks back at the others.
test('every operation of the document was called', () => {
  const described = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  )
  expect([...called].toSorted()).toEqual(described.toSorted())
})
