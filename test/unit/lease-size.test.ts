import { expect, test } from 'vitest'
import {
  countMaxWaiting,
  countPermits,
  findAheadMs,
  findLeaseMs,
  findPauseMs,
  findRepeatMs,
  findRoom,
  findTerms,
  findUsableMs,
  isHot,
  isShort,
  type LeaseRoom,
  type LeaseUse,
} from '../../src/core/engine/leases/lease-size.ts'
import type { StatusCache } from '../../src/core/engine/refusals/status-cache.ts'
import type { StoreCharge } from '../../src/core/model/charge.ts'
import { createCharge } from '../support/charges.ts'

type Statuses = Pick<StatusCache, 'get'>
const UNKNOWN: Statuses = { get: () => undefined }
const NOW_MS = 1_000_000

/** What is known of each limit. */
function knowing(usage: readonly { readonly remaining?: number; readonly resetMs?: number }[]): Statuses {
  const limits = usage.map((each) => ({ remaining: 0, resetMs: 0, retryAfterMs: 0, ...each }))
  return { get: () => ({ usage: limits, sentAtMs: NOW_MS - 100 }) as unknown as ReturnType<StatusCache['get']> }
}

const oneLimit = (limit: number, windowMs: number, overrides: Partial<StoreCharge> = {}) =>
  createCharge('sliding-window', [{ limit, windowMs }], overrides)
const TWO = [
  { limit: 10, windowMs: 1_000 },
  { limit: 100, windowMs: 60_000 },
]

test('findTerms() allows three tenths of the shortest window, or of the time in which a small bucket is filled', () => {
  expect(findTerms({ limits: TWO })).toEqual({ maxLeaseMs: 300, longestWindowMs: 60_000 })
  expect(findTerms({ limits: TWO.toReversed() })).toEqual({ maxLeaseMs: 300, longestWindowMs: 60_000 })
  expect(findTerms({ limits: [{ limit: 1, windowMs: 1_009 }] }).maxLeaseMs).toBe(302)
  expect(findTerms({ limits: [{ limit: 1, windowMs: 60_000 }] }).maxLeaseMs).toBe(12_000)
  const bucket = [{ limit: 10, windowMs: 1_000 }]
  expect([5, 20].map((burst) => findTerms({ limits: bucket, burst }).maxLeaseMs)).toEqual([150, 300])
})

test('findRoom() counts in permits what the limits leave, and how crowded they are', () => {
  const charge = createCharge('sliding-window', TWO, { cost: 2 })
  expect(findRoom(charge, UNKNOWN)).toEqual({ left: 5, leftPerUsed: 5, crowdPermits: 0 })
  const room = findRoom(charge, knowing([{ remaining: 4 }, { remaining: 60 }]))
  expect(room).toEqual({ left: 2, leftPerUsed: 2 / 3, crowdPermits: 3 / 150 })
  const bucket = createCharge('token-bucket', [{ limit: 10, windowMs: 1_000 }], { burst: 40, cost: 2 })
  expect(findRoom(bucket, UNKNOWN)).toEqual({ left: 20, leftPerUsed: 20, crowdPermits: 0 })
  expect(findRoom(bucket, knowing([{ remaining: 10 }]))).toEqual({ left: 5, leftPerUsed: 5 / 15, crowdPermits: 0 })
})

test('isHot() finds identities that are used 150 times a second, and those that may be used 500 times', () => {
  const charge = oneLimit(300, 1_000)
  expect([150, 151].map((remaining) => isHot(charge, knowing([{ remaining }])))).toEqual([true, false])
  for (const statuses of [UNKNOWN, knowing([])]) {
    expect([500, 501].map((limit) => isHot(oneLimit(limit, 1_000), statuses))).toEqual([false, true])
  }
  expect([1_000, 1_001].map((limit) => isHot(oneLimit(limit, 1_000, { cost: 2 }), UNKNOWN))).toEqual([false, true])
  const limits = [{ limit: 501, windowMs: 1_000 }]
  expect(isHot(createCharge('sliding-window', [...limits, ...TWO]), UNKNOWN)).toBe(false)
  expect(isHot(createCharge('token-bucket', limits), UNKNOWN)).toBe(false)
})

test('isShort() if no more permits are left than are needed until a call is answered', () => {
  expect([0, 1, 5].map(findAheadMs)).toEqual([2, 2, 10])
  expect([isShort(0.049, 10, 0), isShort(0.05, 10, 0)]).toEqual([false, true])
  expect([isShort(0.2, 10, 2), isShort(0.2, 10, 3)]).toEqual([true, false])
})

test('countPermits() takes the least of what is wanted, expected and left to others', () => {
  const count = ({
    usableMs = 1_000,
    maxPermits = 1_000_000,
    ...rest
  }: Partial<LeaseRoom & LeaseUse> & {
    readonly usableMs?: number
    readonly maxPermits?: number
  } = {}) => {
    const room = { left: 1e9, leftPerUsed: 1e9, crowdPermits: 0, ...rest }
    return countPermits(room, { pace: 1, used: 1e6, expired: 0, unused: 0, ...rest }, usableMs, 10, maxPermits)
  }
  // For 100 ms and two round trips; of a slow caller 32 and two round trips.
  expect([count(), count({ pace: 0.1 })]).toEqual([120, 34])
  expect(count({ usableMs: 50 })).toBe(40)
  expect(count({ left: 640 })).toBe(20)
  expect(count({ leftPerUsed: 2, used: 200, expired: 20 })).toBe(59)
  expect(count({ used: 100 })).toBe(65)
  expect(count({ unused: 30 })).toBe(90)
  expect(count({ maxPermits: 11 })).toBe(10)
  expect([count({ left: 320, crowdPermits: 50 }), count({ left: 320, crowdPermits: 5_000 })]).toEqual([50, 990])
  // A call for one is not worth it, unless there may be no more.
  expect([count({ left: 64 }), count({ left: 63 }), count({ left: 63, maxPermits: 2 })]).toEqual([2, 0, 1])
})

test('findLeaseMs() covers the time in which all are used, and is kept, with a margin of a twentieth', () => {
  const terms = { maxLeaseMs: 12_000, longestWindowMs: 60_000 }
  expect(findLeaseMs(100, 1, 10, 0, terms)).toBe(Math.ceil(130 / 0.95))
  expect(findLeaseMs(100, 1, 10, 100, terms)).toBe(Math.ceil(230 / 0.95))
  expect(findLeaseMs(100, 1, 10, 200, terms)).toBe(Math.ceil(400 / 0.95))
  expect([findLeaseMs(0, 1, 10, 0, terms), findLeaseMs(0, 1, 10, 19, terms)]).toEqual([0, 40])
  expect(findLeaseMs(100, 1, 10, 0, { ...terms, maxLeaseMs: 50 })).toBe(50)
})

test('findUsableMs() ends with the windows that are charged, and a twentieth before the lease', () => {
  expect(findUsableMs(oneLimit(10, 1_000), knowing([{ resetMs: 500 }]), 1_000, NOW_MS)).toBe(950)
  const windowed = createCharge('fixed-window', TWO)
  expect(findUsableMs(windowed, UNKNOWN, 1_000, NOW_MS)).toBe(950)
  expect(findUsableMs(windowed, knowing([{ resetMs: 500 }, { resetMs: 900 }]), 1_000, NOW_MS)).toBe(350)
  expect(findUsableMs(windowed, knowing([{ resetMs: 9_000 }]), 1_000, NOW_MS)).toBe(950)
})

test('as many wait as a 32nd of what is left, or as a crowd needs; and what is repeated is repeated for a second at most', () => {
  const room = { left: 330, leftPerUsed: 1, crowdPermits: 0 }
  expect([room, { ...room, crowdPermits: 12.7 }].map(countMaxWaiting)).toEqual([10, 12])
  expect([10, 600].map(findRepeatMs)).toEqual([20, 1_000])
  const pause = (crowdPermits: number, pace: number, maxLeaseMs = 12_000) =>
    findPauseMs({ ...room, crowdPermits }, pace, { maxLeaseMs, longestWindowMs: 60_000 })
  expect([pause(0.99, 0.01), pause(1, 0.01), pause(1, 0.000_1), pause(1, 0.01, 100)]).toEqual([0, 100, 1_000, 50])
})
