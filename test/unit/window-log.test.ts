import { expect, test } from 'vitest'
import { WindowLog } from '../../src/core/algorithms/window-log.ts'

/** A log of so many entries of 2 units, one a millisecond from 1 on. */
function createLog(entries: number): WindowLog {
  const log = new WindowLog()
  for (let ms = 1; ms <= entries; ms++) log.add(ms, 2)
  return log
}

/** Units in each window that ends at the newest entry, from the shortest one. */
function countUsed(log: WindowLog): number[] {
  return Array.from({ length: log.size }, (_, at) => {
    const state = { remaining: 0, resetMs: 0, retryAfterMs: 0 }
    log.measure({ limit: 1_000, windowMs: at + 1 }, log.newestMs, 1, state)
    return 1_000 - state.remaining
  })
}

const even = (entries: number) => Array.from({ length: entries }, (_, at) => 2 * (at + 1))

test('WindowLog tells its oldest and newest entry, and all units', () => {
  const log = new WindowLog()
  expect([log.size, log.total, log.oldestMs, log.newestMs]).toEqual([0, 0, Number.POSITIVE_INFINITY, 0])
  for (const [ms, units] of [
    [5, 1],
    [5, 2],
    [7, 4],
  ] as const)
    log.add(ms, units)
  expect([log.size, log.total, log.oldestMs, log.newestMs]).toEqual([2, 7, 5, 7])
  log.penaltyMs = 9
  expect(log.newestMs).toBe(9)
})

test('WindowLog grows to eight entries, then doubles, and shrinks once an eighth of them is left', () => {
  expect([1, 2, 8, 9, 16, 17, 64].map((entries) => createLog(entries).ring.length)).toEqual([
    2, 16, 16, 32, 32, 64, 128,
  ])
  for (const [entries, left, length] of [
    [64, 9, 128],
    [64, 8, 32],
    [100, 10, 64],
    [32, 1, 64],
  ] as const) {
    const log = createLog(entries)
    log.dropUntil(entries - left)
    expect([log.size, log.ring.length, log.total, log.oldestMs]).toEqual([
      left,
      length,
      2 * entries,
      entries - left + 1,
    ])
    expect(countUsed(log)).toEqual(even(left))
    for (let ms = entries + 1; ms <= entries + 30; ms++) log.add(ms, 2)
    expect(countUsed(log)).toEqual(even(left + 30))
  }
})

test('WindowLog drops all but the newest, and nothing while it keeps all', () => {
  const log = createLog(5)
  log.dropAllBut(9)
  expect(log.size).toBe(5)
  log.keepsAll = true
  log.dropAllBut(2)
  expect(log.size).toBe(5)
  log.keepsAll = false
  log.dropAllBut(2)
  expect([log.size, log.oldestMs, countUsed(log)]).toEqual([2, 4, [2, 4]])
})

test('WindowLog#remove() takes units out of an entry of a date, wherever the longest window begins', () => {
  const log = createLog(6)
  expect([log.remove(3, 1), countUsed(log)]).toEqual([1, [2, 4, 6, 7, 9, 11]])
  expect([log.remove(3, 1), log.size, countUsed(log)]).toEqual([0, 5, [2, 4, 6, 6, 8]])
  expect([log.remove(3, 1), log.remove(9, 1), log.total]).toEqual([undefined, undefined, 10])
  expect([log.remove(6, 2), log.remove(6, 2), log.newestMs]).toEqual([0, undefined, 5])

  // Of a log that has left its window, nothing remains to be dropped.
  const left = createLog(3)
  left.keepsAll = true
  left.dropUntil(10)
  left.remove(2, 2)
  left.keepsAll = false
  left.dropUntil(20)
  expect([left.size, left.total]).toEqual([0, 4])
})

test('WindowLog#charge() gives a new life once an epoch, or when the window changes', () => {
  const log = new WindowLog()
  const charge = (ms: number, keptMs = 1_000) => log.charge(ms, ms, keptMs, 1)
  expect([charge(10_000), charge(10_000), charge(10_001), charge(10_999), charge(11_000)]).toEqual([
    2_000,
    undefined,
    undefined,
    undefined,
    2_000,
  ])
  expect([charge(11_500, 2_000), charge(11_600, 2_000), charge(12_000, 2_000)]).toEqual([3_000, undefined, 4_000])
})

test('WindowLog#charge() forgets a penalty that has ended, to the ms', () => {
  const penalty = { refusals: 0, untilMs: 20_000 }
  for (const [ms, kept] of [
    [19_999, penalty],
    [20_000, undefined],
  ] as const) {
    const log = new WindowLog()
    expect(log.charge(10_000, 10_000, 1_000, 0, penalty)).toBe(10_000)
    expect([log.newestMs, log.total]).toEqual([10_000, 0])
    log.charge(ms, ms, 1_000, 1)
    expect(log.penalty).toEqual(kept)
  }
})

test.each([
  [10, 8],
  [64, 8],
  [65, 64],
  [100, 64],
])(
  'WindowLog#charge() with a window of %i ms, one unit a ms, drops what left it whenever the total passes a multiple of %i',
  (windowMs, together) => {
    const log = new WindowLog()
    let oldestMs = 1
    for (let ms = 1; ms <= 400; ms++) {
      log.charge(ms, ms, windowMs, 1)
      // So many are held before the window is full, too.
      const isPassed = ms % (ms <= 64 ? Math.min(8, together) : together) === 0
      if (isPassed) oldestMs = Math.max(oldestMs, ms - windowMs + 1)
      expect(log.oldestMs).toBe(oldestMs)
    }
  },
)
