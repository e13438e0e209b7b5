import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { scaleToLocalShare } from '../../src/core/engine/local-share.ts'
import { type ReportedLimit, toWholeMs } from '../../src/core/model/verdict.ts'
import { openCalendar, readCalendarLimits } from '../../src/core/options/calendar.ts'
import type { OptionError } from '../../src/core/options/option-error.ts'
import { resolveOverride } from '../../src/gateway/rules/override.ts'
import { loadConfig } from '../../src/http/config/load-config.ts'
import { setRateLimitHeaders } from '../../src/http/response/rate-limit-headers.ts'
import { createRefusal } from '../../src/http/response/refusal.ts'

const UPSTREAM_URL = 'https://api.example.com'
const MONTHLY = {
  name: 'api',
  algorithm: 'quota',
  limits: '1000/day, 10000/month',
  time_zone: 'Europe/Berlin',
  starts: 15,
}

function load(table: object, reader = readCalendarLimits) {
  return loadConfig({ UPSTREAM_URL, POLICIES: [{ ...MONTHLY, ...table }] }, { readCalendarLimits: reader }).policies[0]
}

describe('openCalendar()', () => {
  test('reads a time zone once, however many limits go by it', () => {
    const made = vi.spyOn(Intl, 'DateTimeFormat')
    onTestFinished(() => made.mockRestore())
    for (const unit of ['day', 'month', 'day'] as const) openCalendar(unit, 'Pacific/Chatham')
    expect(made).toHaveBeenCalledTimes(1)
    expect(() => openCalendar('day', 'Pacific/Nowhere')).toThrow(RangeError)
    expect(() => openCalendar('day', 'Pacific/Nowhere')).toThrow(RangeError)
  })

  test.each([
    // The last day of a shorter month stands for the 31st.
    ['month', 'UTC', 31, '2024-02-10T00:00Z', ['2024-01-31T00:00Z', '2024-02-29T00:00Z', '2024-03-31T00:00Z']],
    [
      'month',
      'Europe/Berlin',
      15,
      '2026-03-20T00:00Z',
      ['2026-03-14T23:00Z', '2026-04-14T22:00Z', '2026-05-14T22:00Z'],
    ],
    ['month', undefined, undefined, '2026-12-31T23:59:59.999Z', ['2026-12-01', '2027-01-01', '2027-02-01']],
    ['week', 'UTC', 1, '2026-11-22T23:59:59.999Z', ['2026-11-16', '2026-11-23', '2026-11-30']],
    ['year', 'Asia/Kathmandu', 1, '2026-06-01', ['2025-12-31T18:15Z', '2026-12-31T18:15Z', '2027-12-31T18:15Z']],
    // Midnight is skipped on 4 November 2018, 31 March 2024 and 26 April 2024; it comes twice on 3 November 2024.
    [
      'day',
      'America/Sao_Paulo',
      1,
      '2018-11-04T02:59Z',
      ['2018-11-03T03:00Z', '2018-11-04T03:00Z', '2018-11-05T02:00Z'],
    ],
    ['day', 'Asia/Beirut', 1, '2024-03-30T23:00Z', ['2024-03-30T22:00Z', '2024-03-31T21:00Z', '2024-04-01T21:00Z']],
    ['day', 'Africa/Cairo', 1, '2024-04-25T21:59Z', ['2024-04-24T22:00Z', '2024-04-25T22:00Z', '2024-04-26T21:00Z']],
    ['day', 'America/Havana', 1, '2024-11-03T05:30Z', ['2024-11-03T04:00Z', '2024-11-04T05:00Z', '2024-11-05T05:00Z']],
    // There was no 30 December 2011.
    ['day', 'Pacific/Apia', 1, '2011-12-30T09:59Z', ['2011-12-29T10:00Z', '2011-12-30T10:00Z', '2011-12-31T10:00Z']],
  ] as const)('by %s in %s from day %s, at %s', (unit, timeZone, starts, at, ends) => {
    expect(openCalendar(unit, timeZone, starts).findEnds(Date.parse(at))).toEqual(ends.map((end) => Date.parse(end)))
  })

  test('calls Intl once a window', () => {
    const { findEnds } = openCalendar('month', 'Europe/Berlin')
    const ends = findEnds(Date.UTC(2026, 10, 2))
    expect(findEnds(Date.UTC(2026, 10, 29))).toBe(ends)
  })
})

describe('loadConfig()', () => {
  test('names limits by their unit, ordered by window, alongside those of a length', () => {
    const policy = load({ limits: '90/year, 10000/month,50/week , 9/30d, 1000/day, 100/1h', starts: undefined })
    expect(policy?.limits.map(({ name, limit }) => [name, limit])).toEqual([
      ['api-1h', 100],
      ['api-day', 1_000],
      ['api-week', 50],
      ['api-30d', 9],
      ['api-month', 10_000],
      ['api-year', 90],
    ])
    expect(policy?.limits.map(({ calendar }) => calendar?.unit)).toEqual([
      undefined,
      'day',
      'week',
      undefined,
      'month',
      'year',
    ])
  })

  test.each([
    [{ time_zone: 'Europe/Brelin' }, 'time_zone: expected the IANA name of a time zone, such as "Europe/Berlin"'],
    [{ time_zone: 1 }, 'time_zone: expected a time zone'],
    [{ limits: '9/30d', starts: undefined }, 'time_zone: expected limits by day, week, month or year with it'],
    [{ limits: '20', algorithm: 'concurrency' }, 'time_zone: expected limits by day, week, month or year with it'],
    [{ limits: '9/week' }, 'starts: expected limits by month with it, got 15'],
    [{ starts: 0 }, 'starts: expected an integer from 1 to 31, got 0'],
    [{ starts: 32 }, 'starts: expected an integer from 1 to 31, got 32'],
    [{ algorithm: 'fixed-window' }, 'limits: expected algorithm = "quota" with limits by day, got "1000/day, '],
    [{ algorithm: 'sliding-window', limits: '9/month' }, 'limits: expected algorithm = "quota" with limits by month'],
    [{ limits: '9/month, 10/month' }, 'limits: expected limits such as'],
    [{ limits: '9/month, 10/745h' }, 'limits: expected limits such as'],
    [{ limits: '9/1month' }, 'time_zone: expected limits by day'],
    [{ limits: '0/month' }, 'limits: expected limits such as'],
  ])('refuses %j', (keys, message) => {
    expect(() => load(keys)).toThrow(`POLICIES[0].${message}`)
  })

  test.each([
    { RATE_LIMITS: '9/month' },
    // What would read the calendar is not loaded.
    { POLICIES: [{ name: 'api', algorithm: 'quota', limits: '9/month' }] },
  ])('refuses %j, and says with what it goes', (env) => {
    expect(() => loadConfig({ UPSTREAM_URL, ...env })).toThrow('day, week, month and year with "quota"')
  })

  test('wants the same windows in every plan', () => {
    const plans = { plan: 'header:x-plan', default_plan: 'free' }
    const limits = { free: '10/month', pro: '1000/month' }
    expect(load({ ...plans, limits })?.plans?.limits.pro?.limits[0]).toMatchObject({ name: 'api-month', limit: 1_000 })
    expect(() => load({ ...plans, limits: { ...limits, pro: '1000/745h' } })).toThrow(
      expect.objectContaining<Partial<OptionError>>({ variable: 'POLICIES' }),
    )
  })
})

test('an override keeps the calendar of its policy', () => {
  const policy = load({ limits: '10000/month' })
  if (!policy) throw new Error('there is a policy')
  const { calendar } = policy.limits[0] ?? {}
  const by = { id: 'o', target: {} } as never
  for (const override of [{ limits: { api: '50000/month' } }, { multiplier: 5 }]) {
    const resolved = resolveOverride(Object.assign(override, by), policy, policy.limits)
    expect(resolved).toMatchObject({ limits: [{ limit: 50_000, calendar }] })
  }
  expect(resolveOverride(Object.assign({ limits: { api: '50000/745h' } }, by), policy, policy.limits)).toEqual({
    expected: 'the same windows as those of the policy',
  })
})

test('a share of a limit keeps its calendar', () => {
  const { limits = [] } = load({ limits: '10000/month' }) ?? {}
  const charge = { key: 'k', algorithm: 'quota', limits, cost: 1, mode: 'enforce', reserved: 0 } as const
  expect(scaleToLocalShare(charge, 0.1).limits).toEqual([{ ...limits[0], limit: 1_000 }])
})

describe('a response', () => {
  const policy = load({ limits: '10/1h, 10000/month' })
  const reports = (policy?.limits ?? []).map((limit) => {
    return {
      policy,
      ...limit,
      isReserve: false,
      remaining: 0,
      resetMs: 86_400_001,
      retryAfterMs: 86_400_001,
    } as ReportedLimit
  })

  test('reports no length of a month, and when it ends', () => {
    const headers = new Headers()
    setRateLimitHeaders(headers, { outcome: 'admitted', limits: reports }, 'draft-11', () => 0)
    expect(Object.fromEntries(headers)).toEqual({
      'ratelimit-policy': '"api-1h";q=10;w=3600, "api-month";q=10000',
      ratelimit: '"api-1h";r=0;t=86401, "api-month";r=0;t=86401',
    })
    const older = new Headers()
    setRateLimitHeaders(older, { outcome: 'admitted', limits: reports }, 'draft-6', () => 0)
    expect(older.get('RateLimit-Policy')).toBe('10;w=3600, 10000')
  })

  test('says that a month is over its limit', async () => {
    const violated = reports.slice(1)
    const response = createRefusal({
      outcome: 'limited',
      limits: reports,
      violated,
      retryAfterMs: toWholeMs(86_400_001),
    })
    expect(response.headers.get('Retry-After')).toBe('86401')
    expect(await response.json()).toMatchObject({
      detail: 'Rate limit exceeded: 10000 requests per month.',
      'violated-policies': ['api-month'],
    })
    const [one] = violated.map((limit) => ({ ...limit, limit: 1 }))
    const single = createRefusal({
      outcome: 'limited',
      limits: [],
      violated: one ? [one] : [],
      retryAfterMs: toWholeMs(1),
    })
    expect(await single.json()).toMatchObject({ detail: 'Rate limit exceeded: 1 request per month.' })
  })
})
