/** A caller who would rather be counted as somebody else, as many, or as nobody. */
import { randomUUID } from 'node:crypto'
import { beforeEach, expect, inject, onTestFinished, test } from 'vitest'
import { redisBindings } from '../../support/gateway.ts'
import { type Sent, send, sendInTurn } from '../../support/http-client.ts'
import { exchange, readStatuses } from '../../support/raw-http.ts'
import { connectRedis } from '../../support/redis-client.ts'
import { share } from '../../support/share.ts'
import { startOwnThreatenedGateway, startThreatenedGateway } from '../../support/threatened-gateway.ts'

const KEY_PREFIX = randomUUID()

const limits = '1/1h'
const POLICIES = [
  { name: 'named', limits: '99/1h', by: 'header:X-API-Key', match: '/named', cost: 'header:x-cost', max_cost: 2 },
  { name: 'key', limits, by: 'header:X-API-Key', match: '/key', anonymous: 'deny' },
  { name: 'skipped', limits, by: 'header:X-API-Key', match: '/skipped', anonymous: 'skip' },
  { name: 'query', limits, by: 'query:api_key', match: '/query', anonymous: 'skip' },
  { name: 'query-deny', limits, by: 'query:key', match: '/query-deny', anonymous: 'deny' },
  { name: 'cookie', limits, by: 'cookie:sid', match: '/cookie', anonymous: 'skip' },
  { name: 'php', limits, by: 'cookie:my_sid', match: '/php', anonymous: 'skip' },
  { name: 'json', limits, by: 'json:/user/id', match: '/json', anonymous: 'skip' },
  { name: 'form-deny', limits, by: 'form:key', match: '/form-deny', anonymous: 'deny' },
  { name: 'form', limits, by: 'form:key', match: '/form', anonymous: 'skip' },
  { name: 'account', limits, by: 'json:/email', match: '/account', fold: 'lower trim' },
]

/** One request an hour for each caller, also by the policies. */
const gateway = share(() => startThreatenedGateway({ RATE_LIMITS: limits, POLICIES }))
/** No caller without a credential. */
const strict = share(() => startThreatenedGateway({ ANONYMOUS: 'deny' }))
/** As `gateway`, on Redis. */
const stored = share(() => startThreatenedGateway({ RATE_LIMITS: limits, ...redisBindings(), KEY_PREFIX }))

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
  ...['X-Forwarded-For', 'X-Real-IP', 'True-Client-IP', 'X-Client-IP', 'Forwarded', 'Via', 'CF-Worker'],
  ...['CF-Connecting-IPv6', 'CF-Pseudo-IPv4', 'CF-Ray', 'X-Forwarded-Host', 'Host'],
])('a caller does not pass for another by %s', async (name) => {
  const call = (value: string) => send(gateway.url, { headers: { ...IP, [name]: value } })
  expect((await call(newAddress())).status).toBe(200)
  expect((await call(newAddress())).status).toBe(429)
})

test('all who name two addresses are one caller, outside Cloudflare too', async () => {
  const own = IP['CF-Connecting-IP']
  const claims = [[own], [own, newAddress()], [own, newAddress()], ['x']]
  const requests = claims.map((addresses) => ({ headers: { 'CF-Connecting-IP': addresses } }))
  expect(await sendInTurn(gateway.url, requests)).toEqual([200, 200, 429, 429])
})

test('a caller has no field removed on the way to the API by naming it in Connection', async () => {
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

test('the API receives no other path, URL or address than those that count', async () => {
  const claims = [
    ...['For', 'Proto', 'Host', 'User', 'Uri', 'Path', 'Ssl', 'Scheme', 'Port', 'Prefix', 'Server', 'Method'],
    ...['Client-Cert', 'Whatever'],
  ].map((name) => `X-Forwarded-${name}`)
  const names = [
    ...[...claims, 'X-Forwarded', 'Forwarded', 'X-Real-IP', 'X-Client-IP', 'True-Client-IP', 'X-Cluster-Client-IP'],
    ...['X-Original-URL', 'X-Original-URI', 'X-Original-Host', 'X-Rewrite-URL', 'X-Envoy-Original-Path', 'CF-Worker'],
    ...['Script-Name', 'Proxy', 'X-Url-Scheme', 'Front-End-Https', 'WL-Proxy-Client-IP', 'Fly-Client-IP'],
    'CF-Pseudo-IPv4',
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

test('FORWARD_HEADERS lets through what an API needs, also to count by', async () => {
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
])('a caller with %s is counted by its address', async (_, headers) => {
  expect((await send(gateway.url, { headers: IP })).status).toBe(200)
  expect((await send(gateway.url, { headers: { ...IP, ...headers } })).status).toBe(429)
  expect((await send(strict.url, { headers: { ...IP, ...headers } })).status).toBe(401)
})

test('a folded Authorization is refused', async () => {
  const bytes = 'GET / HTTP/1.1\r\nHost: gateway.example\r\nAuthorization: Bearer\r\n X\r\n\r\n'
  expect(readStatuses(await exchange(gateway.url, bytes))).toEqual([400])
})

const inField =
  (name: string) =>
  (value: string | readonly string[]): Sent => ({ headers: { [name]: value } })
const withType = (type: string, body: string): Sent => ({ headers: { 'Content-Type': type }, body })
const FORM = 'application/x-www-form-urlencoded'

// Each request has a token of its own, unless it says another. The first value that is spoilt is counted by address.
test.each<readonly [by: string, path: string, readonly Sent[], readonly number[]]>([
  ['a parameter that is there twice', '/query-deny?key=a&k%65y=b', [{}], [401]],
  [
    'a field of a form that the query or JSON gives otherwise, or as well',
    '/form-deny',
    [
      { ...withType(FORM, 'key=junk'), path: '/form-deny?key=victim' },
      { ...withType(FORM, ''), path: '/form-deny?key=victim' },
      withType('application/json', '{"key":"victim"}'),
    ],
    [401, 401, 401],
  ],
  ['a field of a form that is there twice', '/form-deny', [withType(FORM, 'key=a&key=b')], [401]],
  [
    'a key that is there twice',
    '/key',
    [
      ['K', '1'],
      ['K', '2'],
    ].map(inField('X-API-Key')),
    [401, 401],
  ],
  [
    'a key that is there twice, with skip',
    '/skipped',
    [
      ['K', '1'],
      ['K', '2'],
    ].map(inField('X-API-Key')),
    [200, 429],
  ],
  [
    'a parameter that PHP takes for the same',
    '/query',
    [{ path: '/query?api_key=K&api.key=1' }, { path: '/query?api_key=K&[api_key]=2' }],
    [200, 429],
  ],
  [
    'another spelling of the same credential',
    '/',
    ['Basic YTpiYw==', 'Basic YTpiYw', 'basic YTpiYx==', 'Junk YTpiYw===', 'YTpiYw'].map(inField('Authorization')),
    [200, 429, 429, 429, 429],
  ],
  [
    'what Rails cuts off a token, or takes off it',
    '/',
    ['Bearer tail', 'Token token="tail"', 'Bearer "tail"', 'Bearer tail;1', 'Bearer tail;2', 'BearerTail'].map(
      inField('Authorization'),
    ),
    [200, 429, 429, 200, 429, 429],
  ],
  [
    'another spelling of a cookie, or a second one',
    '/cookie',
    [
      ...['sid=X', 'a=1; sid="X"', 'sid=%58', 'sid=X; sid=1', 'SID=2; sid=X', 'sid=X; a=1 sid=3'],
      ['sid=X', 'sid=4'],
    ].map(inField('Cookie')),
    [200, 429, 429, 200, 429, 429, 429],
  ],
  [
    'a name that PHP takes for that of the cookie',
    '/php',
    ['my sid=X', 'my.sid=X', 'my[sid=X', 'a=1; my sid=Y'].map(inField('Cookie')),
    [200, 429, 429, 429],
  ],
  [
    'another spelling of a JSON body',
    '/json',
    [
      ...['{"user":{"id":"X"}}', '{"a":1, "user" : {"id":"\\u0058"} }', '{"user":{"id":"X","id":"1"}}'],
      ...['{"user":{"id":"X"},"User":{"id":2}}', '{"user":{"id":["X"]}}', '{"user":{"id":"X"}}3'],
    ].map((body, index) => withType(index % 2 ? 'text/plain' : 'application/json', body)),
    [200, 429, 200, 429, 429, 429],
  ],
  [
    'the type of a form, as frameworks read more types than one',
    '/form',
    [
      ...['multipart/mixed; boundary=b', 'multipart/x; boundary=b', 'application/x-url-encoded', 'text/plain'].map(
        (type) => withType(type, 'key=X'),
      ),
      withType('application/json', '{"other":{"key":"X"}}'),
    ],
    [200, 429, 429, 429, 200],
  ],
  [
    'another spelling of an account, or a body that not all read alike',
    '/account',
    [
      ...['"ada@x.test"', '" ADA@X.test "', '"ａｄａ@x.test"', '"ada@x.test","email":1'],
      `"ada@x.test","n":"${'x'.repeat(300_000)}"`,
    ].map((email) => ({ body: `{"email":${email}}` })),
    [200, 429, 429, 401, 401],
  ],
])('a caller is not counted as another by %s, and the API gets what was sent', async (_, path, requests, expected) => {
  const sent = requests.map((request, index): Sent => {
    const headers = { ...IP, Authorization: `Bearer ${path.slice(1, 5)}-${index}`, ...request.headers }
    return { path, method: request.body === undefined ? 'GET' : 'POST', ...request, headers }
  })
  expect(await sendInTurn(gateway.url, sent)).toEqual(expected)
  const bodies = requests.filter((_, index) => expected[index] === 200).map(({ body = '' }) => body)
  expect(gateway.upstream.take().map(({ body }) => body)).toEqual(bodies)
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
])('a token with %s makes a key like any other', async (_, token) => {
  const redis = await connectRedis(inject('redisPort'))
  onTestFinished(() => redis.close())
  const earlier = await redis.keys(`${KEY_PREFIX}*`)
  const bytes = `GET / HTTP/1.1\r\nHost: gateway.example\r\nAuthorization: ${token}\r\nConnection: close\r\n\r\n`
  expect(readStatuses(await exchange(stored.url, bytes))).toEqual([200])
  expect(readStatuses(await exchange(stored.url, bytes))).toEqual([429])
  const keys = await redis.keys(`${KEY_PREFIX}*`)
  expect(keys.filter((key) => !earlier.includes(key))).toEqual([
    expect.stringMatching(/^[\w-]{36}:default:w:\{[\w-]{22}\}$/),
  ])
  const other = bytes.replace(token, `${token.slice(0, -1)}y`)
  expect(readStatuses(await exchange(stored.url, other))).toEqual([200])
})

test.each(['\n', '\r', '\0'])('a token with %j in it is refused', async (sign) => {
  const bytes = `GET / HTTP/1.1\r\nHost: gateway.example\r\nAuthorization: Bearer X${sign}Y\r\nConnection: close\r\n\r\n`
  const answered = await exchange(gateway.url, bytes)
  expect(readStatuses(answered)).toEqual([400])
  expect(gateway.upstream.take()).toEqual([])
})
