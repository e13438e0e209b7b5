import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parsePattern } from '../../src/policy/pattern.ts'
import { PatternRouter } from '../../src/policy/pattern-router.ts'
import { readPath } from '../../src/policy/request-path.ts'

const read = (path: string) => readPath(new URL(`https://gateway.example${path}`).pathname)

test.each(['/', '/login', '/a@b:c/$x', '/caf%C3%A9', '/a%20b', '/%7Euser', '/a//b/', '/x/../y'])(
  'readPath() reads %s in one way',
  (path) => {
    const { canonical, readings, resource, isDoubtful } = read(path)
    expect({ readings, resource, isDoubtful }).toEqual({
      readings: [canonical],
      resource: canonical,
      isDoubtful: false,
    })
  },
)

test.each([
  [
    'escaped slashes',
    ['/%2Flogin', '/login%2F', '/x%2F..%2Flogin', '/x/..%2Flogin', '/x/%2e%2e%2flogin', '/x%5C..%5Clogin'],
  ],
  ['parameters', ['/login;', '/login;a=1', '/login%3Ba', '/;x/login', '/login;a/', '/x/..;/login', '/x/..;a=b/login']],
  ['both', ['/login;a%2Fb', '/x;a%2F..%2Flogin', '/x;a%2F..;b/login']],
  ['a NUL', ['/login%00', '/login%00.png', '/login%00;x']],
  ['a host', ['//evil.example/login', '///evil/login', '/\\evil/login', '//user@evil:80/login', '//x/%6Cogin;y']],
])('readPath() finds /login behind %s', (_, paths) => {
  for (const path of paths) {
    expect(read(path).readings, path).toContain('/login')
    expect(read(path).isDoubtful, path).toBe(true)
  }
})

test.each(['/Login', '/log%2Fin', '/login/x', '/x/login', '/login%20', '/%256Cogin', '/%252Flogin', '/login%253Bx'])(
  'readPath() does not find /login in %s',
  (path) => {
    expect(read(path).readings).not.toContain('/login')
  },
)

test('readPath() gives all spellings of a resource one name', () => {
  const spellings = ['/a/b', '/a;x=1/b', '/a%2Fb', '/a/b;y', '/a/%62/', '/a//b', '/a%2F%2F;x%2F.%2Fb', '/a/b%00']
  expect(new Set(spellings.map((path) => read(path).resource))).toEqual(new Set(['/a/b']))
})

test('readPath() keeps the number of readings small, whatever the path', () => {
  const paths = [
    '/%2F;'.repeat(4_000),
    `/${'%25'.repeat(5_000)}2F`,
    '//;%2F..%252e%00'.repeat(1_000),
    '/;'.repeat(8_000),
  ]
  for (const path of paths) expect(read(path).readings.length).toBeLessThanOrEqual(64)
})

/** APIs as they are found: each takes a path as it comes over the wire for one of its own, as decoded segments. */
const APIS: Readonly<Record<string, (path: string) => string[]>> = {
  'that splits, then decodes': (path) => path.split('/').filter(Boolean).map(decoded),
  'that decodes, then splits': (path) => normalized(decoded(path)),
  'that takes backslashes for slashes': (path) => normalized(decoded(path).replaceAll('\\', '/')),
  'that drops parameters, then decodes': (path) => normalized(decoded(dropParameters(path))),
  'that decodes, then drops parameters': (path) => normalized(dropParameters(decoded(path))),
  'that ends strings at a NUL': (path) => normalized(decoded(path).replace(/\0.*/s, '')),
  'that resolves against its own URL': (path) => normalized(decoded(new URL(path, 'http://api.example').pathname)),
}

function decoded(text: string): string {
  return text.replace(/%([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)))
}

function dropParameters(path: string): string {
  return path.replace(/;[^/]*/g, '')
}

function normalized(path: string): string[] {
  const segments: string[] = []
  for (const segment of path.split('/')) {
    if (segment === '..') segments.pop()
    else if (segment !== '' && segment !== '.') segments.push(segment)
  }
  return segments
}

/** As an operator writes it. */
function patternFor(segments: readonly string[]): string {
  const escaped = (character: string) => `%${character.charCodeAt(0).toString(16).padStart(2, '0')}`
  return `/${segments.map((segment) => segment.replace(/[^\w.~!$&'()+,;=@-]/g, escaped)).join('/')}`
}

describe.each(Object.entries(APIS))('an API %s', (_, api) => {
  const piece = fc.constantFrom(
    ...['a', 'b', 'C', '.', '..', '/', '/', '//', '\\', ';', ';x=1', '@', ':', '*', '+', '%', '|', '[', ' '],
    ...[
      '%61',
      '%2e',
      '%2E%2e',
      '%2F',
      '%2f',
      '%5c',
      '%3B',
      '%3b',
      '%40',
      '%3A',
      '%2A',
      '%20',
      '%00',
      '%5B',
      '%7c',
      '%25',
    ],
    ...['%2561', '%252e', '%252F', '%253b', '%2540', '%25%36%31'],
  )
  const path = fc.array(piece, { minLength: 1, maxLength: 8 }).map((pieces) => `/${pieces.join('')}`)

  test('serves no path behind the back of the policy for it', () => {
    fc.assert(
      fc.property(path, (path) => {
        const url = `https://gateway.example${path}`
        const { pathname } = new URL(url)
        fc.pre(URL.canParse(pathname, url))
        const served = api(pathname)
        // Whether these end a segment is for the pattern to say, once it has one of them.
        fc.pre(!served.some((segment) => /[;\\\0]/.test(segment)))
        const pattern = patternFor(served)
        const router = new PatternRouter<true>()
        router.add(parsePattern(pattern) ?? expect.unreachable(pattern), true)
        const { readings } = readPath(pathname)
        const isMatched = readings.some((reading) => router.match('GET', reading).length > 0)
        expect(isMatched, `${pattern} by ${readings.join(' ')}`).toBe(true)
      }),
      { numRuns: 3_000 },
    )
  })
})
