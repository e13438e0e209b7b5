import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Pattern } from '../../src/core/model/policy.ts'
import { PatternRouter, parsePattern } from '../../src/http/request/policy/pattern.ts'

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
