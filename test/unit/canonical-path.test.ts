import fc from 'fast-check'
import { expect, test } from 'vitest'
import { canonicalPath } from '../../src/request/policy/canonical-path.ts'

const canonical = (path: string) => canonicalPath(new URL(`https://gateway.example${path}`).pathname)

test.each([
  ['/', '/'],
  ['', '/'],
  ['?q=/a/../b', '/'],
  ['/login', '/login'],
  ['/login?next=//x/', '/login'],
  ['/login#part/', '/login'],
  ['/a;v=1,2/b@c:d$e&f=g+h', '/a;v=1,2/b@c:d$e&f=g+h'],
])('canonicalPath() leaves a plain path alone: "%s"', (path, expected) => {
  expect(canonical(path)).toBe(expected)
})

test.each([
  ['/%6Cogin', '/login'],
  ['/%6cogin', '/login'],
  ['/%6C%6F%67%69%6E', '/login'],
  ['/%41%5A%61%7A%30%39%2D%2E%5F%7E', '/AZaz09-._~'],
  ['/%21%24%26%27%28%29%2A%2B%2C%3B%3D%3A%40', "/!$&'()*+,;=:@"],
  ['/users/%40me', '/users/@me'],
])('canonicalPath() decodes what may stand for itself in a segment: %s', (path, expected) => {
  expect(canonical(path)).toBe(expected)
})

test.each([
  ['/%256Cogin', '/%256Cogin'],
  ['/%25%36%43ogin', '/%256Cogin'],
  ['/%252e%252e/login', '/%252e%252e/login'],
])('canonicalPath() decodes once only: %s', (path, expected) => {
  expect(canonical(path)).toBe(expected)
})

test.each([
  ['/a%2Fb', '/a%2Fb'],
  ['/a%2fb', '/a%2Fb'],
  ['/x%2F..%2Flogin', '/x%2F..%2Flogin'],
  ['/%2e%2e%2flogin', '/..%2Flogin'],
  ['/a%5cb', '/a%5Cb'],
  ['/a%3Fb%23c', '/a%3Fb%23c'],
  ['/a%20b', '/a%20b'],
  ['/a b', '/a%20b'],
  ['/%e2%82%ac', '/%E2%82%AC'],
  ['/€', '/%E2%82%AC'],
  // URLs leave some signs as they are that should be escaped.
  ['/a[1]|b^c', '/a%5B1%5D%7Cb%5Ec'],
  ['/a%5b1%5d%7cb%5ec', '/a%5B1%5D%7Cb%5Ec'],
])('canonicalPath() escapes everything else, in capitals: %s', (path, expected) => {
  expect(canonical(path)).toBe(expected)
})

test.each([
  ['/x/../login', '/login'],
  ['/./login', '/login'],
  ['/x/y/../../login', '/login'],
  ['/../../login', '/login'],
  ['/x/%2e%2e/login', '/login'],
  ['/x/.%2E/login', '/login'],
  ['/%2e%2e/', '/'],
  ['/login/.', '/login'],
  ['/login/x/..', '/login'],
  ['/login/%2e', '/login'],
  ['/...', '/...'],
  ['/.well-known', '/.well-known'],
])('canonicalPath() resolves dot segments: %s', (path, expected) => {
  expect(canonical(path)).toBe(expected)
})

test.each([
  ['//login', '/login'],
  ['///login', '/login'],
  ['/a//b///c', '/a/b/c'],
  ['/.//login', '/login'],
  ['//', '/'],
  ['////', '/'],
])('canonicalPath() drops empty segments: %s', (path, expected) => {
  expect(canonical(path)).toBe(expected)
})

test.each([
  ['/login/', '/login'],
  ['/login//', '/login'],
  ['/%6Cogin/', '/login'],
])('canonicalPath() drops a trailing slash: %s', (path, expected) => {
  expect(canonical(path)).toBe(expected)
})

test.each([
  ['/a\\b', '/a/b'],
  ['\\login', '/login'],
  ['/x\\..\\login', '/login'],
  ['/login\\', '/login'],
])('canonicalPath() takes a backslash for the slash that it is to URLs: %s', (path, expected) => {
  expect(canonical(path)).toBe(expected)
})

test.each(['/Login', '/LOGIN', '/a%2FB'])('canonicalPath() keeps case: %s', (path) => {
  expect(canonical(path)).toBe(path)
})

const segment = fc.oneof(
  fc.constantFrom('', '.', '..', '%2e', '%2E%2e', '.%2e', 'login', '%6Cogin', 'LOGIN', '%2F', '%5c', '%25', '%'),
  fc.stringMatching(/^(?:[\w.~-]|%[0-9A-Fa-f]{2}|[!$&'()*+,;=:@|"<>^`{}%]){0,6}$/),
  fc.string(),
)
const path = fc
  .array(segment, { maxLength: 6 })
  .chain((segments) => fc.constantFrom('/', '//', '\\').map((separator) => `/${segments.join(separator)}`))

test('canonicalPath() is idempotent', () => {
  // A stray "%" before an escape that is decoded must not make up an escape that was not there.
  expect(canonical(canonical('/%%341'))).toBe(canonical('/%%341'))
  fc.assert(
    fc.property(path, (path) => {
      const once = canonical(path)
      expect(canonical(once)).toBe(once)
    }),
    { numRuns: 2_000 },
  )
})

test('canonicalPath() answers one slash before each segment, and no segment that is empty or dots', () => {
  fc.assert(
    fc.property(path, (path) => {
      expect(canonical(path)).toMatch(/^(?:\/|(?:\/(?!\.{1,2}(?:\/|$))[^/\\?#]+)+)$/)
    }),
    { numRuns: 2_000 },
  )
})

test('canonicalPath() gives every spelling of a path the same answer', () => {
  const unreserved = fc.stringMatching(/^[\w~-]{1,5}$/)
  /** Escapes some characters, slips in dot segments and doubles slashes, as told by the dice. */
  const respell = (segments: readonly string[], dice: readonly number[]) => {
    let at = 0
    const roll = () => dice[at++ % dice.length] ?? 0
    const escaped = (character: string) => {
      const hex = character.charCodeAt(0).toString(16)
      return ['', '', `%${hex}`, `%${hex.toUpperCase()}`][roll()] || character
    }
    const before = () => ['/', '//', '/./', '/x/../'][roll()]
    return segments.map((segment) => `${before()}${[...segment].map(escaped).join('')}`).join('')
  }
  const dice = fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 30 })
  fc.assert(
    fc.property(fc.array(unreserved, { minLength: 1, maxLength: 4 }), dice, (segments, dice) => {
      expect(canonical(respell(segments, dice))).toBe(`/${segments.join('/')}`)
    }),
  )
})
