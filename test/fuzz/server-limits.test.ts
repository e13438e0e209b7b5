import fc from 'fast-check'
import { expect } from 'vitest'
import { outbound } from '../../src/outbound/outbound.ts'
import { readReport } from '../../src/outbound/read-limits.ts'
import { VirtualClock } from '../support/virtual-clock.ts'
import { fuzz } from './fuzz.ts'
import { readFieldValue } from './strings.ts'

const NOW_MS = 1_795_000_000_000
const value = readFieldValue(
  ...['"a"', 'b', ';', '; ', 'q=10', 'w=60', 'r=3', 't=5', 'qu="requests"', 'pk=:AQ==:', ', ', 'limit=', 'remaining='],
  ...['reset=', '10', '0', '-1', '1.5', '1795000060', '1795000060000', '10;w=1', '999999999999999', '()', '?1', '@1'],
  ...[
    '999999999999',
    't=32054400',
    'w=32054400',
    'Fri, 31 Dec 9999 23:59:59 GMT',
    'q=1',
    'r=0',
    '32/40',
    '6m0s',
    '12ms',
    '2.0',
    '3, 3',
    '2026-11-22T12:00:10Z',
    'a=1',
  ],
  ...['Sun, 22 Nov 2026 12:00:10 GMT', 'Sunday, ', 'Sun Nov 22 12:00:10 2026'],
)
const names = [
  ...['RateLimit', 'RateLimit-Policy', 'RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset'],
  ...['X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset', 'Retry-After', 'Date', 'retry-after-ms'],
  ...['X-Rate-Limit-Remaining', 'X-RateLimit-Reset-After', 'X-RateLimit-Limit-Minute', 'X-RateLimit-Burst-Capacity'],
  ...['x-ratelimit-limit-tokens', 'x-ratelimit-remaining-tokens', 'x-ratelimit-reset-tokens', 'X-RateLimit-Used'],
  ...['X-Shopify-Shop-Api-Call-Limit', 'X-HubSpot-RateLimit-Max', 'X-HubSpot-RateLimit-Interval-Milliseconds'],
]
const fields = fc.uniqueArray(fc.tuple(fc.constantFrom(...names), value), { selector: ([name]) => name, maxLength: 6 })

fuzz(
  'readReport() answers numbers within their bounds to any fields, or nothing',
  800,
  fc.property(fields, (fields) => {
    const headers = new Headers(fields.map(([name, text]): [string, string] => [name, text]))
    const { limits, retryAfterMs = 1 } = readReport(headers, NOW_MS - 5_000, NOW_MS)
    expect(limits.length).toBeLessThanOrEqual(16)
    for (const { limit = 1, windowMs = 1, remaining = 0, resetMs = 0, refillPerS = 1 } of limits) {
      for (const number of [limit, windowMs, remaining, resetMs]) expect(Number.isSafeInteger(number)).toBe(true)
      expect(Math.min(limit, windowMs)).toBeGreaterThanOrEqual(1)
      expect(remaining).toBeGreaterThanOrEqual(0)
      expect(refillPerS).toBeGreaterThan(0)
    }
    expect(Number.isSafeInteger(retryAfterMs) && retryAfterMs > 0).toBe(true)
  }),
)

// Fields as a server may well send them, but for their numbers: most of those above say nothing.
const far = fc.constantFrom('0', '1', '60', '3600', '32054400', '999999999', '999999999999')
const stalling = fc.oneof(
  far.map((text): [string, string][] => [['Retry-After', text]]),
  fc.constant<[string, string][]>([['Retry-After', 'Fri, 31 Dec 9999 23:59:59 GMT']]),
  fc.tuple(fc.constantFrom('a', 'b'), far, far).map(([name, window, reset]): [string, string][] => [
    ['RateLimit-Policy', `"${name}";q=1;w=${window}`],
    ['RateLimit', `"${name}";r=0;t=${reset}`],
  ]),
  far.map((text): [string, string][] => [
    ['X-RateLimit-Limit', '1'],
    ['X-RateLimit-Remaining', '0'],
    ['X-RateLimit-Reset', text],
  ]),
  fields,
)
const MAX_PAUSE_MS = 60_000

fuzz(
  'outbound() makes its next call after the longest pause, whatever servers have answered before',
  200,
  fc.asyncProperty(
    fc.array(fc.record({ status: fc.constantFrom(200, 429, 503), fields: stalling }), { minLength: 1, maxLength: 6 }),
    async (answers) => {
      const clock = new VirtualClock(NOW_MS)
      const sentMs: number[] = []
      const fetch = async () => {
        const answer = answers[sentMs.length]
        sentMs.push(clock.now())
        return new Response(null, answer && { status: answer.status, headers: answer.fields })
      }
      const options = { clock, maxPauseMs: MAX_PAUSE_MS, retry: { attempts: 1 }, maxWaitMs: Number.POSITIVE_INFINITY }
      const call = outbound(fetch as typeof globalThis.fetch, options)
      for (let count = 0; count <= answers.length; count++) await clock.finish(call('https://api.example/'))
      const gaps = sentMs.map((ms, index) => ms - (sentMs[index - 1] ?? NOW_MS))
      // A pause ends up to a second later, and so does a window, of which one may follow.
      expect(Math.max(...gaps)).toBeLessThanOrEqual(2 * MAX_PAUSE_MS * 1.02 + 2_000)
    },
  ),
)
