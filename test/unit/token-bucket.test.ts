import { expect, test } from 'vitest'
import { putOff, type TokenBucketState, tokenBucket } from '../../src/core/algorithms/token-bucket.ts'
import type { StoreCharge } from '../../src/core/model/charge.ts'
import { createCharge } from '../support/charges.ts'

const START_MS = 1_700_000_000_000
const START_US = START_MS * 1000
const WINDOW_US = 1_000_000
/** A unit in a seventh of a second: 142,857 1/7 µs. */
const SEVENTHS = createCharge('token-bucket', [{ limit: 7, windowMs: 1_000 }], { burst: 20 })
/** A unit a millisecond. */
const EVERY_MS = createCharge('token-bucket', [{ limit: 1_000, windowMs: 1_000 }])

function takeFrom(charge: StoreCharge, units: number, nowUs = START_US): TokenBucketState {
  return tokenBucket.commit(undefined, charge, nowUs, units).state
}

test('a unit that is given back at once leaves what was there without it, to the fraction', () => {
  const giveBack = (state: TokenBucketState) => tokenBucket.settle?.(state, SEVENTHS, START_US, START_MS, -1)?.state
  for (let spent = 1; spent < 20; spent++)
    expect(giveBack(takeFrom(SEVENTHS, spent + 1))).toEqual(takeFrom(SEVENTHS, spent))
  // Not -0, which Redis would keep as such.
  expect(giveBack(takeFrom(SEVENTHS, 1))).toEqual({ us: START_US, fraction: 0, limit: 7, windowUs: WINDOW_US })
})

test('a bucket that is full again is that of a new caller, from the very µs on', () => {
  const { us, fraction } = takeFrom(SEVENTHS, 3)
  expect(fraction).toBeGreaterThan(0)
  const [{ state: early }, { state: full }] = [us, us + 1].map((nowUs) =>
    tokenBucket.commit(takeFrom(SEVENTHS, 3), SEVENTHS, nowUs, 1),
  ) as [{ state: TokenBucketState }, { state: TokenBucketState }]
  expect(full).toEqual(takeFrom(SEVENTHS, 1, us + 1))
  expect(early).toEqual({ ...full, us: us + 142_857, fraction: fraction + 1 })
  expect(tokenBucket.settle?.(takeFrom(SEVENTHS, 3), SEVENTHS, us + 1, START_MS, -1)).toBeUndefined()
  expect(tokenBucket.settle?.(takeFrom(SEVENTHS, 3), SEVENTHS, us, START_MS, -1)).toBeDefined()
})

test('what is charged later to a full bucket counts until it has been refilled since, to the µs', () => {
  // It is charged from the end of the ms on: 2 units, 2 ms.
  const refilledUs = START_US + 3_000
  const settle = (nowUs: number) => tokenBucket.settle?.(undefined, EVERY_MS, nowUs, START_MS, 1)
  expect(settle(refilledUs)).toBeUndefined()
  expect(settle(refilledUs - 1)?.state).toMatchObject({ us: refilledUs, fraction: 0 })
  expect(tokenBucket.settle?.(undefined, EVERY_MS, START_US, START_MS, 0)).toBeUndefined()
})

test('a bucket lives to the first ms at which it is full, or its penalty has ended', () => {
  const nowUs = START_US + 143
  // Full a seventh of a µs after a whole ms.
  expect(tokenBucket.commit(undefined, SEVENTHS, nowUs, 1)).toMatchObject({
    state: { us: START_US + 143_000, fraction: 1 },
    ttlMs: 144,
  })
  const keep = (untilMs: number) => putOff(takeFrom(SEVENTHS, 1), 0, nowUs, { refusals: 0, untilMs })
  expect([keep(START_MS).state.penalty, keep(START_MS).ttlMs]).toEqual([undefined, 143])
  expect(keep(START_MS + 200)).toMatchObject({ state: { penalty: { untilMs: START_MS + 200 } }, ttlMs: 200 })
})

test('no more than the burst is carried over to another rate, even after a step back of the clock', () => {
  const other = { ...SEVENTHS, limits: [{ limit: 1, windowMs: 1_000 }] }
  const beforeUs = START_US - 70_000
  const { state } = tokenBucket.commit(takeFrom(SEVENTHS, 20), other, beforeUs, 1)
  expect(state).toMatchObject({ us: beforeUs + 21 * WINDOW_US, fraction: 0 })
})
