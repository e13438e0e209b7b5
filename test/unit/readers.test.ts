import { describe, expect, test } from 'vitest'
import { OptionError } from '../../src/core/options/option-error.ts'
import * as v from '../../src/core/options/readers.ts'

const READERS = {
  size: v.required(v.integer(1, 9)),
  unit: v.withDefault(v.oneOf('s', 'm'), 's'),
  names: v.list(v.NAME, 'a list of names'),
  inner: v.table({ on: v.BOOLEAN }, 'a table', 'key'),
  shares: v.record(v.NAME, v.SHARE, 'shares by name'),
  lease: v.LEASES,
}

const findMessage = (options: unknown, where?: string) => {
  try {
    v.readOptions('make', options, READERS, where)
  } catch (error) {
    expect(error).toBeInstanceOf(OptionError)
    return (error as OptionError).message
  }
  return undefined
}

test('readOptions() returns what was given, with defaults, and leaves out what is missing', () => {
  expect(v.readOptions('make', { size: 5, names: undefined }, READERS)).toStrictEqual({ size: 5, unit: 's' })
  expect(v.readOptions('make', { size: 5, unit: 'm', shares: { a: 1 }, lease: 'auto' }, READERS)).toStrictEqual({
    ...{ size: 5, unit: 'm', shares: { a: 1 }, lease: 'auto' },
  })
})

describe('readOptions() refuses', () => {
  test.each<[unknown, string]>([
    [undefined, 'make: expected an object, got nothing'],
    [[], 'make: expected an object, got []'],
    [{}, 'size: expected an integer from 1 to 9, got nothing'],
    [{ size: '5' }, 'size: expected an integer from 1 to 9, got "5"'],
    [{ size: null }, 'size: expected an integer from 1 to 9, got null'],
    [{ size: 1, sise: 1 }, 'make.sise: unknown option; expected one of size, unit, names, inner, shares, lease'],
    [{ size: 1, names: 'a' }, 'names: expected a list of names, got "a"'],
    [{ size: 1, names: ['a', 5] }, 'names[1]: expected up to 64 letters, digits, "-" or "_", got 5'],
    [{ size: 1, inner: [] }, 'inner: expected a table, got []'],
    [{ size: 1, inner: { on: 'yes' } }, 'inner.on: expected true or false, got "yes"'],
    [{ size: 1, inner: { off: true } }, 'inner.off: unknown key; expected one of on'],
    [{ size: 1, shares: { a: 2 } }, 'shares.a: expected a share above 0 and at most 1, got 2'],
    [{ size: 1, shares: { 'a b': 1 } }, 'shares: expected up to 64 letters, digits, "-" or "_", got "a b"'],
    [{ size: 1, lease: 1 }, 'lease: expected "off", "auto" or an integer from 2 to 10000, got 1'],
  ])('%j', (options, message) => {
    expect(findMessage(options)).toBe(message)
  })

  test('an option at its place', () => {
    expect(findMessage({ size: 0 }, 'makers[1]')).toBe('makers[1].size: expected an integer from 1 to 9, got 0')
  })
})

test('narrowed() says what the first reader expects of what that refuses, and its own of the rest', () => {
  const odd = v.narrowed(v.integer(1, 9), (value) => value % 2 === 1, 'an odd number')
  expect(v.read(odd, 3, 'n')).toBe(3)
  expect(() => v.read(odd, 4, 'n')).toThrow('n: expected an odd number, got 4')
  expect(() => v.read(odd, 10, 'n')).toThrow('n: expected an integer from 1 to 9, got 10')
})

describe('no message shows', () => {
  test.each([
    'identitySecret',
    'jwt',
    'jwt.secret',
    'jwt.secert',
    'ADMIN_TOKEN',
    'UPSTASH_REDIS_REST_URL',
    'REDIS_SHARDS[0].url',
  ])('a wrong %s', (option) => {
    expect(() => v.read(v.BOOLEAN, 'hush', option)).toThrow(
      `${option}: expected true or false, got a value not shown here`,
    )
  })

  test('a wrong object, which may be a client with its token', () => {
    expect(() => v.read(v.having(['open'], 'a store'), { token: 'hush' }, 'store')).toThrow(
      'store: expected a store, got "object"',
    )
  })

  test.each(['jwt.issuer', 'STATISTICS', 'name'])('but one of %s, which is public', (option) => {
    expect(() => v.read(v.BOOLEAN, 'x', option)).toThrow('got "x"')
  })
})
