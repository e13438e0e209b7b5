import { expect, test } from 'vitest'
import { getOnlyLimit } from '../../src/core/algorithms/algorithm.ts'
import { concurrency, findLifetimeMs, releaseSlot } from '../../src/core/algorithms/concurrency.ts'
import { createCharge } from '../support/charges.ts'

const WINDOW_MS = 1_000
const LONGEST_WAY_MS = 60_000
const START_MS = 1_000_000
const charge = createCharge('concurrency', [{ limit: 5, windowMs: WINDOW_MS }])

const takeSlot = (state: Parameters<typeof concurrency.commit>[0], slot: number, nowMs: number) =>
  concurrency.commit(state, { ...charge, slot }, nowMs * 1000, 1)

test('an admission that arrives after its release finds a mark, and holds nothing', () => {
  const { state } = concurrency.slots?.revoke(undefined, 1, START_MS) ?? {}
  takeSlot(state, 1, START_MS + 1)
  expect(state?.slots).toEqual(new Map([[1, { units: 0, deadlineMs: -(START_MS + LONGEST_WAY_MS) }]]))
})

test('a slot of a key that is gone is neither released nor renewed', () => {
  expect(releaseSlot(undefined, 1)).toBeUndefined()
  expect(concurrency.slots?.renew(undefined, 1, START_MS, WINDOW_MS)).toBeUndefined()
})

test('a key lives for twice its window, anew only if less than one is left, and goes with its last slot', () => {
  const { state, ttlMs } = takeSlot(undefined, 1, START_MS)
  expect([ttlMs, state.expiresAtMs]).toEqual([2 * WINDOW_MS, START_MS + 2 * WINDOW_MS])
  const atHalfMs = START_MS + WINDOW_MS
  expect(takeSlot(state, 2, atHalfMs)).toEqual({ state })
  expect(takeSlot(state, 3, atHalfMs + 1).ttlMs).toBe(2 * WINDOW_MS)
  for (const slot of [2, 3]) releaseSlot(state, slot)
  expect(state).toEqual({ slots: new Map(), expiresAtMs: 0 })
  expect(takeSlot(state, 4, atHalfMs + 2).ttlMs).toBe(2 * WINDOW_MS)
})

test('nothing is held for longer than its window, nor looked for longer than a call is on its way', () => {
  expect([1, LONGEST_WAY_MS, LONGEST_WAY_MS + 1].map(findLifetimeMs)).toEqual([60_000, 60_000, 60_001])
})

test('getOnlyLimit() throws if there is none, or another', () => {
  const [limit] = charge.limits
  expect(getOnlyLimit(charge)).toBe(limit)
  for (const limits of [[], [limit, limit].flatMap((each) => each ?? [])]) {
    const message = `concurrency has one limit, not ${limits.length}`
    expect(() => getOnlyLimit({ ...charge, limits })).toThrow(message)
  }
})
