import { expect, test } from 'vitest'
import { KEPT_MS, PERIOD_MS, type Resolution } from '../../src/core/store/counters.ts'
import { MemoryCounters } from '../../src/core/store/memory/memory-tables.ts'

const START_MS = 1_800_000_000_000

test.each<Resolution>(['minute', 'hour'])('MemoryCounters drops a %s when its time is over', async (resolution) => {
  const clock = { now: START_MS }
  const counters = new MemoryCounters(() => clock.now)
  const minute = { startMs: START_MS, counts: new Map([['admitted', 1]]), sketches: new Map() }
  await counters.add({ source: 'isolate', number: 1, minutes: [minute] })
  const periods = async () => (await counters.read(resolution, 0, clock.now + 1)).length
  clock.now = START_MS + PERIOD_MS[resolution] + KEPT_MS[resolution]
  expect(await periods()).toBe(1)
  clock.now += 1
  expect(await periods()).toBe(0)
  expect((await counters.readTotals()).get('admitted')).toBe(1)
})
