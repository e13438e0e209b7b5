import { expect, test } from 'vitest'
import { loadConfig } from '../../../src/config/load-config.ts'
import type { Observed } from '../../../src/http/observer.ts'
import type { TierReport, Verdict } from '../../../src/limiter/verdict.ts'
import type { Policy } from '../../../src/request/policy/policy.ts'
import { type AnalyticsDataset, AnalyticsWriter } from '../../../src/statistics/analytics.ts'
import { RefusalLog } from '../../../src/statistics/refusal-log.ts'
import { labelOf } from '../../../src/statistics/refused-callers.ts'

const { policies } = loadConfig({
  UPSTREAM_URL: 'https://api.example.com',
  POLICIES: [{ name: 'login', limits: '5/1m', match: 'POST /login/:realm' }],
})
const [login] = policies as [Policy]

const TIER = {
  ...login.tiers[0],
  policy: login,
  isReserve: false,
  remaining: 0,
  resetMs: 1,
  retryAfterMs: 70,
} as TierReport
const LIMITED: Verdict = { kind: 'limited', tiers: [TIER], violated: [TIER], retryAfterMs: 70 }

function observed(verdict: Verdict, cf?: unknown): Observed {
  const request = new Request('https://gateway.example/login/realm-of-a-caller?token=in-the-url', {
    headers: { Authorization: 'Bearer a-token', 'CF-Connecting-IP': '203.0.113.7', 'X-Account': ' ACME "1" ' },
  })
  const match = { policy: login, route: 'POST /login/:realm', isCertain: true }
  const key = 'sluice:login:w:{the-digest}'
  const rule = { key, algorithm: 'sliding-window', tiers: [], cost: 1, enforced: true, reserved: 0 } as const
  return {
    request: Object.defineProperty(request, 'cf', { value: cf }),
    verdict,
    findings: { matches: [match], charges: [{ match, rule }] },
  }
}

function refusalLog(share: number, random: () => number = () => 0.5) {
  const lines: unknown[] = []
  const log = new RefusalLog({
    ...{ share, random, labelHeader: 'x-account' },
    log: (level, fields) => lines.push({ level, ...fields }),
  })
  return { log, lines }
}

test('RefusalLog says who was refused by what, and nothing that callers have sent but the label', () => {
  const { log, lines } = refusalLog(1)
  log.decided(observed(LIMITED, { country: 'DE' }))
  expect(lines).toEqual([
    {
      ...{ level: 'info', event: 'refused', kind: 'limited', retryAfterMs: 70, label: 'ACME "1"', country: 'DE' },
      ...{ policies: ['login'], routes: ['POST /login/:realm'], tiers: ['login-1m'], callers: { login: 'the-digest' } },
    },
  ])
})

test('RefusalLog logs a share of refusals, and no admissions', () => {
  const drawn = [0, 0.009, 0.01, 0.5, 0.99]
  const { log, lines } = refusalLog(0.01, () => drawn.shift() ?? 1)
  for (let i = 0; i < 5; i++) log.decided(observed(LIMITED))
  expect(lines).toHaveLength(2)
  const all = refusalLog(1)
  all.log.decided(observed({ kind: 'admitted', tiers: [] }))
  expect(all.lines).toEqual([])
})

test.each<[Verdict, object]>([
  [
    { kind: 'shed', retryAfterMs: 1_000 },
    { kind: 'shed', retryAfterMs: 1_000, callers: {} },
  ],
  [
    { kind: 'unidentified', status: 401, policy: login },
    { kind: 'unidentified', callers: {} },
  ],
  [
    { kind: 'unavailable', degraded: 'closed' },
    { kind: 'unavailable', degraded: 'closed' },
  ],
])('RefusalLog names nobody where no limit has refused: $kind', (verdict, expected) => {
  const { log, lines } = refusalLog(1)
  log.decided(observed(verdict, { country: 'not a code' }))
  expect(lines).toEqual([expect.objectContaining(expected)])
  expect(JSON.stringify(lines)).not.toContain('country')
})

test('AnalyticsWriter writes one data point for each request, within the limits of the platform', () => {
  const points: Parameters<AnalyticsDataset['writeDataPoint']>[0][] = []
  const writer = new AnalyticsWriter({ writeDataPoint: (point) => void points.push(point) }, () => {})
  writer.decided(observed(LIMITED, { country: 'DE' }))
  const admitted = observed({ kind: 'admitted', tiers: [], degraded: 'local' })
  writer.decided(admitted)
  writer.answered(admitted, 502)
  writer.undecided('bad_request')
  const route = 'POST /login/:realm'
  expect(points).toEqual([
    {
      indexes: ['the-digest'],
      blobs: ['limited', 'login', route, 'login-1m', null, 'DE', 'the-digest'],
      doubles: [1, 0, 70],
    },
    { indexes: ['admitted'], blobs: ['admitted', 'login', route, null, 'local', null, null], doubles: [1, 502, 0] },
    { indexes: ['bad_request'], blobs: ['bad_request'], doubles: [1, 0, 0] },
  ])
})

test.each([
  ['ACME', 'ACME'],
  ['  ACME  ', 'ACME'],
  ['', undefined],
  ['x'.repeat(100), 'x'.repeat(64)],
])('labelOf() of %j is %j', (value, label) => {
  expect(labelOf(new Request('https://gateway.example/', { headers: { 'X-Account': value } }), 'x-account')).toBe(label)
})

test('labelOf() cuts no character in half', () => {
  const headers = { get: () => `${'x'.repeat(63)}😀`, has: () => true }
  const request = Object.defineProperty(new Request('https://gateway.example/'), 'headers', { value: headers })
  expect(labelOf(request, 'x-account')).toBe(`${'x'.repeat(63)}\ufffd`)
  expect(() => encodeURIComponent(labelOf(request, 'x-account') ?? '')).not.toThrow()
  expect(labelOf(request, undefined)).toBeUndefined()
})

test('AnalyticsWriter lets no request fail because its data point could not be written', () => {
  const lines: unknown[] = []
  const writeDataPoint = () => {
    throw new TypeError('too many blobs')
  }
  const writer = new AnalyticsWriter({ writeDataPoint }, (_level, line) => lines.push(line))
  writer.undecided('failed')
  expect(lines).toEqual([{ event: 'analytics_unwritten', error: 'TypeError' }])
})
