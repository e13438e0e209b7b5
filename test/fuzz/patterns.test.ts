import fc from 'fast-check'
import { describe, expect } from 'vitest'
import type { Pattern } from '../../src/core/model/policy.ts'
import { canonicalizePath } from '../../src/http/request/policy/canonical-path.ts'
import { mayOverlap, PatternRouter, parsePattern } from '../../src/http/request/policy/pattern.ts'
import { fuzz } from './fuzz.ts'
import { anyText, readText } from './strings.ts'

const CANONICAL = /^(?:\/|(?:\/(?!\.{1,2}(?:\/|$))(?:[\w.~!$&'()*+,;=:@-]|%[0-9A-F]{2})+)+)$/

describe('canonicalizePath()', () => {
  const path = readText(
    ...['/', '/', '..', '.', '%2e', '%2F', '%5c', '%', '\\', 'a', '%41', '%zz', '//', ';x=1', '?', '#', '😀'],
  )
  const segment = fc.oneof(
    fc.constantFrom('', '.', '..', '%2e', '%2E%2e', '.%2e', 'login', '%6Cogin', 'LOGIN', '%2F', '%5c', '%25', '%'),
    fc.stringMatching(/^(?:[\w.~-]|%[0-9A-Fa-f]{2}|[!$&'()*+,;=:@|"<>^`{}%]){0,6}$/),
    fc.string(),
  )
  const segments = fc
    .tuple(fc.constantFrom('/', '//', '\\'), fc.array(segment, { maxLength: 6 }))
    .map(([separator, segments]) => segments.join(separator))
  const host = fc.constantFrom('http://a.example', 'https://user:pass@[::1]:8443', 'HTTP://A.example:80')
  const url = fc.oneof(
    fc.webUrl({ withQueryParameters: true, withFragments: true }),
    fc.tuple(host, path).map((parts) => parts.join('/')),
    fc.tuple(host, path).map((parts) => parts.join('')),
    segments.map((segments) => `https://gateway.example/${segments}`),
    // A stray "%" before an escape that is decoded must not make up an escape that was not there.
    fc.constant('https://gateway.example/%%341'),
  )

  fuzz(
    'canonicalizePath() makes of any URL a canonical path, and of that the same',
    4_000,
    fc.property(url, (url) => {
      if (!URL.canParse(url)) return
      const once = canonicalizePath(new URL(url).pathname)
      expect(once).toMatch(CANONICAL)
      expect(canonicalizePath(new URL(once, 'http://other.example').pathname)).toBe(once)
    }),
  )
})

const method = fc.constantFrom('GET', 'HEAD', 'POST', 'PROPFIND', 'M-SEARCH')
/** What a pattern may hold beside names: everything that means something to a regular expression. */
const name = fc.oneof(
  fc.constantFrom(
    ...['a', 'b', 'users', '.well-known', 'a+b', '(x)', '[y]'],
    '$',
    ...['^', 'a|b', 'a-b', '%41', '%2F', 'é', '%3a', '%2Ax', 'a;v=1', '...'],
  ),
  fc.stringMatching(/^[!$&'()+,;=@|^[\]."<>~\w-]{1,6}$/),
)
const patternSegment = fc.oneof(name, name, fc.constantFrom('*', ':id', ':x_1', ''))
const patternText = fc
  .tuple(fc.option(fc.oneof(method, fc.constant('*')), { nil: '' }), fc.array(patternSegment, { maxLength: 5 }))
  .map(([method, segments]) => `${method} /${segments.join('/')}`)

describe('parsePattern()', () => {
  fuzz(
    'parsePattern() answers undefined, or a pattern that it reads back, to any text',
    300,
    fc.property(
      fc.oneof(patternText, anyText, readText('GET', ' ', '/', '*', ':id', ':', '?', '#', '{', '\\', '\t')),
      (text) => {
        const pattern = parsePattern(text)
        if (pattern === undefined) return
        expect(pattern.method).toMatch(/^(?:[A-Z-]+|\*)$/)
        expect(pattern.path).toMatch(CANONICAL)
        expect(parsePattern(`${pattern.method} ${pattern.path}`)).toEqual(pattern)
      },
    ),
  )
})

/** Few names, so that patterns overlap and requests meet them. */
const dense = fc
  .tuple(
    fc.constantFrom('GET', 'HEAD', 'POST', '*'),
    fc.array(fc.constantFrom('a', 'b', ':x', ':y', '*'), { maxLength: 4 }),
  )
  .map(([method, segments]) => `${method} /${segments.join('/')}`)

/** Escaped in a pattern, so as not to be wildcards. */
function literal(segment: string): string {
  return segment.replaceAll('%3A', ':').replaceAll('%2A', '*')
}

/** What a pattern matches, as its documentation says it. */
function matches({ method, path }: Pattern, requestMethod: string, requestPath: string): boolean {
  const methods = method === '*' ? [requestMethod] : method === 'GET' ? ['GET', 'HEAD'] : [method]
  const wanted = path.split('/').filter((segment) => segment !== '')
  const given = requestPath.split('/').filter((segment) => segment !== '')
  const isOpen = wanted.at(-1) === '*'
  const fixed = isOpen ? wanted.slice(0, -1) : wanted
  if (given.length < fixed.length || (!isOpen && given.length > fixed.length)) return false
  const isSame = (want: string, index: number) => want === '*' || want.startsWith(':') || literal(want) === given[index]
  return methods.includes(requestMethod) && fixed.every(isSame)
}

describe('PatternRouter', () => {
  const request = fc.oneof(
    fc.record({ method, segments: fc.array(fc.oneof(name, fc.constantFrom('*', ':id', 'zzz')), { maxLength: 5 }) }),
    fc.record({ method, segments: fc.array(anyText, { maxLength: 3 }) }),
    fc.record({
      method: fc.constantFrom('GET', 'HEAD', 'POST'),
      segments: fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 4 }),
    }),
  )

  fuzz(
    'PatternRouter#match() finds what a plain reading of the patterns finds',
    2_000,
    fc.property(
      fc.array(fc.oneof(patternText, dense), { minLength: 1, maxLength: 6 }),
      fc.array(request),
      (texts, requests) => {
        const patterns = texts.map(parsePattern).filter((pattern) => pattern !== undefined)
        const router = new PatternRouter<number>()
        for (const [index, pattern] of patterns.entries()) router.add(pattern, index)
        // Each pattern is met by itself too, where a name in it is taken for one.
        const own = texts.map((text) => ({ method: 'GET', segments: text.split(' ')[1]?.split('/') ?? [] }))
        for (const { method, segments } of [...requests, ...own]) {
          const url = `http://gateway.example/${segments.join('/')}`
          if (!URL.canParse(url)) continue
          const path = canonicalizePath(new URL(url).pathname)
          const expected = [...patterns.keys()].filter((index) => matches(patterns[index] as Pattern, method, path))
          expect([...new Set(router.match(method, path))]).toEqual(expected)
        }
      },
    ),
  )
})

describe('mayOverlap()', () => {
  const segment = fc.constantFrom('a', 'b', 'A', ':id', '*', 'a.*', 'b.x')
  const pattern = fc
    .tuple(fc.constantFrom('', 'GET ', 'HEAD ', 'POST '), fc.array(segment, { minLength: 1, maxLength: 3 }))
    .map(([method, segments]) => parsePattern(`${method}/${segments.join('/')}`))
  const request = fc.record({
    method,
    segments: fc.array(fc.constantFrom('a', 'b', 'A', 'a.x', 'b.x', ''), { minLength: 1, maxLength: 4 }),
  })

  fuzz(
    'mayOverlap() holds of two patterns that both match some request',
    2_000,
    fc.property(pattern, pattern, fc.array(request, { minLength: 20, maxLength: 20 }), (one, other, requests) => {
      if (!one || !other) return
      const router = new PatternRouter<number>()
      router.add(one, 0, true)
      router.add(other, 1, true)
      for (const { method, segments } of requests) {
        const path = `/${segments.join('/')}`.replace(/\/+/g, '/')
        if (new Set(router.match(method, path)).size === 2) expect(mayOverlap(one, other)).toBe(true)
      }
    }),
  )
})
