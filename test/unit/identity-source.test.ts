import { expect, test } from 'vitest'
import { parseBy, parsePointer } from '../../src/core/model/identity-source.ts'

test.each([
  ['token', [{ kind: 'token' }]],
  ['ip', [{ kind: 'ip' }]],
  ['route', [{ kind: 'route' }]],
  ['global', [{ kind: 'global' }]],
  ['header:X-Api-Key', [{ kind: 'header', name: 'x-api-key' }]],
  ['query:apiKey', [{ kind: 'query', name: 'apiKey' }]],
  ['query:a:b', [{ kind: 'query', name: 'a:b' }]],
  ['cookie:__Host-Sid', [{ kind: 'cookie', name: '__Host-Sid' }]],
  ['json:/user/a~1b', [{ kind: 'json', name: '/user/a~1b', path: ['user', 'a/b'] }]],
  ['token+route', [{ kind: 'token' }, { kind: 'route' }]],
  [' ip + header:x + query:q ', [{ kind: 'ip' }, { kind: 'header', name: 'x' }, { kind: 'query', name: 'q' }]],
])('parseBy() reads "%s"', (text, sources) => {
  expect(parseBy(text)).toEqual(sources)
})

test.each([
  ...['', ' ', '+', 'token+', '+token', 'token++ip', 'token ip', 'token,ip', 'Token', 'cookie', 'cookie:'],
  ...['cookie:a b', 'cookie:a=b', 'json:', 'json:id', 'json:/~'],
  ...['header', 'header:', 'header:x y', 'header:x:y', 'header: x', 'header:(x)', 'header:é', 'query', 'query:'],
  'query:a b',
  ...['token:x', 'toString', '__proto__'],
])('parseBy() refuses "%s"', (text) => {
  expect(parseBy(text)).toBeUndefined()
})

test.each([
  ['/a', ['a']],
  ['/a/b/0', ['a', 'b', '0']],
  ['/a~1b/~0c/~01', ['a/b', '~c', '~1']],
  ['//', ['', '']],
])('parsePointer() reads %j', (text, tokens) => {
  expect(parsePointer(text)).toEqual(tokens)
})

test.each(['', 'a', '#/a', '/~', '/~2', '/a~'])('parsePointer() refuses %j', (text) => {
  expect(parsePointer(text)).toBeUndefined()
})
