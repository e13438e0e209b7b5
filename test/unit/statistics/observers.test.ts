import { describe, expect, test } from 'vitest'
import type { Reading } from '../../../src/core/model/identity-source.ts'
import type { RequestPolicy } from '../../../src/core/model/policy.ts'
import { type ReportedLimit, toWholeMs, type Verdict } from '../../../src/core/model/verdict.ts'
import { createLabelReader, type LabelReader } from '../../../src/gateway/statistics/label.ts'
import { createAnalyticsWriter, createRefusalLog } from '../../../src/gateway/statistics/observers.ts'
import { loadConfig } from '../../../src/http/config/load-config.ts'
import type { Observed } from '../../../src/http/response/exchange.ts'

const { policies } = loadConfig({
  UPSTREAM_URL: 'https://api.example.com',
  POLICIES: [{ name: 'login', limits: '5/1m', match: 'POST /login/:realm' }],
})
const [login] = policies as [RequestPolicy]

const LIMIT = {
  ...login.limits[0],
  policy: login,
  isReserve: false,
  remaining: 0,
  resetMs: 1,
  retryAfterMs: 70,
} as ReportedLimit
const LIMITED: Verdict = { outcome: 'limited', limits: [LIMIT], violated: [LIMIT], retryAfterMs: toWholeMs(70) }

function observed(verdict: Verdict, cf?: unknown): Observed {
  const request = new Request('https://gateway.example/login/realm-of-a-caller?token=in-the-url', {
    headers: { Authorization: 'Bearer a-token', 'CF-Connecting-IP': '203.0.113.7', 'X-Account': ' ACME "1" ' },
  })
  const match = { policy: login, route: 'POST /login/:realm', isCertain: true }
  const key = 'sluice:login:w:{the-digest}'
  const policy = login
  const charge = {
    policy,
    digest: 'the-digest',
    key,
    algorithm: 'sliding-window',
    limits: [],
    cost: 1,
    mode: 'enforce',
    reserved: 0,
  } as const
  return {
    request: Object.defineProperty(request, 'cf', { value: cf }),
    verdict,
    trace: { matches: [match], charges: [charge] },
  }
}

const readHeader = createLabelReader({ kind: 'header', name: 'x-account' })
const CONTEXT = { waitUntil() {} }

function refusalLog(share: number, random: () => number = () => 0.5, readLabel: LabelReader | undefined = readHeader) {
  const lines: unknown[] = []
  const log = createRefusalLog({
    ...{ share, random, readLabel },
    log: (level, fields) => lines.push({ level, ...fields }),
  })
  return { log, lines }
}

test('the refusal log says who was refused by what, and nothing that callers have sent but the label', () => {
  const { log, lines } = refusalLog(1)
  log.onDecided(observed(LIMITED, { country: 'DE' }), CONTEXT)
  expect(lines).toEqual([
    {
      ...{ level: 'info', event: 'refused', outcome: 'limited', retryAfterMs: 70, label: 'ACME "1"', country: 'DE' },
      ...{
        policies: ['login'],
        routes: ['POST /login/:realm'],
        limits: ['login-1m'],
        callers: { login: 'the-digest' },
      },
    },
  ])
})

test('the refusal log names each policy and each route once, however many patterns and policies match', () => {
  const { log, lines } = refusalLog(1)
  const { trace, ...rest } = observed(LIMITED)
  const [match] = trace.matches
  const all = { policy: { ...login, name: 'all' }, route: undefined, isCertain: true }
  const matches = match ? [all, { ...all, policy: { ...login, name: 'rest' } }, match, match] : []
  log.onDecided({ ...rest, trace: { ...trace, matches } }, CONTEXT)
  expect(lines).toEqual([
    expect.objectContaining({ policies: ['all', 'rest', 'login'], routes: ['*', 'POST /login/:realm'] }),
  ])
})

test('the refusal log logs a share of refusals, and no admissions', () => {
  const drawn = [0, 0.009, 0.01, 0.5, 0.99]
  const { log, lines } = refusalLog(0.01, () => drawn.shift() ?? 1)
  for (let i = 0; i < 5; i++) log.onDecided(observed(LIMITED), CONTEXT)
  expect(lines).toHaveLength(2)
  const all = refusalLog(1)
  all.log.onDecided(observed({ outcome: 'admitted', limits: [] }), CONTEXT)
  expect(all.lines).toEqual([])
})

test.each<[Verdict, object]>([
  [
    { outcome: 'shed', retryAfterMs: toWholeMs(1_000) },
    { outcome: 'shed', retryAfterMs: 1_000, callers: {} },
  ],
  [
    { outcome: 'unidentified', status: 401, policy: login },
    { outcome: 'unidentified', callers: {} },
  ],
  [
    { outcome: 'unavailable', degraded: 'closed' },
    { outcome: 'unavailable', degraded: 'closed' },
  ],
])('the refusal log names nobody where no limit has refused: $kind', (verdict, expected) => {
  const { log, lines } = refusalLog(1)
  log.onDecided(observed(verdict, { country: 'not a code' }), CONTEXT)
  expect(lines).toEqual([expect.objectContaining(expected)])
  expect(JSON.stringify(lines)).not.toContain('country')
})

test('the analytics writer writes one data point for each request, within the limits of the platform', () => {
  const points: AnalyticsEngineDataPoint[] = []
  const writer = createAnalyticsWriter({ writeDataPoint: (point) => void points.push(point ?? {}) }, () => {})
  writer.onDecided(observed(LIMITED, { country: 'DE' }), CONTEXT)
  const admitted = observed({ outcome: 'admitted', limits: [], degraded: 'local' })
  writer.onDecided(admitted, CONTEXT)
  writer.onAnswered(admitted, 502, CONTEXT)
  writer.onUndecided('bad_request', CONTEXT)
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
  ['x'.repeat(64), 'x'.repeat(64)],
  ['x'.repeat(100), `${'x'.repeat(63)}…`],
])('the label in a field that holds %j is %j', (value, label) => {
  const request = new Request('https://gateway.example/', { headers: { 'X-Account': value } })
  expect(readHeader?.(request, CONTEXT)).toBe(label)
})

test('a label cuts no character in half', () => {
  const headers = { get: () => `${'x'.repeat(62)}😀xx`, has: () => true }
  const request = Object.defineProperty(new Request('https://gateway.example/'), 'headers', { value: headers })
  const label = readHeader?.(request, CONTEXT)
  expect(label).toBe(`${'x'.repeat(62)}\ufffd…`)
  expect(() => encodeURIComponent(String(label))).not.toThrow()
})

describe('a label in a claim', () => {
  const COMPANY = { kind: 'claim', name: 'company', path: ['company'] } as const

  test.each<[Reading, string | undefined]>([
    [{ kind: 'value', value: '" ACME \\"1\\" "' }, 'ACME "1"'],
    [{ kind: 'value', value: '17' }, '17'],
    [{ kind: 'none' }, undefined],
    [{ kind: 'ambiguous' }, undefined],
  ])('that is read as %j is %j, now or later', async (reading, label) => {
    const request = new Request('https://gateway.example/', { headers: { Authorization: 'Bearer a.b.c' } })
    const requested: unknown[] = []
    const read = (...args: unknown[]) => {
      requested.push(args)
      return reading
    }
    expect(createLabelReader(COMPANY, read)?.(request, CONTEXT)).toBe(label)
    expect(await createLabelReader(COMPANY, async (...args) => read(...args))?.(request, CONTEXT)).toBe(label)
    expect(requested).toEqual([
      [['company'], 'Bearer a.b.c', CONTEXT],
      [['company'], 'Bearer a.b.c', CONTEXT],
    ])
  })

  test('is logged when its token has been verified', async () => {
    const { log, lines } = refusalLog(1, undefined, async () => 'ACME')
    const works: Promise<unknown>[] = []
    log.onDecided(observed(LIMITED), { waitUntil: (work) => void works.push(work) })
    await Promise.all(works)
    expect(lines).toEqual([expect.objectContaining({ event: 'refused', label: 'ACME' })])
  })
})

test('the analytics writer lets no request fail because its data point could not be written', () => {
  const lines: unknown[] = []
  const writeDataPoint = () => {
    throw new TypeError('too many blobs')
  }
  const writer = createAnalyticsWriter({ writeDataPoint }, (_level, line) => lines.push(line))
  writer.onUndecided('failed', CONTEXT)
  expect(lines).toEqual([{ event: 'analytics_write_failed', error: 'TypeError' }])
})
