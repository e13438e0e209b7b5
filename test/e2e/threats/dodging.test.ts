/** A caller who would rather not be counted by the policy of the path that he asks for. */
import { beforeEach, describe, expect, test } from 'vitest'
import { json, send, sendInTurn } from '../../support/http-client.ts'
import { exchange, LAST, readStatuses } from '../../support/raw-http.ts'
import { share } from '../../support/share.ts'
import { startOwnThreatenedGateway, startThreatenedGateway } from '../../support/threatened-gateway.ts'

const LOGIN = [{ name: 'login', limits: '1/1h', by: 'ip', match: 'POST /users/@me/login' }]

const gateway = share(() => {
  const policies = [
    ...LOGIN,
    { name: 'suffixed', limits: '1/1h', by: 'ip', match: 'PUT /login.*, PUT /index.php/login' },
    { name: 'removals', limits: '1/1h', by: 'ip', match: 'DELETE /things/:id' },
  ]
  const exempt = 'GET /users/*, POST /things/:id, GET /public/*'
  return startThreatenedGateway({ POLICIES: policies, EXEMPT: exempt })
})

let callers = 0
/** The address of a caller whom no other test has met. */
let IP: { readonly 'CF-Connecting-IP': string }
beforeEach(() => {
  IP = { 'CF-Connecting-IP': `203.0.113.${callers++}` }
  gateway.upstream.take()
})

test.each([
  ['an escape', '/users/@me/%6Cogin'],
  ['an escape of what may stand for itself', '/users/%40me/login'],
  ['escaped dots', '/x/%2e%2E/users/@me/login'],
  ['dot segments', '/x/.././users/@me/login'],
  ['backslashes', '/\\users\\@me/login'],
  ['a backslash that goes up', '/x\\..\\users/@me/login'],
  ['doubled slashes', '/users//@me///login'],
  ['doubled slashes first', '//users/@me/login'],
  ['a trailing slash', '/users/@me/login/'],
  ['a query', '/users/@me/login?/../x'],
  ['a fragment', '/users/@me/login#/../x'],
  ['a URL as its target', 'http://elsewhere.example/users/@me/login'],
  ['more steps up than there are', '/x//../../users/@me/login'],
  ['a dot at the end', '/users/@me/login/.'],
])('a policy is not dodged by %s', async (_, path) => {
  const requests = ['/users/@me/login', path].map((path) => ({ method: 'POST', path, headers: IP }))
  expect(await sendInTurn(gateway.url, requests)).toEqual([200, 429])
  expect(gateway.upstream.take()).toHaveLength(1)
})

describe('what APIs differ about', () => {
  test.each([
    ...['/users%5C@me%5Clogin', '/users%2F@me%2flogin', '/x%2F..%2Fusers/@me/login', '/users/@me/login%2F'],
    ...['/users;v=1/@me;a;b=c/login;x', '/users/@me/login%3Bx=1', '/users/@me/login;/x', '/x/..;/users/@me/login'],
    ...['/users/@me/login%00.png', '/users/@me/login%0A', '/users/@me/login%3F', '/users/@me/login%23'],
    '/users/@me/login%20',
    ...['/users/@me/%256Cogin', '/x/%252e%252e/users/@me/login', '/users/@me%252Flogin', '/users/@me/login%253Fx'],
    ...['//gateway.example/users/@me/login', '/\\gateway.example/users/@me/login', '/%C0%AE%C0%AE/users/@me/login'],
  ])('is refused where another policy could be meant: %s', async (path) => {
    const answer = await send(gateway.url, { method: 'POST', path })
    expect([answer.status, answer.headers['content-type']]).toEqual([400, 'application/problem+json'])
    expect(json(answer)).toEqual({
      type: '/_sluice/errors#ambiguous_path',
      title: 'Ambiguous Target',
      status: 400,
      detail: expect.any(String),
      code: 'ambiguous_path',
    })
    expect(gateway.upstream.take()).toEqual([])
  })

  test.each(['/wiki/What%3F', '/files/a%2Fb', '/a;v=1', '/search/100%25', '/u/@me%00', '/v//w'])(
    'passes, and is charged by its canonical path, where none could: %s',
    async (path) => {
      expect((await send(gateway.url, { method: 'POST', path })).status).toBe(200)
      const [recorded] = gateway.upstream.take()
      expect(recorded?.line).toBe(`POST ${path}`)
    },
  )

  test('passes by other methods than those of the policy', async () => {
    const { status, headers } = await send(gateway.url, { path: '/users/@me/login%3F' })
    expect(status).toBe(200)
    // Not exempt, for all that.
    expect(headers).toHaveProperty('ratelimit')
  })

  test('suffixes and script names are for the patterns', async () => {
    const paths = ['/login', '/login.json', '/login.x', '/index.php/login', '/login.json%00']
    const requests = paths.map((path) => ({ method: 'PUT', path, headers: IP }))
    expect(await sendInTurn(gateway.url, requests)).toEqual([200, 429, 429, 429, 429])
  })
})

test('what the API keeps as data is not ambiguous', async () => {
  const gateway = await startOwnThreatenedGateway({ POLICIES: LOGIN, LITERAL_IN_PATHS: '%2F ;' })
  const post = async (path: string) => (await send(gateway.url, { method: 'POST', path })).status
  expect(await post('/users/@me%2Flogin')).toBe(200)
  expect(await post('/users/@me/login;x')).toBe(200)
  expect(await post('/users/@me/login%5C')).toBe(400)
  expect(await post('/x/..%2Fusers/@me/login')).toBe(400)
})

test('a policy is not dodged by the case of the path, which many APIs do not mind', async () => {
  const policies = [...LOGIN, { name: 'case', limits: '9/1h', match: '/login' }]
  const gateway = await startOwnThreatenedGateway({ POLICIES: policies })
  const statuses: number[] = []
  for (const path of ['/users/@me/login', '/Users/@ME/LogIn', '/USERS/%40me/login', '/users/@me/other']) {
    statuses.push((await send(gateway.url, { method: 'POST', path })).status)
  }
  expect(statuses).toEqual([200, 429, 429, 200])
})

test.each([
  ['X-HTTP-Method-Override', { 'X-HTTP-Method-Override': 'delete' }, ''],
  ['X-HTTP-Method', { 'X-HTTP-Method': ' DELETE ' }, ''],
  ['X-Method-Override', { 'X-Method-Override': 'PUT, DELETE' }, ''],
  ['_method in the query', {}, '?_method=delete'],
  ['_method in the query, escaped', {}, '?%5fm%65thod=DELETE'],
  ['.method in the query, as PHP takes it', {}, '?a=1&.method=DELETE'],
  ['_method after a space, as PHP takes it', {}, '?+_method=DELETE'],
  ['_method with a NUL and more after it, as PHP takes it', {}, `?_method%00${'x'.repeat(40)}=DELETE`],
  ['_method after an escaped question mark', {}, '%3F_method=DELETE'],
  ['_method with more than a name', {}, '?_method=DELETE%00,x'],
  ['X-HTTP-Method-Override with more than a name', { 'X-HTTP-Method-Override': 'DELETE;q=1' }, ''],
  ['a field too long to be read', { 'X-HTTP-Method': `${'x,'.repeat(7_000)}DELETE` }, ''],
  ['a parameter too often there to be read', {}, `?${'_method=x&'.repeat(700)}_method=DELETE`],
])('a policy is not dodged by naming another method in %s', async (_, headers, query) => {
  const call = async (method: string, path: string, more = {}) =>
    (await send(gateway.url, { method, path, headers: { ...IP, ...more } })).status
  expect(await call('DELETE', '/things/1')).toBe(200)
  expect(await call('POST', `/things/1${query}`, headers)).toBe(429)
  expect(await call('POST', '/things/1')).toBe(200)
})

test('a method that no policy names makes no difference, but for an exemption', async () => {
  const gateway = await startOwnThreatenedGateway({ RATE_LIMITS: '9/1h', POLICIES: LOGIN, EXEMPT: 'POST /free' })
  const headers = { 'X-HTTP-Method-Override': 'PURGE' }
  expect((await send(gateway.url, { method: 'POST', path: '/users/@me/login', headers })).status).toBe(200)
  expect((await send(gateway.url, { method: 'POST', path: '/free', headers })).headers).toHaveProperty('ratelimit')
  expect((await send(gateway.url, { method: 'POST', path: '/free' })).headers).not.toHaveProperty('ratelimit')
})

test('a policy for GET is not dodged by HEAD', async () => {
  const policy = { name: 'search', limits: '1/1h', by: 'ip', match: 'GET /search' }
  const own = await startOwnThreatenedGateway({ POLICIES: [policy] })
  const search = { path: '/search', headers: IP }
  expect(await sendInTurn(own.url, [search, { ...search, method: 'HEAD' }])).toEqual([200, 429])
})

test.each(['POST', 'OPTIONS', 'DELETE', 'HEAD'])(
  'a policy for GET is not dodged by %s for a WebSocket, which the runtime would open by GET',
  async (method) => {
    const length = method === 'POST' ? 'Content-Length: 4\r\n' : ''
    const request = `${method} /socket HTTP/1.1\r\nHost: gateway.example\r\nUpgrade: WebSocket\r\n${length}\r\n`
    expect(readStatuses(await exchange(gateway.url, `${request}${length && 'body'}${LAST}`))).toEqual([200, 200])
    expect(gateway.upstream.take()[0]).toMatchObject({ line: `${method} /socket` })
  },
)

test.each(['post', 'Post', 'FROB', 'GETT', 'POST\t', 'ALL'])('an unknown method is refused: %j', async (method) => {
  const bytes = `${method} /users/@me/login HTTP/1.1\r\nHost: gateway.example\r\n\r\n${LAST}`
  expect(readStatuses(await exchange(gateway.url, bytes))).toEqual([method === 'POST\t' ? 400 : 501])
  expect(gateway.upstream.take()).toEqual([])
})

test.each([
  ...['/public/..%2Fadmin', '/public/..%5Cadmin', '/public/..;/admin', '/public/a;b', '/public/a%3Bb'],
  '/public/%252e%252e/admin',
  ...['/public/a%00', '/public/%C0%AE%C0%AE/admin', '//public/admin', '/\\public/admin', '/Public/a'],
  '/public/../admin',
])('a path that only looks exempt is limited: %s', async (path) => {
  expect((await send(gateway.url, { path: '/public/a' })).headers).not.toHaveProperty('ratelimit')
  expect((await send(gateway.url, { path })).headers).toHaveProperty('ratelimit')
})

test('all spellings of a path share the limit of its route', async () => {
  const gateway = await startOwnThreatenedGateway({ POLICIES: [{ name: 'routes', limits: '1/1h', by: 'route' }] })
  const paths = ['/a/b', '/%61/b/', '/x/../a/b', '/a/b;1', '/a%2Fb', '/a/b%00', '//h/a/b', '//i/a/b', '/a//b', '/a/c']
  const requests = [...paths.map((path) => ({ path })), { method: 'HEAD', path: '/a/b' }]
  expect(await sendInTurn(gateway.url, requests)).toEqual([200, 429, 429, 400, 400, 400, 400, 400, 400, 200, 429])
})
