import { describe, expect, test } from 'vitest'
import { readRetryAfter, readServerLimits } from '../../../src/outbound/server-limit.ts'

const NOW_MS = Date.parse('2026-11-22T12:00:00.250Z')

function read(fields: Record<string, string>) {
  return readServerLimits(new Headers(fields), NOW_MS)
}

describe('draft 8 to 11', () => {
  test('policies and how they stand are joined by name', () => {
    const fields = {
      'RateLimit-Policy': '"burst";q=10;w=1, "day";q=1000;w=86400',
      RateLimit: '"burst";r=3;t=1, "day";r=900;t=600',
    }
    expect(read(fields)).toEqual([
      { name: 'burst', limit: 10, windowMs: 1_000, remaining: 3, resetMs: 1_000 },
      { name: 'day', limit: 1_000, windowMs: 86_400_000, remaining: 900, resetMs: 600_000 },
    ])
  })

  test('partition keys, unknown parameters and spaces after a semicolon change nothing', () => {
    const fields = {
      'RateLimit-Policy': '"100-in-15min"; q=100; w=900; pk=:MzZlOTk5:; x="y"',
      RateLimit: '"100-in-15min"; r=99; t=900',
    }
    expect(read(fields)).toEqual([
      { name: '100-in-15min', limit: 100, windowMs: 900_000, remaining: 99, resetMs: 900_000 },
    ])
  })

  test('each field is read without the other', () => {
    expect(read({ 'RateLimit-Policy': '"a";q=5' })).toEqual([{ name: 'a', limit: 5 }])
    expect(read({ RateLimit: '"a";r=5;t=2' })).toEqual([{ name: 'a', remaining: 5, resetMs: 2_000 }])
    expect(read({ RateLimit: '"a";r=0' })).toEqual([{ name: 'a', remaining: 0 }])
  })

  test('a window of more than 31 years is none', () => {
    expect(read({ 'RateLimit-Policy': '"a";q=5;w=11795000060000' })).toEqual([{ name: 'a', limit: 5 }])
    expect(read({ RateLimit: '"a";r=5;t=11795000060000' })).toEqual([{ name: 'a', remaining: 5 }])
  })

  test('policies in other units than requests are left alone', () => {
    const fields = {
      'RateLimit-Policy':
        '"bytes";q=1000;w=1;qu="content-bytes", "at-once";q=2;qu="concurrent-requests", "a";q=5;w=1;qu="requests"',
      RateLimit: '"bytes";r=7, "at-once";r=1, "a";r=4',
    }
    expect(read(fields)).toEqual([{ name: 'a', limit: 5, windowMs: 1_000, remaining: 4 }])
  })

  test('malformed fields are ignored', () => {
    expect(read({ 'RateLimit-Policy': '"a";q=0;w=1, "b";q=-1, "c";w=1, "d";q="5", 7' })).toEqual([])
    expect(read({ RateLimit: '"a";t=3, "b";r=-1' })).toEqual([])
    expect(read({ RateLimit: '"a;r=3' })).toEqual([])
    expect(read({ RateLimit: `"${'a'.repeat(5_000)}";r=3` })).toEqual([])
  })

  test('of hundreds of policies, sixteen are read', () => {
    const policies = Array.from({ length: 300 }, (_, index) => `"${index}";q=1`).join(', ')
    expect(read({ 'RateLimit-Policy': policies })).toHaveLength(16)
  })
})

describe('draft 7', () => {
  test('the policy that the field is about is the one with its limit', () => {
    const fields = { RateLimit: 'limit=50, remaining=20, reset=40', 'RateLimit-Policy': '10;w=1, 50;w=60, 50;w=20' }
    expect(read(fields)).toEqual([
      { name: 'w=1', limit: 10, windowMs: 1_000 },
      { name: 'w=60', limit: 50, windowMs: 60_000, remaining: 20, resetMs: 40_000 },
      { name: 'w=20', limit: 50, windowMs: 20_000 },
    ])
  })

  test('without a policy the window is not reported', () => {
    expect(read({ RateLimit: 'limit=100, remaining=99, reset=50' })).toEqual([
      { name: 'default', limit: 100, remaining: 99, resetMs: 50_000 },
    ])
  })
})

describe('draft 6', () => {
  test('three fields, and policies in a fourth', () => {
    const fields = {
      'RateLimit-Limit': '10',
      'RateLimit-Remaining': '0',
      'RateLimit-Reset': '1',
      'RateLimit-Policy': '10;w=1;comment="burst", 1000;w=3600',
    }
    expect(read(fields)).toEqual([
      { name: 'w=1', limit: 10, windowMs: 1_000, remaining: 0, resetMs: 1_000 },
      { name: 'w=3600', limit: 1_000, windowMs: 3_600_000 },
    ])
  })

  test('policies that follow the limit, as before draft 6', () => {
    expect(read({ 'RateLimit-Limit': '10, 10;w=1, 50;w=60', 'RateLimit-Remaining': '9' })).toEqual([
      { name: 'w=1', limit: 10, windowMs: 1_000, remaining: 9 },
      { name: 'w=60', limit: 50, windowMs: 60_000 },
    ])
  })

  test('of two policies with one window, the tighter one counts', () => {
    expect(read({ 'RateLimit-Policy': '50;w=60, 10;w=60, 20;w=60' })).toEqual([
      { name: 'w=60', limit: 10, windowMs: 60_000 },
    ])
  })
})

describe('X-RateLimit', () => {
  const limits = { 'X-RateLimit-Limit': '60', 'X-RateLimit-Remaining': '59' }

  test.each([
    ['seconds', '90', 90_000],
    ['no seconds left', '0', 0],
    ['parts of seconds', '0.5', 500],
    ['a moment in seconds since 1970', String(Date.parse('2026-11-22T12:01:00Z') / 1000), 59_750],
    ['a moment with parts of seconds', `${Date.parse('2026-11-22T12:01:00Z') / 1000}.5`, 60_250],
    ['a moment in milliseconds since 1970', String(Date.parse('2026-11-22T12:01:00Z')), 59_750],
    ['a moment that has passed', '1700000000', 0],
    ['an HTTP date', 'Sun, 22 Nov 2026 12:01:00 GMT', 59_750],
  ])('a reset in %s', (_, reset, resetMs) => {
    const expected = { name: 'default', limit: 60, remaining: 59, resetMs }
    expect(read({ ...limits, 'X-RateLimit-Reset': reset })).toEqual([expected])
  })

  test('a moment is compared with the Date of the response', () => {
    const fields = { ...limits, 'X-RateLimit-Reset': '1700000060', Date: 'Tue, 14 Nov 2023 22:13:20 GMT' }
    expect(read(fields)).toEqual([{ name: 'default', limit: 60, remaining: 59, resetMs: 60_000 }])
  })

  test.each(['soon', '-1', '1e9', 'NaN', ''])('a malformed reset is ignored: %j', (reset) => {
    expect(read({ ...limits, 'X-RateLimit-Reset': reset })).toEqual([{ name: 'default', limit: 60, remaining: 59 }])
  })

  test('is read only where a response has nothing newer', () => {
    expect(read({ ...limits, 'RateLimit-Policy': '"a";q=5;w=1' })).toEqual([{ name: 'a', limit: 5, windowMs: 1_000 }])
  })
})

test('a response without limits, or with none that can be read, has none', () => {
  expect(read({})).toEqual([])
  expect(read({ 'X-RateLimit-Limit': 'many', 'RateLimit-Limit': 'none' })).toEqual([])
})

function readAfter(text: string, date?: string) {
  return readRetryAfter(new Headers({ 'Retry-After': text, ...(date && { Date: date }) }), NOW_MS)
}

test.each([
  ['0', 0],
  ['120', 120_000],
  [' 7 ', 7_000],
  ['Sun, 22 Nov 2026 12:00:10 GMT', 9_750],
  ['Sunday, 22-Nov-26 12:00:10 GMT', 9_750],
  ['Sun Nov 22 12:00:10 2026', 9_750],
  ['Sun, 22 Nov 2026 11:59:00 GMT', 0],
])('readRetryAfter() reads %s', (text, ms) => {
  expect(readAfter(text)).toBe(ms)
})

test('readRetryAfter() compares a date with the Date of the response', () => {
  expect(readAfter('Tue, 14 Nov 2023 22:13:30 GMT', 'Tue, 14 Nov 2023 22:13:20 GMT')).toBe(10_000)
})

test.each(['', 'soon', '-1', '1.5', '1e3', '2026-11-22T12:00:10Z', 'Sun, 99 Nov 2026 12:00:10 GMT', '9'.repeat(20)])(
  'readRetryAfter() ignores what is neither a number of seconds nor a date: %j',
  (text) => {
    expect(readAfter(text)).toBeUndefined()
  },
)

test('readRetryAfter() finds nothing in a response without the field', () => {
  expect(readRetryAfter(new Headers(), NOW_MS)).toBeUndefined()
})
