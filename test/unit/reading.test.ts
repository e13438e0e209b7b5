import { expect, test } from 'vitest'
import {
  decodeU,
  findMember,
  findSpellings,
  readField,
  readParameter,
  readQueryParameter,
} from '../../src/http/request/identity/reading.ts'

function read(text: string, name = 'api_key'): string {
  const reading = readParameter(text, name)
  return reading.kind === 'value' ? `=${reading.value}` : reading.kind
}

test.each([
  ['api_key=X', '=X'],
  ['a=1&api%5Fkey=X%20Y&b', '=X Y'],
  // Many an API trims.
  ['api_key=%20X+%09', '=X'],
  ['a;b=1&api_key=X&c=;', '=X'],
  ['', 'none'],
  ['a=1&api_keys=X&key=Y', 'none'],
  ['api_key=', 'none'],
  ['api_key=+', 'none'],
])('readParameter() reads "%s" as "%s"', (text, expected) => {
  expect(read(text)).toBe(expected)
})

test.each([
  ...['api_key=Y', 'api%5fkey=Y', 'api.key=Y', 'api+key=Y', '+api_key=Y', '.api_key=Y', 'api[key=Y', '[api_key]=Y'],
  ...['[[api_key]]=Y', 'api_key[]=Y', 'api_key[0]=Y', '[api_key][0]=Y', 'api_key]=Y', 'API_KEY=Y', 'apiKey=Y'],
  ...['api_key%00x=Y', '%EF%BB%BFapi_key=Y', '?api_key=Y', 'api-key=Y', 'api_key', 'a;api_key=Y', 'a=1;api_key;b=1'],
])('readParameter() finds a parameter spoilt by another that APIs may take for it: "%s"', (other) => {
  expect(read(`api_key=X&${other}`)).toBe('ambiguous')
  expect(read(`${other}&api_key=X`)).toBe('ambiguous')
  // Nor does it count alone, under a name that is not its own.
  if (!/^api(?:_|%5f)key(?:$|=)/.test(other)) expect(read(other)).toBe('ambiguous')
})

test.each(['api_key=X;', 'api_key=X;y', 'api_key=X%00Y', 'api_key=X%0AY', 'api_key=X%1CY'])(
  'readParameter() finds a value spoilt that APIs may cut off: "%s"',
  (text) => {
    expect(read(text)).toBe('ambiguous')
  },
)

test('readParameter() finds nothing certain among more parameters than APIs read', () => {
  const others = (count: number, separator: string) => Array(count).fill('a=1').join(separator)
  expect(read(`${others(999, '&')}&api_key=X`)).toBe('=X')
  expect(read(`${others(1_000, '&')}&api_key=X`)).toBe('ambiguous')
  expect(read(`${others(1_000, ';')}&api_key=X`)).toBe('ambiguous')
  expect(read(others(1_001, '&'))).toBe('ambiguous')
})

test('readParameter() finds nothing certain where a name may hold a line, or be anything', () => {
  expect(read('a%0Ab=1&api_key=X')).toBe('ambiguous')
  expect(read('%zz=1&%E9=2&&api_key=X&=3')).toBe('=X')
})

test('readParameter() finds a value among long others, and one that is too long spoilt', () => {
  expect(read(`a=${'x'.repeat(15_000)}&api_key=X`)).toBe('=X')
  expect(read(`api_key=${'x'.repeat(8_190)}`)).toBe(`=${'x'.repeat(8_190)}`)
  expect(read(`api_key=${'x'.repeat(8_191)}`)).toBe('ambiguous')
})

test.each([
  [null, 'none'],
  ['', 'none'],
  [' X ', '=X'],
  ['X,Y', 'ambiguous'],
  ['X\u0000', 'ambiguous'],
  ['\ufffd', 'ambiguous'],
])('readField() reads %j as %s', (field, expected) => {
  const reading = readField(field)
  expect(reading.kind === 'value' ? `=${reading.value}` : reading.kind).toBe(expected)
})

test.each([
  ['https://gateway.example/', 'none'],
  ['https://gateway.example/?', 'none'],
  ['https://gateway.example/api_key=Y', 'none'],
  ['https://gateway.example/?api_key=X', '=X'],
  ['https://gateway.example/?api_key=X#?api_key=Y', '=X'],
  ['https://gateway.example/?api_key=X&%61pi_key=Y', 'ambiguous'],
])('readQueryParameter() of %s: %s', (url, expected) => {
  const reading = readQueryParameter(url, 'api_key')
  expect(reading.kind === 'value' ? `=${reading.value}` : reading.kind).toBe(expected)
})

test.each([
  ['a&b&', ['a', 'b']],
  ['%u0061&%U0061', ['%u0061', '%U0061']],
  ['x=1&y', []],
  ['', []],
])('findSpellings() finds in "%s" what may be "a" or "b": %j', (text, found) => {
  const parts = text.split('&')
  expect(['a', 'b'].flatMap((name) => findSpellings(parts, name) ?? 'too many')).toEqual(found)
})

test('findSpellings() tells letters beyond ASCII apart, and ignores their signs and case', () => {
  const parts = ['É=1', 'e=2', 'é-=3', 'É[0]=4', 'x[é]=5', 'é%00z=6']
  expect(findSpellings(parts, 'é')).toEqual(['É=1', 'é-=3', 'É[0]=4', 'é%00z=6'])
  expect(findSpellings(Array(1_000).fill('a'), 'a')).toHaveLength(1_000)
  expect(findSpellings(Array(1_001).fill(''), 'a')).toBeUndefined()
})

test.each<[path: readonly string[], found: unknown]>([
  [[], { a: { b: [1, { c: 'X' }], '': null, n: 7 }, text: 'X' }],
  [['a', 'b', '0'], 1],
  [['a', 'b', '1', 'c'], 'X'],
  [['a', 'b', '10'], undefined],
  [['a', 'b', 'length'], undefined],
  [['a', 'b', 'x0'], undefined],
  [['a', ''], null],
  [['a', '', 'x'], undefined],
  [['a', 'n', 'x'], undefined],
  [['text', '0'], undefined],
  [['toString'], undefined],
  [['__proto__'], undefined],
])('findMember() by %j finds %j', (path, found) => {
  expect(findMember({ a: { b: [1, { c: 'X' }], '': null, n: 7 }, text: 'X' }, path)).toEqual(found)
  expect(findMember(Array(12).fill('X'), ['11'])).toBe('X')
})

test('decodeU() takes every %u00 for a plain escape', () => {
  expect(decodeU('%u0041%U0042%u0143')).toBe('%41%42%u0143')
})

test.each(['api_key=%u0041', 'api_key=%U0041', 'api_key=a%u', '%u0061pi_key=X'])(
  'readParameter() reads nothing of %s, which decoders take for something else',
  (text) => expect(read(text)).toBe('ambiguous'),
)
