import fc from 'fast-check'
import { expect } from 'vitest'
import { readRetryAfter } from '../../src/outbound/retry-after.ts'
import { readServerLimits } from '../../src/outbound/server-limit.ts'
import { fuzz } from './fuzz.ts'
import { fieldValueOf } from './strings.ts'

const NOW_MS = 1_795_000_000_000
const value = fieldValueOf(
  ...['"a"', 'b', ';', '; ', 'q=10', 'w=60', 'r=3', 't=5', 'qu="requests"', 'pk=:AQ==:', ', ', 'limit=', 'remaining='],
  ...['reset=', '10', '0', '-1', '1.5', '1795000060', '1795000060000', '10;w=1', '999999999999999', '()', '?1', '@1'],
  ...['Sun, 22 Nov 2026 12:00:10 GMT', 'Sunday, ', 'Sun Nov 22 12:00:10 2026'],
)
const names = [
  ...['RateLimit', 'RateLimit-Policy', 'RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset'],
  ...['X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset', 'Retry-After', 'Date'],
]
const fields = fc.uniqueArray(fc.tuple(fc.constantFrom(...names), value), { selector: ([name]) => name, maxLength: 6 })

fuzz(
  'readServerLimits() and readRetryAfter() answer numbers within their bounds to any fields, or nothing',
  800,
  fc.property(fields, (fields) => {
    const headers = new Headers(fields.map(([name, text]): [string, string] => [name, text]))
    const limits = readServerLimits(headers, NOW_MS)
    expect(limits.length).toBeLessThanOrEqual(16)
    expect(new Set(limits.map(({ name }) => name)).size).toBe(limits.length)
    for (const { limit = 1, windowMs = 1, remaining = 0, resetMs = 0 } of limits) {
      for (const number of [limit, windowMs, remaining, resetMs]) expect(Number.isSafeInteger(number)).toBe(true)
      expect(Math.min(limit, windowMs)).toBeGreaterThanOrEqual(1)
      expect(Math.min(remaining, resetMs)).toBeGreaterThanOrEqual(0)
    }
    const retryAfterMs = readRetryAfter(headers, NOW_MS) ?? 0
    expect(Number.isSafeInteger(retryAfterMs) && retryAfterMs >= 0).toBe(true)
  }),
)
