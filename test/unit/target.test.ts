import { expect, test } from 'vitest'
import { createPathReader, createTargetReader, PATH_LITERALS } from '../../src/http/request/target.ts'
import { RequestHeaders } from '../../src/http/response/incoming-request.ts'

const readPath = createPathReader()

test('createTargetReader() takes a URL apart', () => {
  expect(createTargetReader(readPath)('http://Gateway.example:8080/a//%62/?q=/../x#part')).toEqual({
    host: 'gateway.example:8080',
    scheme: 'http',
    pathAndQuery: '/a//%62/?q=/../x',
    path: { canonical: '/a/b', withSlash: '/a/b/', ambiguity: { prefix: '/a/', mayGoUp: false, decoded: '/a/b' } },
  })
})

test('createTargetReader() leaves out the port of the scheme, and resolves dot segments', () => {
  expect(createTargetReader(readPath)('https://gateway.example:443/x/../y')).toMatchObject({
    host: 'gateway.example',
    scheme: 'https',
    pathAndQuery: '/y',
  })
})

test.each(['', '/x', 'http://', 'http://a b/', 'http://1.2.3.256/', 'http://[::1/'])(
  'createTargetReader() knows what is no URL, each time: "%s"',
  (url) => {
    const readTarget = createTargetReader(readPath)
    expect([readTarget(url), readTarget(url)]).toEqual(['malformed', 'malformed'])
  },
)

test('createTargetReader() reads a URL once', () => {
  const readTarget = createTargetReader(readPath)
  expect(readTarget('https://gateway.example/x?y')).toBe(readTarget('https://gateway.example/x?y'))
})

test('createTargetReader() remembers no URL that is too long', () => {
  const readTarget = createTargetReader(readPath)
  const url = `https://gateway.example/${'x'.repeat(1_000)}`
  expect(readTarget(url)).toEqual(readTarget(url))
  expect(readTarget(url)).not.toBe(readTarget(url))
})

test.each([
  ['a path', 4_499, 4_500, '', 'x'],
  ['a query', 8_100, 8_190, '?', 'x'],
  ['a query of many parameters', 999, 1_000, '?a=b', '&a=b'],
  ['a path with what a query separates', 4_499, 4_500, '', '&'],
])('createTargetReader() reads nothing longer than it may be: %s', (_, longest, longer, start, repeated) => {
  const readTarget = createTargetReader(readPath)
  const formatUrl = (times: number) => `https://gateway.example/${start}${repeated.repeat(times)}`
  expect(readTarget(formatUrl(longest))).toMatchObject({ host: 'gateway.example' })
  expect(readTarget(formatUrl(longer))).toBe('too-long')
})

test('RequestHeaders.read() takes a hundred fields at most', () => {
  const names = (count: number) => Array.from({ length: count }, (_, i) => `x-${1_000 + i}`)
  const fields = (count: number) => new Headers(names(count).map((name) => [name, '1']))
  for (const count of [0, 1, 100]) expect([...(RequestHeaders.read(fields(count))?.names ?? [])]).toEqual(names(count))
  for (const count of [101, 500]) expect(RequestHeaders.read(fields(count))).toBeUndefined()
})

const read = (path: string, reader = readPath) => reader(new URL(`https://gateway.example${path}`).pathname)

test.each([
  '/',
  '/login',
  '/login/',
  '/a@b:c/$x',
  ...['/caf%C3%A9', '/a%20b', '/%7Euser', '/x/../y', '/..../%2e%2e', '/a..b'],
])('createPathReader() finds nothing ambiguous in %s', (path) => {
  expect(read(path).ambiguity).toBeUndefined()
})

test.each([
  ['/login%2F', '/login'],
  ['/login%5Cx', '/login'],
  ['/login%3Fx', '/login'],
  ['/login%23', '/login'],
  ['/login%00.png', '/login'],
  ['/login%0A', '/login'],
  ['/login%7f', '/login'],
  ['/login;a=1', '/login'],
  ['/login%3Ba', '/login'],
  ['/%6Cogin/;x', '/login/'],
  ['/100%25', '/100'],
  ['/lo%256Cin', '/lo'],
  ['/a%/b', '/a'],
  ['/a//b', '/a/'],
  ['/%61/b//', '/a/b/'],
  ['//host/login', '/'],
  ['/\\host/login', '/'],
  ['/;/login', '/'],
  ['/a/.;x/b', '/a/'],
  ['/a/.%2Fb', '/a/'],
  ['/a/caf%E9', '/a/caf'],
  ['/a%E9;b//c', '/a'],
  ['/login%20', '/login'],
  ['/a/%20/./%3F/login', '/a/'],
  ['/a%20/%20./%3Fb', '/a'],
])('createPathReader() finds what %s begins with, whoever reads it: %s', (path, prefix) => {
  expect(read(path).ambiguity).toMatchObject({ prefix, mayGoUp: false })
})

test.each([
  ...['/x/..%2Flogin', '/x%2F..%2Flogin', '/x/..%5Clogin', '/x/..;/login', '/x/..;a=b/login', '/x/..%00/login'],
  ...['/x/%252e%252E/login', '/x/..%252Flogin', '/x/%25252e%25252e/y', '/x/.%0A./login', '/x/%0D../login', '/x%2F..'],
  ...['/x/%C0%AE%C0%AE/login', '/x/%25u002e./login', '/x/%252525252e./login', '/x/%%32%65%%32%65/login'],
])('createPathReader() takes nothing for certain where an API may find a way up: %s', (path) => {
  expect(read(path).ambiguity).toMatchObject({ prefix: '/', mayGoUp: true })
})

test('createPathReader() takes what the API keeps as data for no sign', () => {
  const literal = (path: string) => read(path, createPathReader(['%2F', ';'])).ambiguity
  expect(literal('/a%2Fb;c%3Bd%2f')).toBeUndefined()
  expect(literal('/a%2Fb%5Cc')).toMatchObject({ prefix: '/a%2Fb' })
  for (const path of ['/a/..%2Fb', '/a/..;/b', '/a%2F..%2Fb']) expect(literal(path)).toMatchObject({ prefix: '/' })
  const all = createPathReader(PATH_LITERALS)
  expect(read('/%2F%5C%25%3F%23;', all).ambiguity).toBeUndefined()
  for (const path of ['/a%00', '/a//b', '/a%E9']) expect(read(path, all).ambiguity, path).toBeDefined()
})

const NONE_GOES_UP = { mayGoUp: false }

test.each<[pathname: string, path: object]>([
  ['/', { canonical: '/', withSlash: '/', ambiguity: undefined }],
  ['//', { canonical: '/', withSlash: '/', ambiguity: { ...NONE_GOES_UP, prefix: '/', decoded: '/' } }],
  ['/a/', { canonical: '/a', withSlash: '/a/', ambiguity: undefined }],
  ['//a/', { canonical: '/a', withSlash: '/a/', ambiguity: { ...NONE_GOES_UP, prefix: '/', decoded: '/a' } }],
  [
    '/a/b//c',
    { canonical: '/a/b/c', withSlash: '/a/b/c', ambiguity: { ...NONE_GOES_UP, prefix: '/a/b/', decoded: '/a/b/c' } },
  ],
  ['/%C3%A9', { canonical: '/%C3%A9', withSlash: '/%C3%A9', ambiguity: undefined }],
  ['/a/x%E9', { ambiguity: { ...NONE_GOES_UP, prefix: '/a/x', decoded: '/a/x\xe9' } }],
  ['/a;b//c', { ambiguity: { ...NONE_GOES_UP, prefix: '/a', decoded: '/a;b/c' } }],
  ['/a//b;c', { ambiguity: { ...NONE_GOES_UP, prefix: '/a/', decoded: '/a/b;c' } }],
  ['/a/.;b', { ambiguity: { ...NONE_GOES_UP, prefix: '/a/', decoded: '/a/.;b' } }],
  ['/a.;b', { ambiguity: { ...NONE_GOES_UP, prefix: '/a.', decoded: '/a.;b' } }],
  ['/a%2Fb', { ambiguity: { ...NONE_GOES_UP, prefix: '/a', decoded: '/a/b' } }],
  ['/a%00b', { ambiguity: { ...NONE_GOES_UP, prefix: '/a', decoded: '/a\0b' } }],
  ['/a%7Fb', { ambiguity: { ...NONE_GOES_UP, prefix: '/a', decoded: '/a\x7fb' } }],
  ['/a%20b', { ambiguity: undefined }],
  ['/a%20', { ambiguity: { ...NONE_GOES_UP, prefix: '/a', decoded: '/a ' } }],
  ['/a%20/', { canonical: '/a%20', ambiguity: { ...NONE_GOES_UP, prefix: '/a', decoded: '/a ' } }],
  ['/a%20.', { ambiguity: { ...NONE_GOES_UP, prefix: '/a', decoded: '/a .' } }],
  ['/a%20%3Fb', { ambiguity: { ...NONE_GOES_UP, prefix: '/a', decoded: '/a ?b' } }],
  ['/a%252525', { ambiguity: { prefix: '/a', decoded: '/a%', ...NONE_GOES_UP } }],
  ['/%2e%2e%2fb', { ambiguity: { prefix: '/', mayGoUp: true, decoded: '/../b' } }],
  ['/a%25252525', { ambiguity: { prefix: '/', mayGoUp: true, decoded: '/a%25' } }],
  ['/%C0%AE', { ambiguity: { prefix: '/', mayGoUp: true, decoded: '/\xc0\xae' } }],
  ['/..;a', { ambiguity: { prefix: '/', mayGoUp: true, decoded: '/..;a' } }],
  ['/%20.%09.', { ambiguity: { prefix: '/', mayGoUp: true, decoded: '/ .\t.' } }],
])('createPathReader() reads %s', (pathname, path) => expect(readPath(pathname)).toMatchObject(path))

test.each<[url: string, expected: string]>([
  [`https://a.example/${'x'.repeat(982)}`, 'read'],
  [`https://a.example/${'x'.repeat(4_499)}`, 'read'],
  [`https://a.example/${'x'.repeat(4_500)}`, 'too-long'],
  [`https://a.example/${'x'.repeat(4_499)}?${'y'.repeat(3_672)}`, 'read'],
  [`https://a.example/${'x'.repeat(4_499)}?${'y'.repeat(3_673)}`, 'too-long'],
  [`https://a.example/${'x'.repeat(4_500)}?y`, 'too-long'],
  [`https://a.example/?${'&'.repeat(999)}`, 'read'],
  [`https://a.example/?${'&'.repeat(1_000)}`, 'too-long'],
  [`https://a.example/${'&'.repeat(1_000)}?`, 'read'],
])('createTargetReader() reads no longer URL than servers do', (url, expected) => {
  const target = createTargetReader(readPath)(url)
  expect(typeof target === 'string' ? target : 'read').toBe(expected)
})
