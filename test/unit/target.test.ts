import { expect, test } from 'vitest'
import { createTargetReader } from '../../src/http/target.ts'
import { createPathReader } from '../../src/policy/request-path.ts'

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

test.each([['too long', `https://gateway.example/${'x'.repeat(1_000)}`]])(
  'createTargetReader() remembers none that is %s',
  (_, url) => {
    const targetOf = createTargetReader(readPath)
    expect(targetOf(url)).toEqual(targetOf(url))
    expect(targetOf(url)).not.toBe(targetOf(url))
  },
)

test('createTargetReader() reads nothing that is longer than RFC 9110 asks for', () => {
  const targetOf = createTargetReader(readPath)
  expect(targetOf(`https://gateway.example/${'x'.repeat(8_000)}`)).toMatchObject({ host: 'gateway.example' })
  expect(targetOf(`https://gateway.example/?${'x'.repeat(8_500)}`)).toBe('too-long')
})
