/** A caller who would rather be counted as somebody else, as many, or as nobody. */
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect, inject, onTestFinished, test } from 'vitest'
import { send } from '../../support/http-client.ts'
import { exchange, statusesOf } from '../../support/raw-http.ts'
import { connectRedis } from '../../support/script-store.ts'
import { PATIENT } from '../../support/site.ts'
import {
  startOwnThreatenedGateway,
  startThreatenedGateway,
  type ThreatenedGateway,
} from '../../support/threatened-gateway.ts'

/** One request an hour for each caller, also by the policies. */
let gateway: ThreatenedGateway
/** No caller without a credential. */
let strict: ThreatenedGateway
/** As `gateway`, on Redis. */
let stored: ThreatenedGateway
const KEY_PREFIX = randomUUID()

const limits = '1/1h'
const POLICIES = [
  { name: 'named', limits: '99/1h', by: 'header:X-API-Key', match: '/named', cost: 'header:x-cost', max_cost: 2 },
  { name: 'key', limits, by: 'header:X-API-Key', match: '/key', missing: 'deny' },
  { name: 'skipped', limits, by: 'header:X-API-Key', match: '/skipped', missing: 'skip' },
  { name: 'query', limits, by: 'query:api_key', match: '/query', missing: 'skip' },
  { name: 'query-deny', limits, by: 'query:key', match: '/query-deny', missing: 'deny' },
  { name: 'cookie', limits, by: 'cookie:sid', match: '/cookie', missing: 'skip' },
  { name: 'php', limits, by: 'cookie:my_sid', match: '/php', missing: 'skip' },
  { name: 'json', limits, by: 'json:/user/id', match: '/json', missing: 'skip' },
  { name: 'form-deny', limits, by: 'form:key', match: '/form-deny', missing: 'deny' },
  { name: 'form', limits, by: 'form:key', match: '/form', missing: 'skip' },
  { name: 'account', limits, by: 'json:/email', match: '/account', fold: 'lower trim' },
]

beforeAll(async () => {
  const redis = {
    UPSTASH_REDIS_REST_URL: inject('redisRestUrl'),
    UPSTASH_REDIS_REST_TOKEN: inject('redisRestToken'),
    KEY_PREFIX,
    ...PATIENT,
  }
  gateway = await startThreatenedGateway({ RATE_LIMITS: limits, POLICIES })
  strict = await startThreatenedGateway({ ANONYMOUS: 'deny' })
  stored = await startThreatenedGateway({ RATE_LIMITS: limits, ...redis })
})
afterAll(() => Promise.all([gateway, strict, stored].map((each) => each?.stop())))

let addresses = 0
/** Of nobody yet. */
const newAddress = () => `203.0.${113 + (addresses >> 8)}.${addresses++ & 255}`

/** The address of a caller whom no other test has met. */
let IP: { readonly 'CF-Connecting-IP': string }
beforeEach(() => {
  IP = { 'CF-Connecting-IP': newAddress() }
  gateway.upstream.take()
})

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
  const call = (value: string) => send(gateway.url, { headers: { ...IP, [name]: value } })
  expect((await call(newAddress())).status).toBe(200)
  expect((await call(newAddress())).status).toBe(429)
})

test('cannot say two addresses: outside Cloudflare, too, all who do are one', async () => {
  const call = (...addresses: string[]) => send(gateway.url, { headers: { 'CF-Connecting-IP': addresses } })
  const own = IP['CF-Connecting-IP']
  const statuses: number[] = []
  for (const addresses of [[own], [own, newAddress()], [own, newAddress()], ['x']]) {
    statuses.push((await call(...addresses)).status)
  }
  expect(statuses).toEqual([200, 200, 429, 429])
})

test('cannot have a field removed on the way to the API by naming it in Connection', async () => {
  const fields = { ...IP, Authorization: 'Bearer X', 'X-API-Key': 'K', 'X-Cost': '1', Cookie: 'a=1' }
  for (const name of ['Authorization', 'x-api-key', 'X-COST', 'CF-Connecting-IP', 'Cookie', 'Host']) {
    for (const connection of [name, `close, ${name}`, `${name} ,keep-alive`]) {
      const answer = await send(gateway.url, { path: '/named', headers: { ...fields, Connection: connection } })
      expect(answer.status).toBe(400)
    }
  }
  expect(gateway.upstream.take()).toEqual([])
  const answer = await send(gateway.url, { path: '/named', headers: { ...fields, Connection: 'close, x-none' } })
  expect(answer.status).toBe(200)
})

test('cannot tell the API another way, URL or address than those that count', async () => {
  const claims = [
    ...['For', 'User', 'Uri', 'Path', 'Ssl', 'Scheme', 'Port', 'Prefix', 'Server', 'Method', 'Client-Cert', 'Whatever'],
  ].map((name) => `X-Forwarded-${name}`)
  const names = [
    ...[...claims, 'X-Forwarded', 'Forwarded', 'X-Real-IP', 'X-Client-IP', 'True-Client-IP', 'X-Cluster-Client-IP'],
    ...['X-Original-URL', 'X-Original-URI', 'X-Original-Host', 'X-Rewrite-URL', 'X-Envoy-Original-Path', 'CF-Worker'],
    ...[
      'Script-Name',
      'Proxy',
      'X-Url-Scheme',
      'Front-End-Https',
      'WL-Proxy-Client-IP',
      'Fly-Client-IP',
      'CF-Pseudo-IPv4',
    ],
    ...['Remote-User', 'X-Auth-Request-Email', 'X-WebAuth-User', 'SSL-Client-Cert', 'X-HTTP-DestinationURL'],
    ...['X-Middleware-Subrequest', 'X-MS-Client-Principal'],
    // What CGI and its descendants take for a field with hyphens.
    ...['SCRIPT_NAME', 'PATH_INFO', 'X_Forwarded_For', 'CF_Connecting_IP', 'X_API_Key', 'X-API_Key', 'X.API.Key'],
  ]
  const forged = Object.fromEntries(names.map((name) => [name, '198.51.100.1']))
  await send(gateway.url, { headers: { ...IP, ...forged, 'X-API-Key': 'K', Connection: 'close' } })
  const [recorded] = gateway.upstream.take()
  expect(recorded?.headers).toEqual({
    'cf-connecting-ip': IP['CF-Connecting-IP'],
    host: expect.any(String),
    via: expect.stringMatching(/^1\.1 sluice-/),
    'x-api-key': 'K',
    'x-forwarded-for': IP['CF-Connecting-IP'],
    'x-forwarded-host': gateway.url.host,
    'x-forwarded-proto': 'http',
  })
})

test('what an API needs is let through by name, also to count by', async () => {
  const own = await startOwnThreatenedGateway({
    FORWARD_HEADERS: 'X-Remote-User, cf-pseudo-ipv4',
    POLICIES: [{ name: 'users', limits: '1/1h', by: 'header:X-Remote-User' }],
  })
  const headers = {
    ...IP,
    'X-Remote-User': 'alice',
    'Remote-User': 'bob',
    'CF-Pseudo-IPv4': '240.0.0.1',
    'X-IP': '::1',
  }
  expect((await send(own.url, { headers })).status).toBe(200)
  expect((await send(own.url, { headers })).status).toBe(429)
  const [recorded] = own.upstream.take()
  expect(recorded?.headers).toMatchObject({ 'x-remote-user': 'alice', 'cf-pseudo-ipv4': '240.0.0.1' })
  expect(recorded?.headers).not.toHaveProperty('remote-user')
  expect(recorded?.headers).not.toHaveProperty('x-ip')
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
  expect((await send(gateway.url, { headers: IP })).status).toBe(200)
  expect((await send(gateway.url, { headers: { ...IP, ...headers } })).status).toBe(429)
  expect((await send(strict.url, { headers: { ...IP, ...headers } })).status).toBe(401)
})

test('is refused with a folded Authorization', async () => {
  const bytes = 'GET / HTTP/1.1\r\nHost: gateway.example\r\nAuthorization: Bearer\r\n X\r\n\r\n'
  expect(statusesOf(await exchange(gateway.url, bytes))).toEqual([400])
})

test('is not one more caller by a parameter that is there twice', async () => {
  expect((await send(gateway.url, { path: '/query-deny?key=a&k%65y=b' })).status).toBe(401)
  const form = { method: 'POST', path: '/form-deny', headers: { 'Content-Type': 'application/x-www-form-urlencoded' } }
  expect((await send(gateway.url, { ...form, body: 'key=a&key=b' })).status).toBe(401)
})

test('is not one more caller by a key that is there twice, or by another spelling of the same credential', async () => {
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

test('is not one more caller by what Rails cuts off a token, or takes off it', async () => {
  const statuses: number[] = []
  const fields = [
    'Bearer tail',
    'Token token="tail"',
    'Bearer "tail"',
    ...['Bearer tail;1', 'Bearer tail;2', 'BearerTail'],
  ]
  for (const Authorization of fields)
    statuses.push((await send(gateway.url, { headers: { ...IP, Authorization } })).status)
  // The first that is spoilt is counted by address.
  expect(statuses).toEqual([200, 429, 429, 200, 429, 429])
})

test('is not one more caller by another spelling of a cookie, or a second one', async () => {
  const statuses: number[] = []
  const cookies = [
    'sid=X',
    'a=1; sid="X"',
    'sid=%58',
    'sid=X; sid=1',
    'SID=2; sid=X',
    'sid=X; a=1 sid=3',
    ['sid=X', 'sid=4'],
  ]
  for (const [index, Cookie] of cookies.entries()) {
    // One who is counted by nothing else.
    const headers = { ...IP, Authorization: `Bearer cookie-${index}`, Cookie }
    statuses.push((await send(gateway.url, { path: '/cookie', headers })).status)
  }
  // The first that is spoilt is counted by address.
  expect(statuses).toEqual([200, 429, 429, 200, 429, 429, 429])
})

test('is not out of a policy by a name that PHP takes for that of the cookie', async () => {
  const statuses: number[] = []
  for (const Cookie of ['my sid=X', 'my.sid=X', 'my[sid=X', 'a=1; my sid=Y']) {
    const headers = { ...IP, Authorization: `Bearer php-${statuses.length}`, Cookie }
    statuses.push((await send(gateway.url, { path: '/php', headers })).status)
  }
  expect(statuses).toEqual([200, 429, 429, 429])
})

test('is not one more caller by another spelling of a JSON body, which reaches the API as it was', async () => {
  const statuses: number[] = []
  const bodies = [
    ...['{"user":{"id":"X"}}', '{"a":1, "user" : {"id":"\\u0058"} }'],
    ...[
      '{"user":{"id":"X","id":"1"}}',
      '{"user":{"id":"X"},"User":{"id":2}}',
      '{"user":{"id":["X"]}}',
      '{"user":{"id":"X"}}3',
    ],
  ]
  for (const [index, body] of bodies.entries()) {
    const headers = {
      ...IP,
      Authorization: `Bearer json-${index}`,
      'Content-Type': index % 2 ? 'text/plain' : 'application/json',
    }
    statuses.push((await send(gateway.url, { method: 'POST', path: '/json', headers, body })).status)
  }
  expect(statuses).toEqual([200, 429, 200, 429, 429, 429])
  expect(gateway.upstream.take().map(({ body }) => body)).toEqual([bodies[0], bodies[2]])
})

test('does not leave a policy by the type of a form, as frameworks read more types than one', async () => {
  const statuses: number[] = []
  const types = ['multipart/mixed; boundary=b', 'multipart/x; boundary=b', 'application/x-url-encoded', 'text/plain']
  for (const [index, type] of types.entries()) {
    const headers = { ...IP, Authorization: `Bearer form-${index}`, 'Content-Type': type }
    statuses.push((await send(gateway.url, { method: 'POST', path: '/form', headers, body: 'key=X' })).status)
  }
  const headers = { ...IP, Authorization: 'Bearer form', 'Content-Type': 'application/json' }
  statuses.push((await send(gateway.url, { method: 'POST', path: '/form', headers, body: '{"key":"X"}' })).status)
  expect(statuses).toEqual([200, 429, 429, 429, 200])
})

test('is one account by all spellings of an address, and none by a body that not all read alike', async () => {
  const statuses: number[] = []
  const bodies = [
    '"ada@x.test"',
    '" ADA@X.test "',
    '"ａｄａ@x.test"',
    '"ada@x.test","email":1',
    `"ada@x.test","n":"${'x'.repeat(9_000)}"`,
  ]
  for (const [index, body] of bodies.entries()) {
    const headers = { 'CF-Connecting-IP': newAddress(), Authorization: `Bearer account-${index}` }
    const request = { method: 'POST', path: '/account', headers, body: `{"email":${body}}` }
    statuses.push((await send(gateway.url, request)).status)
  }
  expect(statuses).toEqual([200, 429, 429, 401, 401])
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
  const redis = await connectRedis(inject('redisPort'))
  onTestFinished(() => redis.close())
  const earlier = await redis.keys(`${KEY_PREFIX}*`)
  const bytes = `GET / HTTP/1.1\r\nHost: gateway.example\r\nAuthorization: ${token}\r\nConnection: close\r\n\r\n`
  expect(statusesOf(await exchange(stored.url, bytes))).toEqual([200])
  expect(statusesOf(await exchange(stored.url, bytes))).toEqual([429])
  const keys = await redis.keys(`${KEY_PREFIX}*`)
  expect(keys.filter((key) => !earlier.includes(key))).toEqual([
    expect.stringMatching(/^[\w-]{36}:default:w:\{[\w-]{22}\}$/),
  ])
  const other = bytes.replace(token, `${token.slice(0, -1)}y`)
  expect(statusesOf(await exchange(stored.url, other))).toEqual([200])
})

test.each(['\n', '\r', '\0'])('cannot put %j into a token at all', async (sign) => {
  const bytes = `GET / HTTP/1.1\r\nHost: gateway.example\r\nAuthorization: Bearer X${sign}Y\r\nConnection: close\r\n\r\n`
  const answered = await exchange(gateway.url, bytes)
  expect(statusesOf(answered)).toEqual([400])
  expect(gateway.upstream.take()).toEqual([])
})
