import { expect, test } from 'vitest'
import { SKETCH_CAPACITY } from '../../../src/core/store/counters.ts'
import { MemoryCounters } from '../../../src/core/store/memory/memory-tables.ts'
import { readStatistics } from '../../../src/gateway/statistics/read-statistics.ts'
import { RECENT, RecentRefusals, readRecent } from '../../../src/gateway/statistics/recent.ts'

const NOW_MS = Date.UTC(2026, 10, 28, 12)
const EVENT = {
  ...{
    status: 429,
    outcome: 'limited',
    method: 'POST',
    route: 'POST /a|b %20',
    policy: 'login',
    digest: 'x'.repeat(22),
  },
  ...{ rule: null, country: 'DE' },
}

const createSketches = (recent: RecentRefusals) => ({ sketches: new Map([[RECENT, recent.toSketch()]]) })

test('RecentRefusals keeps the latest of each caller, policy and outcome, and of all the last twenty', () => {
  const recent = new RecentRefusals()
  for (let at = 0; at < 100; at++) recent.add(NOW_MS + at, EVENT)
  expect(readRecent(createSketches(recent))).toEqual([{ atMs: NOW_MS + 99, ...EVENT }])
  for (let at = 0; at < 100; at++) recent.add(NOW_MS + 100 + at, { ...EVENT, digest: `${at}` })
  const kept = readRecent(createSketches(recent))
  expect(kept.map(({ atMs }) => atMs - NOW_MS)).toEqual(Array.from({ length: 20 }, (_, at) => 199 - at))
})

test('RecentRefusals cuts what is long, and stores nothing that a sketch cannot hold', () => {
  const recent = new RecentRefusals()
  const rule = `header:x-team \n${'ü'.repeat(200)}\ud800`
  recent.add(NOW_MS, { ...EVENT, status: null, method: null, rule })
  const [item] = recent.toSketch().items
  expect(item?.name).toMatch(/^[!-~]{1,1500}$/)
  expect(readRecent(createSketches(recent))).toMatchObject([{ status: null, method: null, rule: rule.slice(0, 80) }])
})

test('of what many isolates send, the store keeps the last', async () => {
  const counters = new MemoryCounters(() => NOW_MS)
  for (let flush = 0; flush < 30; flush++) {
    const recent = new RecentRefusals()
    for (let at = 0; at < 10; at++) recent.add(NOW_MS + 10 * flush + at, { ...EVENT, digest: `${flush}-${at}` })
    const minute = { startMs: NOW_MS, counts: new Map<string, number>(), ...createSketches(recent) }
    await counters.add({ source: `${flush % 3}`, number: flush + 1, minutes: [minute] })
  }
  for (const resolution of ['minute', 'hour'] as const) {
    const { recent } = await readStatistics(counters, { resolution, fromMs: NOW_MS, toMs: NOW_MS + 1 })
    expect(recent.map(({ atMs }) => atMs - NOW_MS)).toEqual(
      Array.from({ length: SKETCH_CAPACITY }, (_, at) => 299 - at),
    )
  }
})
