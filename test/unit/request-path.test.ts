import { expect, test } from 'vitest'
import { createPathReader, PATH_LITERALS } from '../../src/http/request/target.ts'

const readPath = createPathReader()
const read = (path: string, reader = readPath) => reader(new URL(`https://gateway.example${path}`).pathname)

test.each([
  '/',
  '/login',
  '/login/',
  '/a@b:c/$x',
  ...['/caf%C3%A9', '/a%20b', '/%7Euser', '/x/../y', '/..../%2e%2e', '/a..b'],
])('the path reader finds nothing ambiguous in %s', (path) => {
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
])('the path reader tells what %s begins with, whoever reads it: %s', (path, prefix) => {
  expect(read(path).ambiguity).toMatchObject({ prefix, mayGoUp: false })
})

test.each([
  ...['/x/..%2Flogin', '/x%2F..%2Flogin', '/x/..%5Clogin', '/x/..;/login', '/x/..;a=b/login', '/x/..%00/login'],
  ...['/x/%252e%252E/login', '/x/..%252Flogin', '/x/%25252e%25252e/y', '/x/.%0A./login', '/x/%0D../login', '/x%2F..'],
  ...['/x/%C0%AE%C0%AE/login', '/x/%25u002e./login', '/x/%252525252e./login', '/x/%%32%65%%32%65/login'],
])('the path reader takes nothing for certain where an API may find a way up: %s', (path) => {
  expect(read(path).ambiguity).toMatchObject({ prefix: '/', mayGoUp: true })
})

test('the path reader takes what the API keeps as data for no sign', () => {
  const literal = (path: string) => read(path, createPathReader(['%2F', ';'])).ambiguity
  expect(literal('/a%2Fb;c%3Bd%2f')).toBeUndefined()
  expect(literal('/a%2Fb%5Cc')).toMatchObject({ prefix: '/a%2Fb' })
  for (const path of ['/a/..%2Fb', '/a/..;/b', '/a%2F..%2Fb']) expect(literal(path)).toMatchObject({ prefix: '/' })
  const all = createPathReader(PATH_LITERALS)
  expect(read('/%2F%5C%25%3F%23;', all).ambiguity).toBeUndefined()
  for (const path of ['/a%00', '/a//b', '/a%E9']) expect(read(path, all).ambiguity, path).toBeDefined()
})
