import { expect, test } from 'vitest'
import type { LimitState } from '../../src/core/model/charge.ts'
import type { ReportedLimit } from '../../src/core/model/verdict.ts'
import { loadConfig } from '../../src/http/config/load-config.ts'
import { type HeaderFormat, setRateLimitHeaders } from '../../src/http/response/rate-limit-headers.ts'

const NOW_MS = 1_700_000_000_400

/** @param usage of each limit, ordered by window */
function findReports(limits: string, usage: readonly Partial<LimitState>[]): readonly ReportedLimit[] {
  const env = { UPSTREAM_URL: 'https://api.example.com', RATE_LIMITS: limits }
  return loadConfig(env).policies.flatMap((policy) =>
    policy.limits.map((limit, i) => ({
      policy,
      ...limit,
      isReserve: false,
      remaining: 0,
      resetMs: 0,
      retryAfterMs: 0,
      ...(usage[i] as Partial<ReportedLimit>),
    })),
  )
}

function readFields(
  headerFormat: HeaderFormat,
  limits: readonly ReportedLimit[],
  sent: Readonly<Record<string, string>> = {},
) {
  const headers = new Headers(sent)
  setRateLimitHeaders(headers, { outcome: 'admitted', limits }, headerFormat, () => NOW_MS)
  return Object.fromEntries(headers)
}

const TWO = findReports('10/1s, 120/1m', [
  { remaining: 3, resetMs: 1_000 },
  { remaining: 100, resetMs: 59_001 },
])

test('setRateLimitHeaders() writes draft-11: an item a limit, in lists', () => {
  expect(readFields('draft-11', TWO)).toEqual({
    'ratelimit-policy': '"default-1s";q=10;w=1, "default-1m";q=120;w=60',
    ratelimit: '"default-1s";r=3;t=1, "default-1m";r=100;t=60',
  })
})

/** As limits of a policy that counts failures. */
function ofFailures(limits: readonly ReportedLimit[]): readonly ReportedLimit[] {
  return limits.map((limit) => ({ ...limit, policy: { ...limit.policy, counts: 'failures' } }))
}

test('setRateLimitHeaders() writes failures left under a unit of their own', () => {
  expect(readFields('draft-11', ofFailures(TWO))).toEqual({
    'ratelimit-policy': '"default-1s";q=10;qu="failed-requests";w=1, "default-1m";q=120;qu="failed-requests";w=60',
    ratelimit: '"default-1s";r=3;t=1, "default-1m";r=100;t=60',
  })
})

test.each([
  ['bytes', 'content-bytes'],
  ['ms', 'milliseconds'],
  ['json:/usage/total_tokens', 'units'],
  ['header:x-cost', 'units'],
  ['bytes:request', 'content-bytes'],
  [{ bytes: 0.001 }, 'units'],
  [{ bytes: 1, ms: 1 }, 'units'],
])('setRateLimitHeaders() names the unit of what %j tells', (actual_cost, unit) => {
  const untold = typeof actual_cost === 'string' && /^(?:json|header):/.test(actual_cost) ? { untold: 1 } : {}
  const POLICIES = [{ name: 'own', limits: '9/1m', actual_cost, ...untold }]
  const { policies } = loadConfig({ UPSTREAM_URL: 'https://api.example.com', RATE_LIMITS: 'off', POLICIES })
  const limits = findReports('9/1m', [{ remaining: 3 }]).map((limit) => ({
    ...limit,
    ...policies.map((policy) => ({ policy }))[0],
  }))
  expect(readFields('draft-11', limits)['ratelimit-policy']).toBe(`"default-1m";q=9;qu="${unit}";w=60`)
})

test('setRateLimitHeaders() does not pass slots for a rate where there is no unit, and reports in a refusal what it waits for', () => {
  const slots = (retryAfterMs: number) =>
    findReports('1/10m', [{ resetMs: 600_000, retryAfterMs }]).map((limit) => ({
      ...limit,
      policy: { ...limit.policy, algorithm: 'concurrency' as const },
    }))
  const [free, taken] = [slots(0), slots(600_000)]
  expect(readFields('draft-6', [...free, ...TWO])).toMatchObject({
    'ratelimit-policy': '10;w=1, 120;w=60',
    'ratelimit-limit': '10',
  })
  expect(readFields('x-ratelimit', free)).toEqual({})
  expect(readFields('draft-6', [...taken, ...TWO])).toEqual({
    'ratelimit-policy': '1, 10;w=1, 120;w=60',
    'ratelimit-limit': '1',
    'ratelimit-remaining': '0',
    'ratelimit-reset': '1',
  })
})

test('setRateLimitHeaders() reports limits that are enforced rather than those in shadow mode', () => {
  const shadow = findReports('1/1h', [{ resetMs: 3_600_000, retryAfterMs: 3_600_000 }]).map((limit) => ({
    ...limit,
    policy: { ...limit.policy, mode: 'shadow' as const },
  }))
  const refusing = findReports('2/2s', [{ resetMs: 2_000, retryAfterMs: 2_000 }])
  expect(readFields('x-ratelimit', [...shadow, ...refusing])['x-ratelimit-limit']).toBe('2')
  expect(readFields('x-ratelimit', shadow)['x-ratelimit-limit']).toBe('1')
  for (const format of ['draft-11', 'draft-6'] as const) {
    expect(readFields(format, [...shadow, ...TWO])).toEqual(readFields(format, TWO))
    expect(readFields(format, shadow)['ratelimit-policy']).toMatch(/1.*;w=3600$/)
  }
})

test('setRateLimitHeaders() does not pass failures for requests where there is no unit, unless they refuse', () => {
  const refusing = ofFailures(findReports('5/1m', [{ resetMs: 9_000, retryAfterMs: 9_000 }]))
  for (const headerFormat of ['draft-6', 'x-ratelimit'] as const) {
    expect(readFields(headerFormat, ofFailures(TWO))).toEqual({})
    const name = headerFormat === 'draft-6' ? 'ratelimit-limit' : 'x-ratelimit-limit'
    expect(readFields(headerFormat, [...ofFailures(findReports('2/1s', [])), ...TWO])[name]).toBe('10')
    expect(readFields(headerFormat, [...refusing, ...TWO])[name]).toBe('5')
  }
})

test('setRateLimitHeaders() writes draft-6: all quotas, and how the tightest limit stands', () => {
  expect(readFields('draft-6', TWO)).toEqual({
    'ratelimit-policy': '10;w=1, 120;w=60',
    'ratelimit-limit': '10',
    'ratelimit-remaining': '3',
    'ratelimit-reset': '1',
  })
})

test('setRateLimitHeaders() writes x-ratelimit: the tightest limit, its reset in seconds since the epoch', () => {
  expect(readFields('x-ratelimit', TWO)).toEqual({
    'x-ratelimit-limit': '10',
    'x-ratelimit-remaining': '3',
    'x-ratelimit-reset': '1700000002',
  })
})

test('setRateLimitHeaders() writes nothing where it is off', () => {
  expect(readFields('off', TWO)).toEqual({})
})

test.each<HeaderFormat>(['draft-11', 'draft-6', 'x-ratelimit', 'off'])(
  'setRateLimitHeaders() in %s writes nothing for a request that no policy is about',
  (headerFormat) => {
    expect(readFields(headerFormat, [], { 'X-Mine': '1' })).toEqual({ 'x-mine': '1' })
  },
)

test.each([
  ['5/1ms', '"default-1ms";q=5', '5'],
  ['5/1500ms', '"default-1500ms";q=5', '5'],
  ['5/2s', '"default-2s";q=5;w=2', '5;w=2'],
  ['5/1w', '"default-1w";q=5;w=604800', '5;w=604800'],
])('setRateLimitHeaders() leaves w out for a window that is not of whole seconds: %s', (text, draft11, draft6) => {
  const limits = findReports(text, [])
  expect(readFields('draft-11', limits)['ratelimit-policy']).toBe(draft11)
  expect(readFields('draft-6', limits)['ratelimit-policy']).toBe(draft6)
})

test.each([
  [0, '0', '1700000001'],
  [1, '1', '1700000001'],
  [600, '1', '1700000001'],
  [601, '1', '1700000002'],
  [1_000, '1', '1700000002'],
  [1_001, '2', '1700000002'],
])('setRateLimitHeaders() rounds %d ms up to whole seconds, never down', (resetMs, seconds, epochSeconds) => {
  const limits = findReports('5/1m', [{ resetMs }])
  expect(readFields('draft-11', limits).ratelimit).toBe(`"default-1m";r=0;t=${seconds}`)
  expect(readFields('draft-6', limits)['ratelimit-reset']).toBe(seconds)
  expect(readFields('x-ratelimit', limits)['x-ratelimit-reset']).toBe(epochSeconds)
})

test('setRateLimitHeaders() takes the limit with the longest wait for the tightest, then that with the fewest units', () => {
  const refused = findReports('10/1s, 20/1m, 30/1h', [
    { remaining: 0, resetMs: 900, retryAfterMs: 900 },
    { remaining: 1, resetMs: 30_000, retryAfterMs: 40_000 },
    { remaining: 0, resetMs: 50_000, retryAfterMs: 0 },
  ])
  expect(readFields('draft-6', refused)).toMatchObject({ 'ratelimit-limit': '20', 'ratelimit-reset': '30' })
  const admitted = findReports('10/1s, 20/1m', [
    { remaining: 5, resetMs: 900 },
    { remaining: 4, resetMs: 30_000 },
  ])
  expect(readFields('x-ratelimit', admitted)).toMatchObject({ 'x-ratelimit-limit': '20', 'x-ratelimit-remaining': '4' })
})

test('setRateLimitHeaders() appends to the lists that the upstream sent', () => {
  const sent = { RateLimit: '"theirs";r=1;t=2', 'RateLimit-Policy': '"theirs";q=9;w=10' }
  const limits = findReports('5/1m', [{ remaining: 4, resetMs: 60_000 }])
  expect(readFields('draft-11', limits, sent)).toEqual({
    ratelimit: '"theirs";r=1;t=2, "default-1m";r=4;t=60',
    'ratelimit-policy': '"theirs";q=9;w=10, "default-1m";q=5;w=60',
  })
})

test.each<[HeaderFormat, Readonly<Record<string, string>>]>([
  ['draft-6', { 'ratelimit-limit': '9', 'ratelimit-remaining': '8', 'ratelimit-reset': '7' }],
  ['draft-6', { 'ratelimit-remaining': '0' }],
  ['x-ratelimit', { 'x-ratelimit-limit': '9' }],
])('setRateLimitHeaders() in %s leaves alone the single values that the upstream sent: %j', (headerFormat, sent) => {
  expect(readFields(headerFormat, TWO, sent)).toEqual(sent)
})

test.each<[HeaderFormat, Readonly<Record<string, string>>]>([
  ['draft-6', { 'x-ratelimit-limit': '9' }],
  ['x-ratelimit', { 'ratelimit-limit': '9' }],
  ['draft-11', { 'ratelimit-limit': '9' }],
  ['off', { ratelimit: '"theirs";r=1;t=2' }],
])('setRateLimitHeaders() in %s keeps what the upstream sent in another: %j', (headerFormat, sent) => {
  expect(readFields(headerFormat, TWO, sent)).toEqual({ ...sent, ...readFields(headerFormat, TWO) })
})

test('setRateLimitHeaders() keeps what a limiter behind has reported about its store', () => {
  const headers = new Headers({ 'Sluice-Degraded': 'closed' })
  const verdict = { outcome: 'admitted', limits: [], degraded: 'local' } as const
  setRateLimitHeaders(headers, verdict, 'draft-11', () => NOW_MS)
  expect(headers.get('Sluice-Degraded')).toBe('closed')
  const others = new Headers()
  setRateLimitHeaders(others, verdict, 'draft-11', () => NOW_MS)
  expect(others.get('Sluice-Degraded')).toBe('local')
})
