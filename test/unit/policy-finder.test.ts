import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Environment, loadConfig } from '../../src/http/config/load-config.ts'
import { findPriority, PolicyFinder } from '../../src/http/request/policy/policy-finder.ts'
import { createPathReader } from '../../src/http/request/target.ts'

/** @param matches of each policy by name; undefined for one that applies everywhere */
function createFinder(matches: Readonly<Record<string, string | undefined>>, exempt?: string): PolicyFinder {
  return finderFor(
    Object.entries(matches).map(([name, match]) => ({ name, ...(match && { match }) })),
    { ...(exempt && { EXEMPT: exempt }) },
  )
}

/** @param tables of policies, as POLICIES has them, of five requests a minute unless they have a priority */
function finderFor(tables: readonly object[], env: Environment = {}): PolicyFinder {
  const POLICIES = tables.map((table) => ({ ...('priority' in table ? {} : { limits: '5/1m' }), ...table }))
  const { policies, exempt } = loadConfig({ UPSTREAM_URL: 'https://api.example.com', POLICIES, ...env })
  return new PolicyFinder(policies, exempt)
}

const readPath = createPathReader()
const at = (path: string) => readPath(new URL(`https://gateway.example${path}`).pathname)
const find = (finder: PolicyFinder, method: string, path: string) =>
  finder.find({ meant: [method], isCertain: true }, at(path))

function found(finder: PolicyFinder, method: string, path: string): (string | undefined)[][] {
  const matches = find(finder, method, path)
  return typeof matches === 'string' ? [[matches]] : matches.map(({ policy, route }) => [policy.name, route])
}

test('PolicyFinder#find() finds every policy that applies, in their order', () => {
  const finder = createFinder({ all: undefined, login: 'POST /login', writes: 'POST *, PUT *' })
  expect(found(finder, 'POST', '/login')).toEqual([
    ['all', undefined],
    ['login', 'POST /login'],
    ['writes', 'POST /*'],
  ])
  expect(found(finder, 'GET', '/login')).toEqual([['all', undefined]])
  expect(found(finder, 'PUT', '/')).toEqual([
    ['all', undefined],
    ['writes', 'PUT /*'],
  ])
})

test('PolicyFinder#find() finds a policy once, by the first of its patterns that matches', () => {
  const finder = createFinder({ users: 'GET /users/:id, /users/me, /users/*', head: 'GET /x, HEAD /x, *' })
  expect(found(finder, 'GET', '/users/me')).toEqual([
    ['users', 'GET /users/:id'],
    ['head', '* /*'],
  ])
  expect(found(finder, 'POST', '/users/me')).toEqual([
    ['users', '* /users/me'],
    ['head', '* /*'],
  ])
  expect(found(finder, 'HEAD', '/x')).toEqual([['head', 'GET /x']])
})

test('PolicyFinder#find() finds nothing where nothing applies', () => {
  expect(found(createFinder({ login: '/login' }), 'GET', '/')).toEqual([])
})

test('PolicyFinder#find() reports a request that is exempt', () => {
  const finder = createFinder({ all: undefined, health: '/healthz' }, 'OPTIONS *, GET /healthz, /static/*')
  for (const [method, path] of [
    ['OPTIONS', '/'],
    ['OPTIONS', '/a/b'],
    ['GET', '/healthz'],
    ['HEAD', '/healthz'],
    ['POST', '/static/a'],
  ] as const) {
    expect(find(finder, method, path)).toBe('exempt')
  }
  expect(found(finder, 'POST', '/healthz').map(([name]) => name)).toEqual(['all', 'health'])
  expect(found(finder, 'GET', '/healthz/deep').map(([name]) => name)).toEqual(['all'])
})

test('PolicyFinder#find() finds each policy as if it were the only one', () => {
  const pattern = fc
    .tuple(
      fc.constantFrom('GET ', 'POST ', 'HEAD ', '* ', ''),
      fc.array(fc.constantFrom('a', 'b', ':x', '*'), { maxLength: 3 }),
    )
    .map(([method, segments]) => `${method}/${segments.join('/')}`)
  const match = fc.option(fc.array(pattern, { minLength: 1, maxLength: 3 }), { nil: undefined })
  const request = fc.tuple(
    fc.constantFrom('GET', 'POST', 'HEAD', 'PUT'),
    fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 4 }).map((segments) => `/${segments.join('/')}`),
  )
  fc.assert(
    fc.property(fc.array(match, { minLength: 1, maxLength: 5 }), fc.array(request), (lists, requests) => {
      const matches = lists.map((list, i) => [`p${i}`, list?.join()] as const)
      const together = createFinder(Object.fromEntries(matches))
      const alone = matches.map(([name, match]) => createFinder({ [name]: match }))
      for (const [method, path] of requests) {
        const byName = (entries: (string | undefined)[][]) => entries.toSorted(([a = ''], [b = '']) => (a < b ? -1 : 1))
        const expected = alone.flatMap((finder) => found(finder, method, path))
        expect(byName(found(together, method, path))).toEqual(expected)
      }
    }),
    { numRuns: 300 },
  )
})

test('PolicyFinder#find() exempts no path that some API may read otherwise', () => {
  const finder = createFinder({ all: undefined }, 'GET /public/*, OPTIONS *')
  for (const path of ['/public/a', '/public/a/', '/public/caf%C3%A9', '/public/%61@b:c', '/x/../public/a']) {
    expect(find(finder, 'GET', path), path).toBe('exempt')
  }
  const doubtful = [
    ...['..%2Fadmin', '..%5Cadmin', 'a%2Fb', '..;/admin', 'a;b', 'a%3Bb', '%252e%252e/admin', 'a%00', 'a%0A', '%7F'],
  ]
  for (const path of [
    ...doubtful.map((name) => `/public/${name}`),
    ...['/public//a', '//public/admin', '/\\public/admin', '/public/%C0%AF'],
  ]) {
    expect(found(finder, 'GET', path), path).toEqual([['all', undefined]])
  }
})

test.each([
  ['/users', '/users/:id', '/users', ['exempt']],
  // To Fastify this is /users/:id.
  ['/users', '/users/:id', '/users/', ['p']],
  ['/users', '/users/*', '/users/', ['exempt']],
  ['/users', '/users/:id/x', '/users/', ['exempt']],
  ['/users', '/teams/:id', '/users/', ['exempt']],
  ['/users, /users/:name', '/users/:id', '/users/', ['exempt']],
  ['/users/*', '/users/:id', '/users/', ['exempt']],
  ['/users, /users/me', '/users/:id', '/users/', ['p']],
  ['/', '/:id', '/', ['exempt']],
])('PolicyFinder#find() with %s exempt and a policy for %s, by %s', (exempt, match, path, expected) => {
  expect(found(createFinder({ p: match }, exempt), 'GET', path).map(([name]) => name)).toEqual(expected)
})

test('PolicyFinder#find() exempts no request that names a second method', () => {
  const finder = createFinder({ all: undefined, removals: 'DELETE /a' }, 'POST /a')
  expect(finder.find({ meant: ['POST'], isCertain: true }, at('/a'))).toBe('exempt')
  expect(finder.find({ meant: ['POST'], isCertain: false }, at('/a'))).not.toBe('exempt')
  const matches = finder.find({ meant: ['POST', 'DELETE'], isCertain: false }, at('/a'))
  expect(matches).toMatchObject([{ policy: { name: 'all' } }, { policy: { name: 'removals' } }])
})

test('PolicyFinder#find() does not mind the case of a path, unless a policy does, or an exemption', () => {
  const match = '/login/%C3%A9'
  const tables = [
    { name: 'exactly', match, ignore_case: false },
    { name: 'anyhow', match },
  ]
  const finder = finderFor(tables, { EXEMPT: '/healthz' })
  expect(found(finder, 'GET', '/login/%c3%a9').map(([name]) => name)).toEqual(['exactly', 'anyhow'])
  expect(found(finder, 'GET', '/LogIn/%c3%a9').map(([name]) => name)).toEqual(['anyhow'])
  expect(found(finder, 'GET', '/Healthz')).toEqual([])
  expect(found(finder, 'GET', '/LOGIN/%C3%89').map(([name]) => name)).toEqual(['anyhow'])
})

test('PolicyFinder#find() takes the route without a last slash, whatever comes first', () => {
  for (const match of ['GET /users/:id, GET /users', 'GET /users, GET /users/:id']) {
    const finder = finderFor([{ name: 'users', match, by: 'ip+route' }])
    expect(found(finder, 'GET', '/users')).toEqual([['users', 'GET /users']])
    expect(found(finder, 'GET', '/users/')).toEqual([['users', 'GET /users']])
    expect(found(finder, 'GET', '/users/7')).toEqual([['users', 'GET /users/:id']])
  }
})

test('findPriority() lets no request rise by a method that it only names', () => {
  const finder = finderFor([
    { name: 'orders', match: 'POST /orders, PUT /orders', priority: 'critical', limits: '5/1m' },
  ])
  const priority = (...meant: string[]) => {
    const found = finder.find({ meant, isCertain: meant.length === 1 }, at('/orders'))
    return typeof found === 'string' ? found : findPriority(found, at('/orders'))
  }
  expect(priority('POST')).toBe('critical')
  expect(priority('GET')).toBe('default')
  expect(priority('GET', 'POST')).toBe('default')
  expect(priority('POST', 'GET')).toBe('default')
  expect(priority('POST', 'PUT')).toBe('critical')
})

test('findPriority() lets no request rise by a path that some API may read otherwise', () => {
  const finder = finderFor(
    [
      { name: 'payments', priority: 'critical', match: '/pay' },
      { name: 'reports', priority: 'sheddable', match: '/reports/*' },
      { name: 'orders', priority: 'critical', match: '/orders/:id' },
    ],
    { RATE_LIMITS: '9/1m' },
  )
  const priority = (path: string) => {
    const found = find(finder, 'GET', path)
    return typeof found === 'string' ? found : findPriority(found, at(path))
  }
  expect(
    ['/pay', '/x', '/reports/1', '/pay;x', '/x/..%2Fpay', '/reports/1;x', '/reports/..%2Fpay'].map(priority),
  ).toEqual(['critical', 'default', 'sheddable', 'default', 'ambiguous', 'sheddable', 'sheddable'])
  // To most APIs, the list and not one of its items.
  expect(['/orders/1', '/orders/1/', '/orders/', '/orders', '/reports/', '/pay/'].map(priority)).toEqual([
    ...['critical', 'critical', 'default', 'default', 'sheddable', 'critical'],
  ])
  // To an API that minds the case, another path.
  expect(['/Pay', '/PAY/', '/Orders/a', '/orders/A', '/Reports/1'].map(priority)).toEqual([
    ...['default', 'default', 'default', 'critical', 'sheddable'],
  ])
})

test.each([
  // What begins otherwise is nobody's business.
  ['GET', '/wiki/What%3F', 'GET /login, /users/:id', []],
  ['GET', '/login%3F', 'POST /login', []],
  ['GET', '/logi%3F', 'GET /loan', []],
  ['GET', '/login/x%3F', 'GET /login', []],
  // What is charged in any case need not be certain.
  ['GET', '/users/a%2Fb', '/users/*', ['p']],
  ['GET', '/login;x', undefined, ['p']],
  ['GET', '/x/..%2Flogin', 'GET *', ['p']],
  ['GET', '/users/', 'GET /users/:id', ['p']],
  ['GET', '/users/x/..', 'GET /users/:id', ['p']],
  ['GET', '/users/', 'GET /users', ['p']],
  ['GET', '/users', 'GET /users/:id', []],
  ['GET', '/', 'GET /:id', []],
  // What could be charged otherwise must be.
  ['POST', '/login%3F', 'POST /login', ['ambiguous']],
  ['POST', '/login/%3F', 'POST /login', ['ambiguous']],
  ['POST', '/lo%67%2569n', 'POST /login', ['ambiguous']],
  ['HEAD', '/login;', 'GET /login', ['ambiguous']],
  ['GET', '/users;/1', '/users/:id', ['ambiguous']],
  ['GET', '/users/1%2Fx', '/users/:id/x', ['ambiguous']],
  ['GET', '/a;/b/c', '/*/c', ['ambiguous']],
  ['GET', '//h/login', '/login', ['ambiguous']],
  ['GET', '/x/..;/login', '/login', ['ambiguous']],
  ['GET', '/a//b', '/a/:x/b', ['ambiguous']],
  ['GET', '/login.js;n', '/login.*', ['p']],
  ['GET', '/login;.json', '/login.*', ['ambiguous']],
  ['GET', '/login.json%00/x', '/login.*', ['ambiguous']],
])('PolicyFinder#find() by %s %s and a policy for %s', (method, path, match, expected) => {
  expect(found(createFinder({ p: match }), method, path).map(([name]) => name)).toEqual(expected)
})

test('PolicyFinder#find() refuses no target for the sake of a policy that refuses nothing', () => {
  const finder = finderFor([
    { name: 'shadow', match: '/login', mode: 'shadow' },
    { name: 'class', priority: 'critical', match: '/pay' },
    { name: 'routes', by: 'route', mode: 'shadow' },
  ])
  expect(found(finder, 'GET', '/x/..%2Flogin')).toEqual([['routes', undefined]])
})

test('PolicyFinder#find() refuses a target that may be another route, where routes have budgets of their own', () => {
  const finder = finderFor([{ name: 'routes', by: 'token+route', match: '/a/:x, /b/*' }])
  expect(found(finder, 'GET', '/b/..%2Fa%2F1')).toEqual([['ambiguous']])
  expect(found(finder, 'GET', '/b/c%2F1')).toEqual([['routes', '* /b/*']])
})

test('PolicyFinder#find() folds the letters that some API folds', () => {
  const finder = finderFor([{ name: 'p', match: '/:id/kiss' }])
  for (const path of ['/É/kiss', '/1/Kiss', '/1/kiſſ', '/1/kıss', '/1/KİSS', '/1/kiß', '/1/KIẞ']) {
    expect(found(finder, 'GET', path), path).toEqual([['p', '* /:id/kiss']])
  }
  expect(found(finder, 'GET', '/caf%C3%A9')).toEqual([])
})

test('PolicyFinder knows the methods that patterns name', () => {
  expect(createFinder({ all: undefined }).methods).toEqual([])
  expect(createFinder({ all: '*' }).methods).toEqual([])
  expect(createFinder({ get: 'GET /', post: 'POST /a, GET /b' }, 'PUT /').methods.toSorted()).toEqual([
    'GET',
    'HEAD',
    'POST',
    'PUT',
  ])
  expect(createFinder({ post: 'POST /' }).methods).toEqual(['POST'])
})

test('PolicyFinder#find() is certain where no pattern is', () => {
  expect(find(createFinder({ all: undefined, other: undefined }), 'GET', '/a')).toMatchObject([
    { policy: { name: 'all' }, route: undefined, isCertain: true },
    { policy: { name: 'other' }, route: undefined, isCertain: true },
  ])
})

test('PolicyFinder#find() of a request that may mean several methods', () => {
  const finder = createFinder({ all: '*', put: 'PUT /a', both: 'PUT /a, POST /a', post: 'POST /a' }, 'POST /a')
  const matches = finder.find({ meant: ['POST', 'PUT'], isCertain: false }, at('/a'))
  expect(matches).toMatchObject([
    { policy: { name: 'all' }, isCertain: true },
    { policy: { name: 'both' }, isCertain: true },
    { policy: { name: 'post' }, isCertain: false },
    { policy: { name: 'put' }, isCertain: false },
  ])
  expect(finder.find({ meant: ['POST'], isCertain: true }, at('/a'))).toBe('exempt')
  expect(finder.find({ meant: ['POST'], isCertain: false }, at('/a'))).not.toBe('exempt')
})

test.each([
  ['/a/', '/a/:id', 'all'],
  ['/a', '/a/:id', 'all'],
  ['/a', '/a', 'exempt'],
  ['/a/', '/a', 'exempt'],
  ['/a/', '/a/*', 'exempt'],
  ['/a/b/', '/a/:id', 'exempt'],
  ['/a;x', '/a;x', 'all'],
])('PolicyFinder#find() of %s with the exemption %s: %s', (path, exempt, expected) => {
  const matches = find(createFinder({ all: undefined }, exempt), 'GET', path)
  const names = typeof matches === 'string' ? matches : matches.map(({ policy }) => policy.name).join()
  expect(names).toBe(expected)
})

test.each<[table: object, isEvaded: boolean]>([
  [{ match: '/a/b' }, true],
  [{ match: '/a/b', mode: 'shadow' }, false],
  [{ match: '/x/b' }, false],
  [{ match: '/a/b', priority: 'critical' }, false],
  [{ match: '/a/b', priority: 'sheddable' }, true],
  [{ match: '/a/*' }, false],
  [{ match: '/a/*', by: 'route' }, false],
  [{ match: '/a/b, /a/*', by: 'route' }, true],
  [{ match: '/a/b, /a/*', by: 'ip' }, false],
])('an ambiguous path may evade the policy %j: %s', (table, isEvaded) => {
  const finder = finderFor([{ name: 'own', ...table }, { name: 'all' }])
  expect(find(finder, 'GET', '/a/x;b') === 'ambiguous').toBe(false)
  expect(find(finder, 'GET', '/a/;b') === 'ambiguous').toBe(isEvaded)
})

test('an ambiguous path evades policies that count everything by its route', () => {
  const createBy = (by: string, mode = 'enforce') => finderFor([{ name: 'own', by, mode }], { RATE_LIMITS: 'off' })
  expect(find(createBy('route'), 'GET', '/a;b')).toBe('ambiguous')
  expect(find(createBy('ip+route'), 'GET', '/a;b')).toBe('ambiguous')
  expect(find(createBy('ip'), 'GET', '/a;b')).not.toBe('ambiguous')
  expect(find(createBy('route', 'shadow'), 'GET', '/a;b')).not.toBe('ambiguous')
  expect(find(createBy('route'), 'GET', '/a')).not.toBe('ambiguous')
})
