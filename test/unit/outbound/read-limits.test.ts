import { describe, expect, test } from 'vitest'
import { readReport } from '../../../src/outbound/read-limits.ts'

const NOW_MS = Date.parse('2026-11-22T12:00:00.250Z')

function read(fields: Record<string, string>) {
  return readReport(new Headers(fields), NOW_MS, NOW_MS).limits
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

  test('what comes after draft 11 has other letters', () => {
    const fields = { 'RateLimit-Policy': '"burst";q=10;w=1', RateLimit: '"burst";a=3;w=1;c=2' }
    expect(read(fields)).toEqual([{ name: 'burst', limit: 10, windowMs: 1_000, remaining: 3, resetMs: 1_000 }])
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
      { limit: 10, windowMs: 1_000 },
      { limit: 50, windowMs: 60_000, remaining: 20, resetMs: 40_000 },
      { limit: 50, windowMs: 20_000 },
    ])
  })

  test('without a policy the window is not reported', () => {
    expect(read({ RateLimit: 'limit=100, remaining=99, reset=50' })).toEqual([
      { limit: 100, remaining: 99, resetMs: 50_000 },
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
      { limit: 10, windowMs: 1_000, remaining: 0, resetMs: 1_000 },
      { limit: 1_000, windowMs: 3_600_000 },
    ])
  })

  test('policies that follow the limit, as before draft 6', () => {
    expect(read({ 'RateLimit-Limit': '10, 10;w=1, 50;w=60', 'RateLimit-Remaining': '9' })).toEqual([
      { limit: 10, windowMs: 1_000, remaining: 9 },
      { limit: 50, windowMs: 60_000 },
    ])
  })
})

describe('X-RateLimit', () => {
  const limits = { 'X-RateLimit-Limit': '60', 'X-RateLimit-Remaining': '59' }

  test.each([
    ['seconds', '90', 90_000],
    ['a duration', '1m30.5s', 90_500],
    ['RFC 3339', '2026-11-22T12:01:00Z', 59_750],
    ['no seconds left', '0', 0],
    ['parts of seconds', '0.5', 500],
    ['a moment in seconds since 1970', String(Date.parse('2026-11-22T12:01:00Z') / 1000), 59_750],
    ['a moment with parts of seconds', `${Date.parse('2026-11-22T12:01:00Z') / 1000}.5`, 60_250],
    ['a moment in milliseconds since 1970', String(Date.parse('2026-11-22T12:01:00Z')), 59_750],
    ['a moment that has passed', '1700000000', Date.parse('2023-11-14T22:13:20Z') - NOW_MS],
    ['an HTTP date', 'Sun, 22 Nov 2026 12:01:00 GMT', 59_750],
  ])('a reset in %s', (_, reset, resetMs) => {
    const expected = { limit: 60, remaining: 59, resetMs }
    expect(read({ ...limits, 'X-RateLimit-Reset': reset })).toEqual([expected])
  })

  test('a moment is compared with the Date of the response', () => {
    const fields = { ...limits, 'X-RateLimit-Reset': '1700000060', Date: 'Tue, 14 Nov 2023 22:13:20 GMT' }
    expect(read(fields)).toEqual([{ limit: 60, remaining: 59, resetMs: 60_000 }])
  })

  test.each(['soon', '-1', '1e9', 'NaN', ''])('a malformed reset is ignored: %j', (reset) => {
    expect(read({ ...limits, 'X-RateLimit-Reset': reset })).toEqual([{ limit: 60, remaining: 59 }])
  })
})

test('a response without limits, or with none that can be read, has none', () => {
  expect(read({})).toEqual([])
  expect(read({ 'X-RateLimit-Limit': 'many', 'RateLimit-Limit': 'none' })).toEqual([])
})

describe('the headers of', () => {
  test.each([
    [
      'Okta',
      { 'X-Rate-Limit-Limit': '600', 'X-Rate-Limit-Remaining': '0', 'X-Rate-Limit-Reset': '1795348860' },
      [{ limit: 600, remaining: 0, resetMs: 59_750 }],
    ],
    [
      'Kong',
      {
        'RateLimit-Limit': '10',
        'RateLimit-Remaining': '3',
        'RateLimit-Reset': '1',
        'X-RateLimit-Limit-Second': '10',
        'X-RateLimit-Remaining-Second': '3',
        'X-RateLimit-Limit-Minute': '100',
        'X-RateLimit-Remaining-Minute': '93',
      },
      [
        { limit: 10, remaining: 3, resetMs: 1_000, windowMs: 1_000 },
        { limit: 100, remaining: 93, windowMs: 60_000 },
      ],
    ],
    [
      'Envoy',
      { 'X-RateLimit-Limit': '10, 10;w=1;name="default"', 'X-RateLimit-Remaining': '9', 'X-RateLimit-Reset': '1' },
      [{ limit: 10, windowMs: 1_000, remaining: 9, resetMs: 1_000 }],
    ],
    [
      'OpenAI',
      {
        'x-ratelimit-limit-requests': '60',
        'x-ratelimit-remaining-requests': '59',
        'x-ratelimit-reset-requests': '1s',
        'x-ratelimit-limit-tokens': '150000',
        'x-ratelimit-remaining-tokens': '114000',
        'x-ratelimit-reset-tokens': '6m0s',
      },
      [
        { name: 'requests', limit: 60, remaining: 59, refillPerS: 1 },
        { name: 'tokens', unit: 'tokens', limit: 150_000, remaining: 114_000, refillPerS: 100 },
      ],
    ],
    [
      'Anthropic',
      {
        'anthropic-ratelimit-requests-limit': '50',
        'anthropic-ratelimit-requests-remaining': '40',
        'anthropic-ratelimit-requests-reset': '2026-11-22T12:00:10.25Z',
      },
      [{ name: 'requests', limit: 50, remaining: 40, refillPerS: 1 }],
    ],
    ['Shopify', { 'X-Shopify-Shop-Api-Call-Limit': '32/40' }, [{ limit: 40, remaining: 8, refillPerS: 2 }]],
    [
      'Discord',
      {
        'X-RateLimit-Limit': '5',
        'X-RateLimit-Remaining': '0',
        'X-RateLimit-Reset': '1795348860.123',
        'X-RateLimit-Reset-After': '1.5',
      },
      [{ limit: 5, remaining: 0, resetMs: 1_500 }],
    ],
    [
      'Spring Cloud Gateway',
      { 'X-RateLimit-Remaining': '7', 'X-RateLimit-Burst-Capacity': '20', 'X-RateLimit-Replenish-Rate': '10' },
      [{ limit: 20, remaining: 7, refillPerS: 10 }],
    ],
    ['Laravel', { 'X-RateLimit-Limit': '60', 'X-RateLimit-Remaining': '59' }, [{ limit: 60, remaining: 59 }]],
    [
      'Reddit',
      { 'x-ratelimit-used': '4', 'x-ratelimit-remaining': '596.0', 'x-ratelimit-reset': '53' },
      [{ limit: 600, remaining: 596, resetMs: 53_000 }],
    ],
    [
      'HubSpot',
      {
        'X-HubSpot-RateLimit-Max': '100',
        'X-HubSpot-RateLimit-Remaining': '99',
        'X-HubSpot-RateLimit-Interval-Milliseconds': '10000',
        'X-HubSpot-RateLimit-Daily': '250000',
        'X-HubSpot-RateLimit-Daily-Remaining': '249999',
      },
      [
        { limit: 100, remaining: 99, windowMs: 10_000 },
        { limit: 250_000, remaining: 249_999, windowMs: 86_400_000 },
      ],
    ],
    [
      'Strava',
      { 'X-RateLimit-Limit': '100,1000', 'X-RateLimit-Usage': '3,25', Date: 'Sun, 22 Nov 2026 12:01:00 GMT' },
      [
        { limit: 1_000, windowMs: 86_400_000, remaining: 975, resetMs: 43_140_000 },
        { limit: 100, windowMs: 900_000, remaining: 97, resetMs: 840_000 },
      ],
    ],
    [
      'Linear',
      {
        'X-RateLimit-Requests-Limit': '1500',
        'X-RateLimit-Requests-Remaining': '1499',
        'X-RateLimit-Requests-Reset': '1795348860000',
      },
      [{ limit: 1_500, remaining: 1_499, resetMs: 59_750 }],
    ],
    [
      'Etsy',
      {
        'X-Limit-Per-Second': '10',
        'X-Remaining-This-Second': '9',
        'X-Limit-Per-Day': '10000',
        'X-Remaining-Today': '9999',
      },
      [
        { limit: 10, windowMs: 1_000, remaining: 9 },
        { limit: 10_000, windowMs: 86_400_000, remaining: 9_999 },
      ],
    ],
    [
      'a proxy that adds its own',
      {
        'X-RateLimit-Limit': '60, 60',
        'X-RateLimit-Remaining': '59, 59',
        'X-RateLimit-Reset': '1795348860, 1795348860',
      },
      [{ limit: 60, remaining: 59, resetMs: 59_750 }],
    ],
    [
      'no window, and no refill',
      {
        'X-HubSpot-RateLimit-Max': '100',
        'X-HubSpot-RateLimit-Interval-Milliseconds': '0',
        'X-RateLimit-Burst-Capacity': '20',
        'X-RateLimit-Replenish-Rate': '0',
      },
      [{ limit: 20 }, { limit: 100 }],
    ],
  ])('%s', (_, fields, limits) => {
    expect(read(fields)).toEqual(limits)
  })

  test.each([
    ['X-RateLimit-Resource', 'search'],
    ['X-RateLimit-Bucket', 'abcd1234'],
    ['RateLimit-Name', 'throttle_authenticated_api'],
  ])('%s name what the limits are of', (header, name) => {
    expect(readReport(new Headers({ [header]: name }), NOW_MS, NOW_MS).resource).toBe(name)
  })
})

test('a duration is from the time on at which the call was counted, soon after it was sent', () => {
  const fields = new Headers({ 'X-RateLimit-Limit': '9', 'X-RateLimit-Remaining': '0', 'X-RateLimit-Reset': '60' })
  expect(readReport(fields, NOW_MS - 10_000, NOW_MS).limits).toEqual([{ limit: 9, remaining: 0, resetMs: 50_550 }])
})

function readAfter(fields: Record<string, string>) {
  return readReport(new Headers(fields), NOW_MS, NOW_MS).retryAfterMs
}

test.each([
  ['120', 120_000],
  [' 7 ', 7_000],
  ['2.0', 2_000],
  ['3, 3', 3_000],
  ['1795348860', 59_750],
  ['Sun, 22 Nov 2026 12:00:10 GMT', 9_750],
  ['Sunday, 22-Nov-26 12:00:10 GMT', 9_750],
  ['Sun Nov 22 12:00:10 2026', 9_750],
])('Retry-After: %s is read', (text, ms) => {
  expect(readAfter({ 'Retry-After': text })).toBe(ms)
})

test('Retry-After as a date is compared with the Date of the response', () => {
  const fields = { 'Retry-After': 'Tue, 14 Nov 2023 22:13:30 GMT', Date: 'Tue, 14 Nov 2023 22:13:20 GMT' }
  expect(readAfter(fields)).toBe(10_000)
})

test.each([
  ...['', '0', 'soon', '-1', '1e3', 'Sun, 22 Nov 2026 11:59:00 GMT', 'Sun, 99 Nov 2026 12:00:10 GMT', '9'.repeat(20)],
])('Retry-After: %j names no time to wait', (text) => {
  expect(readAfter({ 'Retry-After': text })).toBeUndefined()
})

test.each(['Retry-After', 'X-RateLimit-Reset-After'])('%s counts from the response, however late it is', (header) => {
  expect(readReport(new Headers({ [header]: '5' }), NOW_MS - 6_000, NOW_MS).retryAfterMs).toBe(5_000)
})

test('the latest of several times counts', () => {
  expect(readAfter({ 'Retry-After': '1', 'retry-after-ms': '1500' })).toBe(1_500)
  expect(readAfter({ 'Retry-After': '1', 'X-Retry-In': '2.5s' })).toBe(2_500)
  expect(readAfter({})).toBeUndefined()
})
