/** A caller who would rather not be counted by the policy of the path that he asks for. */
import { expect, test } from 'vitest'
import { send } from '../../support/http-client.ts'
import { exchange, LAST, statusesOf } from '../../support/raw-http.ts'
import { startOwnThreatenedGateway } from '../../support/threatened-gateway.ts'

const LOGIN = [{ name: 'login', limits: '1/1h', by: 'global', match: 'POST /users/@me/login' }]

test.each([
  ['an escape', '/users/@me/%6Cogin'],
  ['an escape of what may stand for itself', '/users/%40me/login'],
  ['escaped dots', '/x/%2e%2E/users/@me/login'],
  ['dot segments', '/x/.././users/@me/login'],
  ['backslashes', '/\\users\\@me/login'],
  ['a backslash that goes up', '/x\\..\\users/@me/login'],
  ['an escaped backslash', '/users%5C@me%5Clogin'],
  ['doubled slashes', '/users//@me///login'],
  ['doubled slashes first', '//users/@me/login'],
  ['a host before', '//gateway.example/users/@me/login'],
  ['escaped slashes', '/users%2F@me%2flogin'],
  ['escaped slashes that go up', '/x%2F..%2Fusers/@me/login'],
  ['a trailing slash', '/users/@me/login/'],
  ['an escaped trailing slash', '/users/@me/login%2F'],
  ['matrix parameters', '/users;v=1/@me;a;b=c/login;x'],
  ['an escaped matrix parameter', '/users/@me/login%3Bx=1'],
  ['a dot segment with parameters', '/x/..;/users/@me/login'],
  ['a NUL', '/users/@me/login%00.png'],
  ['a query', '/users/@me/login?/../x'],
  ['a fragment', '/users/@me/login#/../x'],
  ['a URL as its target', 'http://elsewhere.example/users/@me/login'],
])('cannot by %s', async (_, path) => {
  const gateway = await startOwnThreatenedGateway({ POLICIES: LOGIN, EXEMPT: 'GET /users/*' })
  const login = (path: string) => send(gateway.url, { method: 'POST', path })
  expect((await login('/users/@me/login')).status).toBe(200)
  expect((await login(path)).status).toBe(429)
  expect(gateway.upstream.take()).toHaveLength(1)
})

test('cannot by the case of the path, where the policy says that the API does not mind it', async () => {
  const policies = [
    ...LOGIN.map((policy) => ({ ...policy, ignore_case: true })),
    { name: 'case', limits: '9/1h', match: '/login' },
  ]
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
])('cannot by naming another method in %s', async (_, headers, query) => {
  const gateway = await startOwnThreatenedGateway({
    POLICIES: [{ name: 'removals', limits: '1/1h', by: 'global', match: 'DELETE /things/:id' }],
    EXEMPT: 'POST /things/:id',
  })
  expect((await send(gateway.url, { method: 'DELETE', path: '/things/1' })).status).toBe(200)
  expect((await send(gateway.url, { method: 'POST', path: `/things/1${query}`, headers })).status).toBe(429)
  expect((await send(gateway.url, { method: 'POST', path: '/things/1' })).status).toBe(200)
})

test('cannot by asking for HEAD in place of GET', async () => {
  const gateway = await startOwnThreatenedGateway({
    POLICIES: [{ name: 'search', limits: '1/1h', by: 'global', match: 'GET /search' }],
  })
  expect((await send(gateway.url, { path: '/search' })).status).toBe(200)
  expect((await send(gateway.url, { method: 'HEAD', path: '/search' })).status).toBe(429)
})

test.each(['post', 'Post', 'FROB', 'GETT', 'POST\t', 'ALL'])('cannot by a method that is none: %j', async (method) => {
  const gateway = await startOwnThreatenedGateway({ POLICIES: LOGIN })
  const bytes = `${method} /users/@me/login HTTP/1.1\r\nHost: gateway.example\r\n\r\n${LAST}`
  expect(statusesOf(await exchange(gateway.url, bytes))).toEqual([method === 'POST\t' ? 400 : 501])
  expect(gateway.upstream.take()).toEqual([])
})

test.each(['X-Original-URL', 'X-Rewrite-URL', 'X-Forwarded-Prefix'])(
  'cannot by naming another path in %s',
  async (name) => {
    const gateway = await startOwnThreatenedGateway({})
    await send(gateway.url, { path: '/cheap', headers: { [name]: '/users/@me/login' } })
    const [recorded] = gateway.upstream.take()
    expect(recorded?.line).toBe('GET /cheap')
    expect(recorded?.headers).not.toHaveProperty(name.toLowerCase())
  },
)

test.each([
  ...[
    '/public/..%2Fadmin',
    '/public/..%5Cadmin',
    '/public/..;/admin',
    '/public/a;b',
    '/public/a%3Bb',
    '/public/%252e%252e/admin',
  ],
  ...[
    '/public/a%00',
    '/public/%C0%AE%C0%AE/admin',
    '//public/admin',
    '/\\public/admin',
    '/Public/a',
    '/public/../admin',
  ],
])('cannot by a path that only looks exempt: %s', async (path) => {
  const gateway = await startOwnThreatenedGateway({ RATE_LIMITS: '1/1h', EXEMPT: '/public/*' })
  expect((await send(gateway.url, { path: '/public/a' })).headers).not.toHaveProperty('ratelimit')
  expect((await send(gateway.url, { path })).headers).toHaveProperty('ratelimit')
})

test('cannot spread over the spellings of a path, where it is counted by route', async () => {
  const gateway = await startOwnThreatenedGateway({ POLICIES: [{ name: 'routes', limits: '1/1h', by: 'route' }] })
  const statuses: number[] = []
  for (const path of ['/a/b', '/a/b;1', '/a/b;2', '/a%2Fb', '/%61/b/', '/a/b%00', '/a/c']) {
    statuses.push((await send(gateway.url, { path })).status)
  }
  expect(statuses).toEqual([200, 429, 429, 429, 429, 429, 200])
})
