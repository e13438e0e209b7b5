import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Pattern, parsePattern } from '../../src/request/policy/pattern.ts'
import { PatternRouter } from '../../src/request/policy/pattern-router.ts'

/** A router that answers with the patterns themselves. */
function routerOf(...patterns: readonly string[]): PatternRouter<string> {
  const router = new PatternRouter<string>()
  for (const text of patterns) router.add(parsePattern(text) as Pattern, text)
  return router
}

test.each([
  ['GET', '/login', ['/login', 'GET /login']],
  ['POST', '/login', ['/login', 'POST /login']],
  ['HEAD', '/login', ['/login', 'GET /login', 'HEAD /login']],
  ['OPTIONS', '/login', ['/login']],
  ['PROPFIND', '/login', ['/login']],
  ['GET', '/Login', []],
  ['GET', '/login/x', []],
  ['GET', '/', []],
])('PatternRouter#match() goes by method, HEAD under GET too: %s %s', (method, path, expected) => {
  const router = routerOf('/login', 'GET /login', 'POST /login', 'HEAD /login')
  expect(router.match(method, path)).toEqual(expected)
})

test.each([
  ['/users/me', ['/users/:id', '/users/me', '/users/*', '*']],
  ['/users/42', ['/users/:id', '/users/*', '*']],
  ['/users', ['/users/*', '*']],
  ['/users/42/posts', ['/users/*', '/users/:id/posts', '*']],
  ['/users/me/posts', ['/users/*', '/users/:id/posts', '*']],
  ['/', ['*']],
])('PatternRouter#match() finds all patterns that overlap, in the order added: %s', (path, expected) => {
  const router = routerOf('/users/:id', '/users/me', '/users/*', '/users/:id/posts', '*')
  expect(router.match('GET', path)).toEqual(expected)
})

test.each([
  ['/a/b/c', ['/a/*/c', '/a/:x/*']],
  ['/a/b/c/d', ['/a/:x/*']],
  ['/a/c', ['/a/:x/*']],
  ['/a', []],
])('PatternRouter#match() takes "*" for one segment within, for any number at the end: %s', (path, expected) => {
  expect(routerOf('/a/*/c', '/a/:x/*').match('GET', path)).toEqual(expected)
})

test.each([
  ['/tenants/acme', ['/tenants/*/*', '/tenants/:id/*']],
  ['/tenants/acme/users', ['/tenants/*/*', '/tenants/:id/*']],
  ['/tenants/acme/users/1', ['/tenants/*/*', '/tenants/:id/*']],
  ['/tenants', []],
])('PatternRouter#match() takes "*" before a "*" at the end for one segment, as a parameter: %s', (path, expected) => {
  expect(routerOf('/tenants/*/*', '/tenants/:id/*').match('GET', path)).toEqual(expected)
})

test.each(['/*', '/:id', '/__proto__', '/constructor', '/ALL', '/%2F'])(
  'PatternRouter#match() takes a path as a mere name: %s',
  (path) => {
    // Found twice or once: a policy counts once in any case.
    expect(new Set(routerOf('/:id', '/login').match('GET', path))).toEqual(new Set(['/:id']))
    expect(routerOf('/login', '/users/*').match('GET', path)).toEqual([])
  },
)

test.each([
  ['/login', true],
  ['/login.json', true],
  ['/login.', true],
  ['/login.tar.gz', true],
  ['/loginx', false],
  ['/login.json/x', false],
  ['/log.json', false],
])('PatternRouter#match() takes ".*" at the end for a suffix or none: %s', (path, isMatched) => {
  expect(routerOf('/login.*').match('GET', path).length > 0).toBe(isMatched)
})

test('PatternRouter#match() takes an escaped sign in a pattern for the sign itself', () => {
  expect(routerOf('/%24id', '/%2B', '/a%2C/b').match('GET', '/$id')).toEqual(['/%24id'])
  expect(routerOf('/%24id', '/%2B', '/a%2C/b').match('GET', '/+')).toEqual(['/%2B'])
  expect(routerOf('/%24id', '/%2B', '/a%2C/b').match('GET', '/a,/b')).toEqual(['/a%2C/b'])
  const router = routerOf('/v1/a%3Abatch', '/%2A', '/%3Aid')
  expect(['/v1/a:batch', '/*', '/:id', '/v1/axbatch', '/x'].map((path) => router.match('GET', path))).toEqual([
    ...[['/v1/a%3Abatch'], ['/%2A'], ['/%3Aid'], [], []],
  ])
})

/** What a pattern matches, as its documentation says it. */
function matches({ method, path }: Pattern, requestMethod: string, requestPath: string): boolean {
  const methods = method === 'GET' ? ['GET', 'HEAD'] : [method]
  if (method !== '*' && !methods.includes(requestMethod)) return false
  const split = (path: string) => path.split('/').slice(1)
  const segments = requestPath === '/' ? [] : split(requestPath)
  const wanted = path === '/' ? [] : split(path)
  const isOpen = wanted.at(-1) === '*'
  if (isOpen) wanted.pop()
  if (isOpen ? segments.length < wanted.length : segments.length !== wanted.length) return false
  return wanted.every((want, i) => want === '*' || want.startsWith(':') || want === segments[i])
}

test('PatternRouter#match() agrees with a naive matcher', () => {
  const method = fc.constantFrom('GET', 'HEAD', 'POST')
  const segments = (...names: string[]) => fc.array(fc.constantFrom(...names), { maxLength: 4 })
  const pattern = fc.record({
    method: fc.oneof(method, fc.constant('*')),
    path: segments('a', 'b', ':x', ':y', '*').map((names) => `/${names.join('/')}`),
  })
  const request = fc.record({ method, path: segments('a', 'b', 'c').map((names) => `/${names.join('/')}`) })
  fc.assert(
    fc.property(fc.array(pattern, { maxLength: 6 }), fc.array(request, { maxLength: 8 }), (patterns, requests) => {
      const router = new PatternRouter<number>()
      for (const [index, pattern] of patterns.entries()) router.add(pattern, index)
      for (const { method, path } of requests) {
        const expected = [...patterns.keys()].filter((index) => matches(patterns[index] as Pattern, method, path))
        expect([...new Set(router.match(method, path))]).toEqual(expected)
      }
    }),
    { numRuns: 1_000 },
  )
})

test('PatternRouter#matchSomeOf() finds what matches any path that begins so', () => {
  const segments = (...names: string[]) => fc.array(fc.constantFrom(...names), { maxLength: 3 })
  const pattern = segments('a', 'ab', 'b', ':x', '*').map((names) => `/${names.join('/')}`)
  const path = segments('a', 'ab', 'b', 'c').map((names) => `/${names.join('/')}`)
  fc.assert(
    fc.property(pattern, path, fc.nat({ max: 9 }), fc.boolean(), (pattern, path, length, ignoresCase) => {
      const router = new PatternRouter<string>()
      router.add(parsePattern(pattern) as Pattern, pattern, ignoresCase)
      const prefix = path.slice(0, Math.max(1, length))
      if (router.match('GET', path).length === 0) return
      expect(router.matchSomeOf('GET', prefix), `${pattern} by ${prefix}`).toEqual([pattern])
      expect(router.matchSomeOf('GET', `${path}/`)).toEqual([pattern])
    }),
    { numRuns: 2_000 },
  )
})
