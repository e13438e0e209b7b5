import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Pattern } from '../../src/core/model/policy.ts'
import {
  describeExpectedPattern,
  mayOverlap,
  PatternRouter,
  parsePattern,
} from '../../src/http/request/policy/pattern.ts'

test.each([
  ['/login', '*', '/login'],
  ['POST /login', 'POST', '/login'],
  ['propfind /login', 'PROPFIND', '/login'],
  ['/login.*', '*', '/login.*'],
  ['GET /users/:id/posts.*', 'GET', '/users/:id/posts.*'],
  ['/a,b', '*', '/a,b'],
  ['/odata/%24metadata', '*', '/odata/%24metadata'],
  ['post /login', 'POST', '/login'],
  ['  POST   /login  ', 'POST', '/login'],
  ['* /login', '*', '/login'],
  ['*', '*', '/*'],
  ['OPTIONS *', 'OPTIONS', '/*'],
  ['GET /', 'GET', '/'],
  ['GET /*', 'GET', '/*'],
  ['GET /users/:id', 'GET', '/users/:id'],
  ['GET /users/:user_id/posts/:post', 'GET', '/users/:user_id/posts/:post'],
  ['GET /a/*/c', 'GET', '/a/*/c'],
  ['PUT /upload/*', 'PUT', '/upload/*'],
  ['/a;v=1/b@c', '*', '/a;v=1/b@c'],
])('parsePattern() reads "%s"', (text, method, path) => {
  expect(parsePattern(text)).toEqual({ method, path })
})

test.each([
  ['/login/', '/login'],
  ['//login', '/login'],
  ['/x/../login', '/login'],
  ['/%6Cogin', '/login'],
  ['/a%2fb', '/a%2Fb'],
  ['/caf\u00e9', '/caf%C3%A9'],
  ['/upload/*/', '/upload/*'],
  ['/:id/', '/:id'],
  ['/users/%40me', '/users/@me'],
  ['/a%5b1%5d', '/a%5B1%5D'],
])('parsePattern() makes the path canonical, as those of requests are: %s', (text, path) => {
  expect(parsePattern(text)?.path).toBe(path)
})

test.each(['/%3Aid', '/a%2A', '/%3a', '/%2a'])('parsePattern() makes no wildcard of an escaped sign: %s', (text) => {
  expect(parsePattern(text)?.path).toBe(text.toUpperCase().replace('ID', 'id').replace('/A%', '/a%'))
})

test.each([
  ...['', ' ', 'login', 'GET', 'GET login', 'GET POST /login', 'GET, /login', 'GET/login', 'ALL /login', 'ANY *'],
  ...['GETT /login', 'GET-POST /login', 'M-SEARCH /login'],
  ...['/log in', 'GET /a /b', '/login?next=1', '/login#top', '/a\\b', 'https://api.example.com/login'],
  ...['/users/:', '/users/:id?', '/users/:id{[0-9]+}', '/users/:a-b', '/users/me:id', '/a*', '/*a', '/a/**', '/{a}'],
  ...['/.*', '/a.*/b', '/:id.*', '/*.*', '/a.**'],
])('parsePattern() refuses "%s"', (text) => {
  expect(parsePattern(text)).toBeUndefined()
})

test.each([
  ['/users/<id>', '":name"'],
  ['/users/<int:id>/posts', '":name"'],
  ['/users/[id]', '":name"'],
  ['/users/[...rest]', '":name"'],
  ['/users/{id}', '":name"'],
  ['GET /users/$id', '":name"'],
  ['/users/+', '"*" for one segment'],
  ['/users/+/posts', '"*" for one segment'],
  ['/users/#', '"*" for one segment'],
  ['POST /login,/x', 'an item for each pattern'],
  ['POST /login, GET /x', 'an item for each pattern'],
  ['/login,GET /x', 'an item for each pattern'],
])('parsePattern() refuses what other routers take for a parameter, and says what to write: %s', (text, instead) => {
  expect(parsePattern(text)).toBeUndefined()
  expect(describeExpectedPattern(text)).toContain(instead)
})

test.each(['/%24id', '/%5Bid%5D', '/%3Cid%3E', '/users/%2B', '/a%2C/b'])(
  'parsePattern() takes such a sign, escaped, for itself: %s',
  (text) => {
    const pattern = parsePattern(text)
    expect(pattern?.path).toBe(text)
    expect(parsePattern(pattern?.path ?? '')).toEqual(pattern)
  },
)

test.each([
  ['/login', '/login', true],
  ['POST /login', 'GET /login', false],
  ['GET /login', 'HEAD /login', true],
  ['/users/:id', '/users', true],
  ['/users/:id', '/users/:id/posts', false],
  ['/users/*', '/users/:id/posts', true],
  ['/login.*', '/login.json', true],
  ['/login', '/logout', false],
  ['/v1/*', '/v2/*', false],
  ['*', 'POST /login', true],
])('mayOverlap() of "%s" and "%s" is %s', (one, other, expected) => {
  const [first, second] = [one, other].map((text) => parsePattern(text) as Pattern) as [Pattern, Pattern]
  expect([mayOverlap(first, second), mayOverlap(second, first)]).toEqual([expected, expected])
})

/** A router that answers with the patterns themselves. */
function createRouter(...patterns: readonly string[]): PatternRouter<string> {
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
  const router = createRouter('/login', 'GET /login', 'POST /login', 'HEAD /login')
  expect(router.match(method, path)).toEqual(expected)
})

test.each(['/*', '/:id', '/__proto__', '/constructor', '/ALL', '/%2F'])(
  'PatternRouter#match() takes a path as a mere name: %s',
  (path) => {
    // Found twice or once: a policy counts once in any case.
    expect(new Set(createRouter('/:id', '/login').match('GET', path))).toEqual(new Set(['/:id']))
    expect(createRouter('/login', '/users/*').match('GET', path)).toEqual([])
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
  expect(createRouter('/login.*').match('GET', path).length > 0).toBe(isMatched)
})

test('PatternRouter#match() takes an escaped sign in a pattern for the sign itself', () => {
  expect(createRouter('/%24id', '/%2B', '/a%2C/b').match('GET', '/$id')).toEqual(['/%24id'])
  expect(createRouter('/%24id', '/%2B', '/a%2C/b').match('GET', '/+')).toEqual(['/%2B'])
  expect(createRouter('/%24id', '/%2B', '/a%2C/b').match('GET', '/a,/b')).toEqual(['/a%2C/b'])
  const router = createRouter('/v1/a%3Abatch', '/%2A', '/%3Aid')
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

test.each<[patterns: readonly string[], prefix: string, found: readonly string[]]>([
  [['/a/b', '/a.x/b', '/a.*'], '/a.x/b', ['/a.x/b']],
  [['/a.*', '/b.*', '/ab'], '/a.', ['/a.*']],
  [['/a.*', '/b.*', '/ab'], '/a', ['/a.*', '/ab']],
  [['/a.*', '/b.*', '/a'], '/a.json/', ['/a.*']],
  [['/a.*', '/b.*', '/a'], '/b/', ['/b.*']],
  [['/a.*', '/b.*'], '/c', []],
  [['/a.*', '/a'], '/a.json', ['/a.*']],
  [['/a/*', '/a/:id', '/a/b', '/a'], '/a/b', ['/a/*', '/a/:id', '/a/b']],
  [['/a/*', '/a/:id', '/a/b', '/a'], '/a/b/', ['/a/*', '/a/:id', '/a/b']],
  [['/a/*', '/a/:id', '/a/b', '/a'], '/a/b/c', ['/a/*']],
  [['/a/*', '/a/:id', '/a/b', '/a'], '/a/', ['/a/*', '/a/:id', '/a/b', '/a']],
  [['/a/*', '/a/:id', '/a'], '/b/', []],
  [['/a/*', '/a', '/'], '/', ['/a/*', '/a', '/']],
  [['/a/b/c', '/*/b/c', '/:x/x/c'], '/a/b/', ['/a/b/c', '/*/b/c']],
])('PatternRouter#matchSomeOf() of %j by the beginning %s: %j', (patterns, prefix, found) => {
  for (const ignoresCase of [false, true]) {
    const router = new PatternRouter<string>()
    for (const text of patterns) router.add(parsePattern(text) ?? expect.unreachable(), text, ignoresCase)
    expect(router.matchSomeOf('GET', prefix)).toEqual(found)
    const upper = router.matchSomeOf('GET', prefix.toUpperCase())
    if (ignoresCase) expect(upper).toEqual(found)
  }
})

test('PatternRouter heeds case as each of its patterns says', () => {
  const router = new PatternRouter<number>()
  const add = (text: string, value: number, ignoresCase?: boolean) =>
    router.add(parsePattern(text) ?? expect.unreachable(), value, ignoresCase)
  add('GET /a/b', 1)
  add('GET /a/b', 2, true)
  add('POST /a/b', 3, true)
  expect(['/a/b', '/A/B'].map((path) => router.match('GET', path))).toEqual([[1, 2], [2]])
  expect(['/a/', '/A/'].map((path) => router.matchSomeOf('HEAD', path))).toEqual([[1, 2], [2]])
  expect(['/a/', '/A/'].map((path) => router.matchSomeOf('PUT', path))).toEqual([[], []])
})

test.each([
  ['/a$b', '/a$b', true],
  ['/a(b)', '/a(b)', true],
  ['/a|b', '/a', false],
  ['/a.b', '/axb', false],
  ['/a.b', '/a.b', true],
  ['/a-b', '/a-b', true],
  ['/a^b', '/a%5Eb', true],
  ['/a/*/c', '/a/b/c', true],
  ['/a/*/c', '/a//c', false],
  ['/a/*/c', '/a/b/x/c', false],
  ['/a/:id', '/a/', true],
  ['/a/:id', '/a', false],
  ['/a/:id', '/a/b/', true],
  ['/a/:id', '/a/b/c', false],
  ['/:id', '/', false],
  ['/a/*', '/a', true],
  ['/a/*', '/ab', false],
  ['/a/*', '/a/b/c', true],
  ['/a.*', '/a', true],
  ['/a.*', '/a.', true],
  ['/a.*', '/a.b.c', true],
  ['/a.*', '/ab', false],
  ['/a.*', '/a.b/c', false],
  ['/a%3Ab', '/a:b', true],
  ['/a%2Ab', '/a*b', true],
  ['/%3Aid', '/x', false],
])('PatternRouter#match() of the pattern %s and the path %s: %s', (pattern, path, isMatching) => {
  const router = new PatternRouter<true>()
  router.add(parsePattern(pattern) ?? expect.unreachable(), true)
  expect(router.match('GET', path)).toEqual(isMatching ? [true] : [])
})

test.each([
  ['/a.*', '/a.json', true],
  ['/a.*', '/b.json', false],
  ['/a.*', '/b', false],
  ['/a.*', '/a', true],
  ['/a.*', '/b.*', false],
  ['/a.b.*', '/a.*', true],
  ['/a', '/a/b', false],
  ['/a', '/a/:id', true],
  ['/a/:id', '/a/b/c', false],
  ['/a/b', '/a/c', false],
  ['/A/b', '/a/B', true],
  ['/a/*', '/a', true],
  ['/a/*/c', '/a/b/d', false],
  ['/a/*/c', '/a/b/c', true],
  ['GET /a', 'HEAD /a', true],
  ['GET /a', 'POST /a', false],
  ['* /a', 'POST /a', true],
])('mayOverlap() of "%s" and "%s": %s', (one, other, expected) => {
  const [first, second] = [one, other].map((text) => parsePattern(text) ?? expect.unreachable())
  if (!first || !second) return expect.unreachable()
  expect([mayOverlap(first, second), mayOverlap(second, first)]).toEqual([expected, expected])
})
