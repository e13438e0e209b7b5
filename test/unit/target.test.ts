import { expect, test } from 'vitest'
import { createTargetReader } from '../../src/http/target.ts'

test('createTargetReader() takes a URL apart', () => {
  expect(createTargetReader()('http://Gateway.example:8080/a//%62/?q=/../x#part')).toEqual({
    host: 'gateway.example:8080',
    scheme: 'http',
    pathAndQuery: '/a//%62/?q=/../x',
    path: { canonical: '/a/b', readings: ['/a/b'], resource: '/a/b', isDoubtful: false },
  })
})

test('createTargetReader() leaves out the port of the scheme, and resolves dot segments', () => {
  expect(createTargetReader()('https://gateway.example:443/x/../y')).toMatchObject({
    host: 'gateway.example',
    scheme: 'https',
    pathAndQuery: '/y',
  })
})

test.each(['', '/x', 'http://', 'http://a b/', 'http://1.2.3.256/', 'http://[::1/'])(
  'createTargetReader() answers undefined for what is no URL, each time: "%s"',
  (url) => {
    const targetOf = createTargetReader()
    expect([targetOf(url), targetOf(url)]).toEqual([undefined, undefined])
  },
)

test('createTargetReader() reads a URL once', () => {
  const targetOf = createTargetReader()
  expect(targetOf('https://gateway.example/x?y')).toBe(targetOf('https://gateway.example/x?y'))
})

test.each([
  ['too long', `https://gateway.example/${'x'.repeat(1_000)}`],
  ['doubtful', 'https://gateway.example/a;b/..%2Fc'],
])('createTargetReader() remembers none that is %s', (_, url) => {
  const targetOf = createTargetReader()
  expect(targetOf(url)).toEqual(targetOf(url))
  expect(targetOf(url)).not.toBe(targetOf(url))
})

test('createTargetReader() forgets what was not asked for lately', () => {
  const targetOf = createTargetReader()
  const first = targetOf('https://gateway.example/first')
  for (let i = 0; i < 1_000; i++) targetOf(`https://gateway.example/${i}`)
  expect(targetOf('https://gateway.example/first')).not.toBe(first)
})
