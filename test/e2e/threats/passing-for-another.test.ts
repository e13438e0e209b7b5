/** A caller who would rather be counted as somebody else, as many, or as nobody. */
import { randomUUID } from 'node:crypto'
import { expect, inject, test } from 'vitest'
import { send } from '../../support/http-client.ts'
import { exchange, statusesOf } from '../../support/raw-http.ts'
import { connectRedis } from '../../support/script-store.ts'
import { startOwnThreatenedGateway } from '../../support/threatened-gateway.ts'

const IP = { 'CF-Connecting-IP': '203.0.113.7' }

test.each([
  'X-Forwarded-For',
  'X-Real-IP',
  'True-Client-IP',
  'X-Client-IP',
  'Forwarded',
  'Via',
  'CF-Worker',
  'CF-Connecting-IPv6',
  'CF-Pseudo-IPv4',
  'CF-Ray',
  'X-Forwarded-Host',
  'Host',
])('cannot be another one by %s', async (name) => {
  const gateway = await startOwnThreatenedGateway({ RATE_LIMITS: '1/1h' })
  const call = (value: string) => send(gateway.url, { headers: { ...IP, [name]: value } })
  expect((await call('198.51.100.1')).status).toBe(200)
  expect((await call('198.51.100.2')).status).toBe(429)
})

test('cannot say two addresses: outside Cloudflare, too, all who do are one', async () => {
  const gateway = await startOwnThreatenedGateway({ RATE_LIMITS: '1/1h' })
  const call = (...addresses: string[]) => send(gateway.url, { headers: { 'CF-Connecting-IP': addresses } })
  const statuses: number[] = []
  for (const addresses of [['203.0.113.7'], ['203.0.113.7', '198.51.100.1'], ['203.0.113.7', '198.51.100.2'], ['x']]) {
    statuses.push((await call(...addresses)).status)
  }
  expect(statuses).toEqual([200, 200, 429, 429])
})

test('cannot have a field removed on the way to the API by naming it in Connection', async () => {
  const gateway = await startOwnThreatenedGateway({
    POLICIES: [{ name: 'keys', limits: '9/1h', by: 'header:X-API-Key', cost: 'header:X-Cost', max_cost: 2 }],
  })
  const fields = { ...IP, Authorization: 'Bearer X', 'X-API-Key': 'K', 'X-Cost': '1', Cookie: 'a=1' }
  for (const name of ['Authorization', 'x-api-key', 'X-COST', 'CF-Connecting-IP', 'Cookie', 'Host']) {
    for (const connection of [name, `close, ${name}`, `${name} ,keep-alive`]) {
      expect((await send(gateway.url, { headers: { ...fields, Connection: connection } })).status).toBe(400)
    }
  }
  expect(gateway.upstream.take()).toEqual([])
  expect((await send(gateway.url, { headers: { ...fields, Connection: 'close, x-none' } })).status).toBe(200)
})

test('cannot tell the API another way, URL or address than those that count', async () => {
  const gateway = await startOwnThreatenedGateway()
  const claims = [
    ...['For', 'User', 'Uri', 'Path', 'Ssl', 'Scheme', 'Port', 'Prefix', 'Server', 'Method', 'Client-Cert', 'Whatever'],
  ].map((name) => `X-Forwarded-${name}`)
  const names = [
    ...[...claims, 'X-Forwarded', 'Forwarded', 'X-Real-IP', 'X-Client-IP', 'True-Client-IP', 'X-Cluster-Client-IP'],
    ...['X-Original-URL', 'X-Original-URI', 'X-Original-Host', 'X-Rewrite-URL', 'X-Envoy-Original-Path', 'CF-Worker'],
    ...['Script-Name', 'Proxy', 'X-Url-Scheme', 'Front-End-Https'],
    // What CGI and its descendants take for a field with hyphens.
    ...['SCRIPT_NAME', 'PATH_INFO', 'X_Forwarded_For', 'CF_Connecting_IP', 'X_API_Key', 'X-API_Key', 'X.API.Key'],
  ]
  const forged = Object.fromEntries(names.map((name) => [name, '198.51.100.1']))
  await send(gateway.url, { headers: { ...IP, ...forged, 'X-API-Key': 'K', Connection: 'close' } })
  const [recorded] = gateway.upstream.take()
  expect(recorded?.headers).toEqual({
    'cf-connecting-ip': '203.0.113.7',
    host: expect.any(String),
    via: expect.stringMatching(/^1\.1 sluice-/),
    'x-api-key': 'K',
    'x-forwarded-for': '203.0.113.7',
    'x-forwarded-host': gateway.url.host,
    'x-forwarded-proto': 'http',
  })
})

test.each([
  ['a second Authorization', { Authorization: ['Bearer X', 'Bearer Y'] }],
  ['two credentials in one', { Authorization: 'Bearer X, Bearer Y' }],
  ['something after the credential', { Authorization: 'Bearer X 1' }],
  ['a comma after the credential', { Authorization: 'Bearer X,' }],
  ['a scheme without a credential', { Authorization: 'Bearer' }],
  ['an empty credential', { Authorization: '' }],
  ['a dot in a Basic credential', { Authorization: 'Basic YTpi.' }],
  ['a tab in a token', { Authorization: 'Key a\tb' }],
  ['bytes beyond ASCII in a token', { Authorization: 'Bearer \xff' }],
])('is not one more caller by %s, but the one of the address', async (_, headers) => {
  const gateway = await startOwnThreatenedGateway({ RATE_LIMITS: '1/1h' })
  expect((await send(gateway.url, { headers: IP })).status).toBe(200)
  expect((await send(gateway.url, { headers: { ...IP, ...headers } })).status).toBe(429)
  const strict = await startOwnThreatenedGateway({ ANONYMOUS: 'deny' })
  expect((await send(strict.url, { headers: { ...IP, ...headers } })).status).toBe(401)
})

test('is refused with a folded Authorization', async () => {
  const gateway = await startOwnThreatenedGateway()
  const bytes = 'GET / HTTP/1.1\r\nHost: gateway.example\r\nAuthorization: Bearer\r\n X\r\n\r\n'
  expect(statusesOf(await exchange(gateway.url, bytes))).toEqual([400])
})

test('is not one more caller by a parameter that is there twice', async () => {
  const policies = ['query', 'form'].map((kind) => ({
    name: kind,
    limits: '1/1h',
    by: `${kind}:key`,
    match: `/${kind}`,
    missing: 'deny',
  }))
  const gateway = await startOwnThreatenedGateway({ POLICIES: policies })
  expect((await send(gateway.url, { path: '/query?key=a&k%65y=b' })).status).toBe(401)
  const form = { method: 'POST', path: '/form', headers: { 'Content-Type': 'application/x-www-form-urlencoded' } }
  expect((await send(gateway.url, { ...form, body: 'key=a&key=b' })).status).toBe(401)
})

test('is not one more caller by a key that is there twice, or by another spelling of the same credential', async () => {
  const limits = '1/1h'
  const gateway = await startOwnThreatenedGateway({
    RATE_LIMITS: limits,
    POLICIES: [
      { name: 'key', limits, by: 'header:X-API-Key', match: '/key', missing: 'deny' },
      { name: 'skipped', limits, by: 'header:X-API-Key', match: '/skipped', missing: 'skip' },
      { name: 'query', limits, by: 'query:api_key', match: '/query', missing: 'skip' },
    ],
  })
  const statuses = async (path: string, ...all: readonly Record<string, string | string[]>[]) => {
    const found: number[] = []
    for (const headers of all) found.push((await send(gateway.url, { path, headers: { ...IP, ...headers } })).status)
    return found
  }
  const twice = [{ 'X-API-Key': ['K', 'junk1'] }, { 'X-API-Key': ['K', 'junk2'] }]
  const one = (index: number) => ({ Authorization: `Bearer ${index}` })
  expect(await statuses('/key', { ...one(1), ...twice[0] }, { ...one(2), ...twice[1] })).toEqual([401, 401])
  expect(await statuses('/skipped', { ...one(3), ...twice[0] }, { ...one(4), ...twice[1] })).toEqual([200, 429])
  expect(await statuses('/query?api_key=K&api.key=1', one(5))).toEqual([200])
  expect(await statuses('/query?api_key=K&[api_key]=2', one(6))).toEqual([429])
  const spellings = ['Basic YTpiYw==', 'Basic YTpiYw', 'basic YTpiYx==', 'Junk YTpiYw===', 'YTpiYw']
  const asked = await statuses('/', ...spellings.map((Authorization) => ({ Authorization })))
  expect(asked).toEqual([200, 429, 429, 429, 429])
})

/** As long as Node's own client lets a field be. */
const LONG = 'x'.repeat(8_000)

test.each([
  ['a brace', 'Bearer }:{x}'],
  ['a pattern', 'Bearer *[a-z]?\\'],
  ['the key of another', 'Bearer sluice:default:w:{AAAA}'],
  ['8 KB', `Bearer ${LONG}`],
  ['Lua', `Bearer "..redis.call('FLUSHALL').."`],
  ['escaped lines', 'Bearer a%0d%0aFLUSHALL\\r\\n'],
])('makes a key like any other by %s in a token', async (_, token) => {
  const prefix = randomUUID()
  const gateway = await startOwnThreatenedGateway({
    UPSTASH_REDIS_REST_URL: inject('redisRestUrl'),
    UPSTASH_REDIS_REST_TOKEN: inject('redisRestToken'),
    KEY_PREFIX: prefix,
    STORE_TIMEOUT_MS: 30_000,
    ON_STORE_ERROR: 'closed',
    RATE_LIMITS: '1/1h',
  })
  const bytes = `GET / HTTP/1.1\r\nHost: gateway.example\r\nAuthorization: ${token}\r\nConnection: close\r\n\r\n`
  expect(statusesOf(await exchange(gateway.url, bytes))).toEqual([200])
  expect(statusesOf(await exchange(gateway.url, bytes))).toEqual([429])
  const redis = await connectRedis(inject('redisPort'))
  const keys = await redis.keys(`${prefix}*`)
  await redis.close()
  expect(keys).toEqual([expect.stringMatching(/^[\w-]{36}:default:w:\{[\w-]{22}\}$/)])
  const other = bytes.replace(token, `${token.slice(0, -1)}y`)
  expect(statusesOf(await exchange(gateway.url, other))).toEqual([200])
})

test.each(['\n', '\r', '\0'])('cannot put %j into a token at all', async (sign) => {
  const gateway = await startOwnThreatenedGateway({ RATE_LIMITS: '1/1h' })
  const bytes = `GET / HTTP/1.1\r\nHost: gateway.example\r\nAuthorization: Bearer X${sign}Y\r\nConnection: close\r\n\r\n`
  const answered = await exchange(gateway.url, bytes)
  expect(statusesOf(answered)).toEqual([400])
  expect(gateway.upstream.take()).toEqual([])
})
