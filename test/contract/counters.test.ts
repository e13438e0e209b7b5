import { describe, expect, test } from 'vitest'
import { type Flush, findPeriodStart, type Period, SKETCH_CAPACITY } from '../../src/core/store/counters.ts'
import type { Sketch } from '../../src/core/store/sketches.ts'
import { COUNTERS } from '../support/stores.ts'

const MINUTE = 60_000
const HOUR = 3_600_000
/** An hour ago, at the very start of an hour: nothing of it has expired. */
const HOUR_MS = findPeriodStart('hour', Date.now()) - HOUR

function minute(atMinute: number, counts: Record<string, number>, sketches: Record<string, Sketch> = {}): Period {
  return {
    startMs: HOUR_MS + atMinute * MINUTE,
    counts: new Map(Object.entries(counts)),
    sketches: new Map(Object.entries(sketches)),
  }
}

function flush(number: number, minutes: readonly Period[], source = 'isolate'): Flush {
  return { source, number, minutes }
}

function sketch(counts: Record<string, number>, floor = 0): Sketch {
  return { items: Object.entries(counts).map(([name, count]) => ({ name, count, over: 0 })), floor }
}

describe.each(Object.entries(COUNTERS))('%s', (_name, openCounters) => {
  test('add() sums what isolates have counted, by minute, by hour and in all', async () => {
    const counters = openCounters(crypto.randomUUID())
    await counters.add(flush(1, [minute(3, { admitted: 5, limited: 1 }), minute(9, { admitted: 2 })]))
    await counters.add(flush(1, [minute(9, { admitted: 1 }), minute(10, { 'policy a GET /b c': 4 })], 'another'))
    await counters.add(flush(2, [minute(60, { admitted: 7 })]))
    expect(await counters.read('minute', HOUR_MS, HOUR_MS + 2 * HOUR)).toEqual([
      minute(3, { admitted: 5, limited: 1 }),
      minute(9, { admitted: 3 }),
      minute(10, { 'policy a GET /b c': 4 }),
      minute(60, { admitted: 7 }),
    ])
    expect(await counters.read('hour', HOUR_MS, HOUR_MS + 2 * HOUR)).toEqual([
      minute(0, { admitted: 8, limited: 1, 'policy a GET /b c': 4 }),
      minute(60, { admitted: 7 }),
    ])
    expect(Object.fromEntries(await counters.readTotals())).toEqual({
      admitted: 15,
      limited: 1,
      'policy a GET /b c': 4,
    })
  })

  test('add() adds a flush once, however often it is sent, and whatever minutes the next one is about', async () => {
    const counters = openCounters(crypto.randomUUID())
    const first = flush(1, [minute(8, { admitted: 1 }, { callers: sketch({ a: 1 }) }), minute(12, { admitted: 1 })])
    for (let i = 0; i < 3; i++) await counters.add(first)
    await counters.add(flush(2, [minute(12, { admitted: 10 })]))
    await counters.add(first)
    expect((await counters.readTotals()).get('admitted')).toBe(12)
    expect(await counters.read('minute', HOUR_MS, HOUR_MS + HOUR)).toEqual([
      minute(8, { admitted: 1 }, { callers: sketch({ a: 1 }) }),
      minute(12, { admitted: 11 }),
    ])
  })

  test('add() adds each of many flushes that come at the same time', async () => {
    const prefix = crypto.randomUUID()
    const counts = Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`count-${index}`, index + 1]))
    const sent = Array.from({ length: 30 }, (_, index) => {
      return openCounters(prefix).add(flush(1, [minute(5, counts)], `isolate${index}`))
    })
    await Promise.all(sent)
    const [period] = await openCounters(prefix).read('minute', HOUR_MS, HOUR_MS + HOUR)
    const expected = Object.entries(counts).map(([name, count]) => [name, 30 * count])
    expect(Object.fromEntries(period?.counts ?? [])).toEqual(Object.fromEntries(expected))
  })

  test('add() takes thousands of names in one flush', async () => {
    const counters = openCounters(crypto.randomUUID())
    const counts = Object.fromEntries(Array.from({ length: 3_000 }, (_, index) => [`count-${index}`, index]))
    for (const number of [1, 2]) await counters.add(flush(number, [minute(5, counts)]))
    const [period] = await counters.read('minute', HOUR_MS, HOUR_MS + HOUR)
    expect(period?.counts.size).toBe(3_000)
    expect(period?.counts.get('count-2999')).toBe(5_998)
  })

  test('add() merges sketches, and keeps the most frequent names', async () => {
    const counters = openCounters(crypto.randomUUID())
    const names = Array.from({ length: SKETCH_CAPACITY }, (_, index) => [`often-${index}`, 100 + index])
    await counters.add(flush(1, [minute(1, {}, { callers: sketch(Object.fromEntries(names)) })]))
    const label = 'Ünï code, 50% & more'
    const late: Sketch = { items: [{ name: 'often-7', count: 1_000, over: 3, label }], floor: 20 }
    await counters.add(flush(1, [minute(1, {}, { callers: late, others: sketch({ rare: 1 }) })], 'another'))
    await counters.add(flush(2, [minute(2, {}, { callers: sketch({ rare: 1 }) })], 'another'))
    const [first, second] = await counters.read('minute', HOUR_MS, HOUR_MS + HOUR)
    const callers = first?.sketches.get('callers')
    expect(callers?.items.length).toBe(SKETCH_CAPACITY)
    expect(callers?.items[0]).toEqual({ name: 'often-7', count: 1_107, over: 3, label })
    expect(callers?.items[1]).toEqual({ name: 'often-49', count: 169, over: 20 })
    expect(callers?.floor).toBe(20)
    expect(first?.sketches.get('others')).toEqual(sketch({ rare: 1 }))
    expect(second?.sketches.get('callers')).toEqual(sketch({ rare: 1 }))
    const [hour] = await counters.read('hour', HOUR_MS, HOUR_MS + HOUR)
    // Once more, it was left out.
    expect(hour?.sketches.get('callers')?.floor).toBe(21)
  })

  test('read() answers the periods that have a part between two moments', async () => {
    const counters = openCounters(crypto.randomUUID())
    await counters.add(
      flush(
        1,
        [1, 2, 3, 4].map((at) => minute(at, { admitted: at })),
      ),
    )
    const starts = async (fromMs: number, toMs: number) =>
      (await counters.read('minute', HOUR_MS + fromMs, HOUR_MS + toMs)).map(({ startMs }) => startMs - HOUR_MS)
    expect(await starts(2 * MINUTE, 3 * MINUTE)).toEqual([2 * MINUTE])
    expect(await starts(2 * MINUTE - 1, 3 * MINUTE + 1)).toEqual([MINUTE, 2 * MINUTE, 3 * MINUTE])
    expect(await starts(-HOUR, 0)).toEqual([])
    expect(await starts(MINUTE, MINUTE)).toEqual([])
    expect((await starts(-1_000 * HOUR, HOUR)).length).toBe(4)
  })

  test('what was never counted is nothing', async () => {
    const counters = openCounters(crypto.randomUUID())
    expect(await counters.read('hour', HOUR_MS, HOUR_MS + HOUR)).toEqual([])
    expect((await counters.readTotals()).size).toBe(0)
  })
})
