import { expect, test } from 'vitest'
import { createPathReader, createTargetReader } from '../../src/http/request/target.ts'
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
  'createTargetReader() tells what is no URL, each time: "%s"',
  (url) => {
    const targetOf = createTargetReader(readPath)
    expect([targetOf(url), targetOf(url)]).toEqual(['malformed', 'malformed'])
  },
)

test('createTargetReader() reads a URL once', () => {
  const targetOf = createTargetReader(readPath)
  expect(targetOf('https://gateway.example/x?y')).toBe(targetOf('https://gateway.example/x?y'))
})

test('createTargetReader() remembers no URL that is too long', () => {
  const targetOf = createTargetReader(readPath)
  const url = `https://gateway.example/${'x'.repeat(1_000)}`
  expect(targetOf(url)).toEqual(targetOf(url))
  expect(targetOf(url)).not.toBe(targetOf(url))
})

test.each([
  ['a path', 4_400, 4_500, '', 'x'],
  ['a query', 8_100, 8_190, '?', 'x'],
  ['a query of many parameters', 999, 1_000, '?a=b', '&a=b'],
  ['a path with what a query separates', 4_400, 4_500, '', '&'],
])('createTargetReader() reads nothing longer than it may be: %s', (_, most, more, start, repeated) => {
  const targetOf = createTargetReader(readPath)
  const urlOf = (times: number) => `https://gateway.example/${start}${repeated.repeat(times)}`
  expect(targetOf(urlOf(most))).toMatchObject({ host: 'gateway.example' })
  expect(targetOf(urlOf(more))).toBe('too-long')
})

test('RequestHeaders.read() takes a hundred fields at most', () => {
  const names = (count: number) => Array.from({ length: count }, (_, i) => `x-${1_000 + i}`)
  const fields = (count: number) => new Headers(names(count).map((name) => [name, '1']))
  for (const count of [0, 1, 100]) expect([...(RequestHeaders.read(fields(count))?.names ?? [])]).toEqual(names(count))
  for (const count of [101, 500]) expect(RequestHeaders.read(fields(count))).toBeUndefined()
})
