import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { idealAdmissions } from '../support/history.ts'
import { type Admission, checkWindows } from '../support/windows.ts'

const LIMIT = { limit: 10, windowMs: 1_000 }

function at(ms: number, cost: number, spanMs = 0): Admission {
  return { ms, latestMs: ms + spanMs, cost }
}

describe('checkWindows()', () => {
  test('finds the one window that holds a unit too many', () => {
    const admissions = [at(0, 4), at(500, 6), at(999, 1), at(2_500, 10)]
    expect(checkWindows(LIMIT, admissions)).toEqual({ windows: 4, over: 1, fullest: 1.1 })
  })

  test('finds a burst of twice the limit across a boundary of the clock', () => {
    const burst = Array.from({ length: 20 }, (_, index) => at(59_990 + index, 1))
    expect(checkWindows({ limit: 10, windowMs: 60_000 }, burst)).toMatchObject({ over: 10, fullest: 2 })
  })

  test('takes a window for half-open', () => {
    expect(checkWindows(LIMIT, [at(0, 10), at(1_000, 10), at(2_000, 10)])).toMatchObject({ over: 0, fullest: 1 })
    expect(checkWindows(LIMIT, [at(0, 10), at(999, 1)])).toMatchObject({ over: 1 })
  })

  test('does not depend on the order of its input', () => {
    expect(checkWindows(LIMIT, [at(900, 6), at(3_000, 1), at(100, 5)])).toMatchObject({ over: 1 })
  })

  test('finds with inexact times what is certain, and nothing else', () => {
    expect(checkWindows(LIMIT, [at(0, 10, 5), at(990, 1, 5)])).toMatchObject({ over: 1 })
    expect(checkWindows(LIMIT, [at(0, 10, 5), at(990, 1, 15)])).toMatchObject({ over: 0 })
  })

  test('finds what a count of each window finds', () => {
    const admission = fc.record({
      ms: fc.integer({ min: 0, max: 300 }),
      length: fc.integer({ min: 0, max: 150 }),
      cost: fc.integer({ min: 1, max: 4 }),
    })
    fc.assert(
      fc.property(fc.array(admission, { maxLength: 60 }), (drawn) => {
        const admissions = drawn.map(({ ms, length, cost }) => ({ ms, latestMs: ms + length, cost }))
        const used = admissions.map(({ ms: startMs }) => {
          const inside = admissions.filter(({ ms, latestMs }) => ms >= startMs && latestMs < startMs + 100)
          return inside.reduce((sum, { cost }) => sum + cost, 0)
        })
        const { over, fullest } = checkWindows({ limit: 20, windowMs: 100 }, admissions)
        expect([over > 0, Math.round(fullest * 20)]).toEqual([Math.max(0, ...used) > 20, Math.max(0, ...used)])
      }),
    )
  })
})

describe('idealAdmissions()', () => {
  const TEAM = { limit: 12, windowMs: 2_000 }
  const sent = (ms: number, cost: number, caller = 'one') => ({
    ms,
    charges: [
      { key: caller, limits: [LIMIT], cost },
      { key: 'team', limits: [TEAM], cost: 1 },
    ],
  })

  test('admits what an exact log admits, whatever the order of its input', () => {
    const admitted = (times: readonly number[], limit: number) =>
      idealAdmissions(times.map((ms) => ({ ms, charges: [{ key: '', limits: [{ limit, windowMs: 100 }], cost: 1 }] })))
    // 0 and 10 fill the window; 60 and 99 find no room; 100 takes the place of 0, and 110 that of 10.
    expect(admitted([0, 10, 60, 99, 100, 105, 110], 2)).toBe(4)
    expect(admitted([110, 105, 100, 99, 60, 10, 0], 2)).toBe(4)
    expect(admitted([0, 1, 2], 5)).toBe(3)
  })

  test('goes by the cost under each key', () => {
    // The one at 0 uses its limit up; those until its window ends are refused.
    expect(idealAdmissions([sent(1_000, 9), sent(1, 1), sent(999, 1), sent(0, 10), sent(1_000, 2, 'other')])).toBe(3)
  })

  test('admits nothing that one of several keys has no room for', () => {
    const callers = Array.from({ length: 20 }, (_, index) => sent(index, 1, `caller ${index}`))
    expect(idealAdmissions(callers)).toBe(12)
  })
})
