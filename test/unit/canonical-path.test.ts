import fc from 'fast-check'
import { expect, test } from 'vitest'
import { canonicalizePath } from '../../src/http/request/policy/canonical-path.ts'

const canonical = (path: string) => canonicalizePath(new URL(`https://gateway.example${path}`).pathname)

test.each([
  ['/', '/'],
  ['', '/'],
  ['?q=/a/../b', '/'],
  ['/login', '/login'],
  ['/login?next=//x/', '/login'],
  ['/login#part/', '/login'],
  ['/a;v=1,2/b@c:d$e&f=g+h', '/a;v=1,2/b@c:d$e&f=g+h'],
])('canonicalizePath() leaves a plain path alone: "%s"', (path, expected) => {
  expect(canonical(path)).toBe(expected)
})

test.each([
  ['/%256Cogin', '/%256Cogin'],
  ['/%25%36%43ogin', '/%256Cogin'],
  ['/%252e%252e/login', '/%252e%252e/login'],
])('canonicalizePath() decodes once only: %s', (path, expected) => {
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
])('canonicalizePath() escapes everything else, in capitals: %s', (path, expected) => {
  expect(canonical(path)).toBe(expected)
})

test.each([
  ['/../../login', '/login'],
  ['/%2e%2e/', '/'],
  ['/...', '/...'],
  ['/.well-known', '/.well-known'],
])('canonicalizePath() resolves dot segments: %s', (path, expected) => {
  expect(canonical(path)).toBe(expected)
})

test.each(['/Login', '/LOGIN', '/a%2FB'])('canonicalizePath() keeps case: %s', (path) => {
  expect(canonical(path)).toBe(path)
})

test('canonicalizePath() gives every spelling of a path the same answer', () => {
  /** Of what may stand for itself. It does not begin with a dot, and is no dot segment. */
  const plain = fc.stringMatching(/^[\w~!$&'()*+,;=:@-][\w.~!$&'()*+,;=:@-]{0,4}$/)
  /** Escapes some characters, slips in dot segments, doubles slashes and turns them round, as told by the dice. */
  const respell = (segments: readonly string[], dice: readonly number[]) => {
    let at = 0
    const roll = () => dice[at++ % dice.length] ?? 0
    const escaped = (character: string) => {
      const hex = character.charCodeAt(0).toString(16)
      return ['', '', `%${hex}`, `%${hex.toUpperCase()}`][roll()] || character
    }
    const before = () =>
      [
        ['/', '//', '\\', '///'],
        ['/./', '/%2e/', '//', '/'],
        ['/x/../', '/x/%2E%2e/', '/x\\.%2E/', '/x/y/../..//'],
      ][roll() % 3]?.[roll()]
    const after = ['', '/', '/.', '//x/..'][roll()]
    return segments.map((segment) => `${before()}${[...segment].map(escaped).join('')}`).join('') + after
  }
  const dice = fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 30 })
  fc.assert(
    fc.property(fc.array(plain, { minLength: 1, maxLength: 4 }), dice, (segments, dice) => {
      expect(canonical(respell(segments, dice))).toBe(`/${segments.join('/')}`)
    }),
    { numRuns: 500 },
  )
})
