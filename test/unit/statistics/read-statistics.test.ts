import { expect, test } from 'vitest'
import { findQuantileMs } from '../../../dashboard/figures.ts'
import type { Period, StatisticsStore } from '../../../src/core/store/counters.ts'
import { MemoryCounters } from '../../../src/core/store/memory/memory-tables.ts'
import type { SketchItem } from '../../../src/core/store/sketches.ts'
import {
  COUNT_NAMES,
  EVERYWHERE,
  LATENCY_BOUNDS_MS,
  REFUSED_CALLERS,
  summarize,
} from '../../../src/gateway/statistics/metrics.ts'
import { readRefusals, readStatistics } from '../../../src/gateway/statistics/read-statistics.ts'

const START_MS = 1_800_000_000_000
const MINUTE = 60_000

function minute(at: number, counts: Record<string, number>, refused: readonly SketchItem[] = []): Period {
  return {
    startMs: START_MS + at * MINUTE,
    counts: new Map(Object.entries(counts)),
    sketches: new Map(refused.length === 0 ? [] : [[REFUSED_CALLERS, { items: refused, floor: 1 }]]),
  }
}

const FIRST = minute(
  0,
  {
    [COUNT_NAMES.requests.admitted]: 90,
    [COUNT_NAMES.requests.limited]: 10,
    [COUNT_NAMES.degraded('local, open')]: 2,
    [COUNT_NAMES.upstream5xx]: 3,
    [COUNT_NAMES.policy('default', 'admitted', EVERYWHERE)]: 90,
    [COUNT_NAMES.policy('login', 'limited', 'POST /log in/:id')]: 10,
    [COUNT_NAMES.limit('login-1m')]: 10,
    [COUNT_NAMES.storeCalls]: 30,
    [COUNT_NAMES.storeFailures]: 1,
    [COUNT_NAMES.latency(4)]: 29,
    [COUNT_NAMES.latencyMs]: 116,
    [COUNT_NAMES.avoided.leases]: 60,
    [COUNT_NAMES.permitsLeased]: 64,
    [COUNT_NAMES.avoided.refusalCache]: 8,
    'of a later version': 1,
  },
  [{ name: 'login:abc-_1', count: 9, over: 1, label: 'ACME' }],
)
const SECOND = minute(
  1,
  {
    [COUNT_NAMES.requests.limited]: 5,
    [COUNT_NAMES.policy('login', 'limited', 'POST /log in/:id')]: 5,
    [COUNT_NAMES.limit('login-1m')]: 5,
    [COUNT_NAMES.limit('login-1h')]: 7,
    [COUNT_NAMES.units('tokens')]: 9,
    [COUNT_NAMES.units('bytes')]: 1_000,
  },
  [{ name: 'login:other', count: 5, over: 0 }],
)

async function counters() {
  const counters = new MemoryCounters(() => START_MS + 5 * MINUTE)
  await counters.add({ source: 'isolate', number: 1, minutes: [FIRST, SECOND] })
  return counters
}

test('readStatistics() reports what was counted, minute by minute and over all', async () => {
  const query = { resolution: 'minute', fromMs: START_MS + 1, toMs: START_MS + 5 * MINUTE + 1 } as const
  const statistics = await readStatistics(await counters(), query)
  expect(statistics).toMatchObject({ periodMs: MINUTE, fromMs: START_MS, toMs: START_MS + 6 * MINUTE })
  const [first, second, ...others] = statistics.periods
  expect(others).toEqual([])
  expect(first).toMatchObject({
    startMs: START_MS,
    requests: { admitted: 90, limited: 10, shed: 0 },
    degraded: { local: 0, 'local, open': 2 },
    upstream5xx: 3,
    policies: [
      { policy: 'default', route: '*', requests: { admitted: 90, limited: 0 } },
      { policy: 'login', route: 'POST /log in/:id', requests: { admitted: 0, limited: 10 } },
    ],
    store: { calls: 30, failures: 1, latency: { sumMs: 116 } },
    callsAvoided: { refusalCache: 8, leases: 60 },
    leases: { permits: 64, expired: 4 },
    mirror: { decisions: 0, refusedByMirrorOnly: 0, refusedByPrimaryOnly: 0, failures: 0 },
    refused: {
      callers: [{ policy: 'login', digest: 'abc-_1', max: 9, min: 8, shared: false, label: 'ACME' }],
      maxOthers: 1,
    },
  })
  expect(second?.limits).toEqual([
    { name: 'login-1h', refusals: 7 },
    { name: 'login-1m', refusals: 5 },
  ])
  expect(statistics.total.units).toEqual([
    { policy: 'bytes', units: 1_000 },
    { policy: 'tokens', units: 9 },
  ])
  expect(statistics.total.requests).toMatchObject({ admitted: 90, limited: 15 })
  expect(statistics.refused).toEqual({
    callers: [
      { policy: 'login', digest: 'abc-_1', max: 10, min: 8, shared: false, label: 'ACME' },
      { policy: 'login', digest: 'other', max: 6, min: 5, shared: false },
    ],
    maxOthers: 2,
  })
  expect(JSON.parse(JSON.stringify(statistics))).toEqual(statistics)
})

test('summarize() reports everything so far', async () => {
  expect(summarize(await (await counters()).readTotals()).requests).toMatchObject({ admitted: 90, limited: 15 })
})

test('summarize() knows every number when nothing was counted', () => {
  const { requests, store, policies } = summarize(new Map())
  expect(Object.values(requests).every((count) => count === 0)).toBe(true)
  expect(store.latency.counts).toEqual([...LATENCY_BOUNDS_MS, 0].map(() => 0))
  expect(policies).toEqual([])
})

test('findQuantileMs() knows nothing of no times', () => {
  expect(
    findQuantileMs(
      [...LATENCY_BOUNDS_MS, 0].map(() => 0),
      LATENCY_BOUNDS_MS,
      0.5,
    ),
  ).toBeUndefined()
})

test('readRefusals() reports for each period what is known of the caller, and what may hide', async () => {
  const items = [
    { name: 'login:A', count: 9, over: 2 },
    { name: 'login:B', count: 5, over: 0 },
    { name: 'default:C', count: 3, over: 0 },
  ]
  const periods = [
    { startMs: 0, counts: new Map(), sketches: new Map([[REFUSED_CALLERS, { items, floor: 3 }]]) },
    { startMs: 60 * MINUTE, counts: new Map(), sketches: new Map() },
  ]
  const counters: Pick<StatisticsStore, 'read'> = { read: async () => periods }
  const query = { resolution: 'hour', fromMs: 5, toMs: 60 * MINUTE + 5 } as const
  expect(await readRefusals(counters, new Set(['A', 'C']), query)).toEqual({
    ...{ periodMs: 60 * MINUTE, fromMs: 0, toMs: 2 * 60 * MINUTE },
    periods: [
      {
        startMs: 0,
        policies: [
          { policy: 'login', min: 7, max: 9 },
          { policy: 'default', min: 3, max: 3 },
        ],
        maxOthers: 3,
      },
      { startMs: 60 * MINUTE, policies: [], maxOthers: 0 },
    ],
    recent: [],
  })
})
