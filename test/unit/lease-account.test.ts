import { expect, test } from 'vitest'
import { LeaseAccount } from '../../src/core/engine/leases/lease-account.ts'
import type { Lease } from '../../src/core/engine/leases/shared-calls.ts'
import type { Decision } from '../../src/core/model/charge.ts'
import { StoreError } from '../../src/core/model/store.ts'

const TERMS = { maxLeaseMs: 100, longestWindowMs: 1_000 }

function lease(permits: number, expiresAtMs: number): Lease {
  return { permits, expiresAtMs, chargedAtMs: -5, generation: 0 }
}

function accountWith(...leases: readonly Lease[]): LeaseAccount {
  const account = new LeaseAccount(0)
  for (const each of leases) account.add(each)
  return account
}

/** The pace after requests at these times. */
function findPace(...timesMs: readonly number[]): number {
  const account = new LeaseAccount(0)
  for (const timeMs of timesMs) account.see(timeMs, TERMS)
  return account.pace
}

test('LeaseAccount counts permits until their lease expires, and those on their way', () => {
  const account = accountWith(lease(3, 10), lease(4, 20))
  account.calls.begin(5, 100)
  expect([9, 10, 19, 20].map((atMs) => account.countLeft(atMs))).toEqual([7, 4, 4, 0])
  expect(account.countUnused(10)).toBe(9)
  for (const [nowMs, pending] of [
    [99, 5],
    [100, 0],
  ] as const) {
    account.see(nowMs, TERMS)
    expect(account.calls.pending).toBe(pending)
  }
})

test('LeaseAccount#take() uses the oldest permit that lasts, and counts those that expired', () => {
  const [first, second] = [lease(1, 10), lease(1, 20)]
  const account = accountWith(first, second)
  expect([account.take(0, 20), account.take(0, 19), account.take(0, 19)]).toEqual([undefined, second, undefined])
  expect([account.take(9), account.take(9)]).toEqual([first, undefined])
  expect([account.used, account.expired, first.permits, second.permits]).toEqual([2, 0, 0, 0])
  account.add(lease(3, 20))
  expect([account.take(20), account.expired, account.used]).toEqual([undefined, 3, 2])
})

test('LeaseAccount#decide() answers a request that has waited by a permit that lasts', () => {
  const own = lease(1, 10)
  const account = accountWith(own)
  expect(account.decide(5, 5)).toBeUndefined()
  expect(account.decide(5, 4)).toEqual({ granted: 1, nowMs: -5, usage: [], lease: own })
  expect(account.decide(5, 4)).toBeUndefined()
})

test('LeaseAccount#giveBack() returns a permit, also to a lease that was used up, and counts none as used', () => {
  const own = lease(1, 10)
  const account = accountWith(own, lease(1, 10))
  account.take(0)
  account.take(0)
  account.giveBack(own)
  expect([account.used, account.countLeft(0), account.take(0)]).toEqual([1, 1, own])
  account.giveBack(own)
  account.giveBack(own)
  expect([account.used, account.countLeft(0)]).toEqual([0, 2])
  account.giveBack(own)
  expect([account.used, account.countLeft(0)]).toEqual([0, 3])
})

test('LeaseAccount forgets what was used and what expired, over a longest window', () => {
  const account = new LeaseAccount(0)
  account.see(0, TERMS)
  Object.assign(account, { used: 100, expired: 50 })
  account.see(500, TERMS)
  expect([account.used, account.expired]).toEqual([100 * Math.exp(-0.5), 50 * Math.exp(-0.5)])
})

test('LeaseAccount#pace is what was seen but for a standard deviation, of as many gaps at most', () => {
  const every = (gapMs: number, requests: number) => Array.from({ length: requests }, (_, at) => at * gapMs)
  expect(findPace(0)).toBe(0)
  expect(findPace(...every(10, 5))).toBeCloseTo((4 - 2) / 40)
  expect(findPace(...every(10, 200))).toBeCloseTo((64 - 8) / 640)
  // At once, they are spread over a time.
  expect(findPace(...every(0, 5))).toBeCloseTo((4 - 2) / 10)
  expect(findPace(0, 1, 2)).toBeCloseTo((2 - Math.SQRT2) / 10)
  // A pause counts as a long gap at most, until it is longer than any lease.
  expect(findPace(0, 1, 101)).toBeCloseTo((2 - Math.SQRT2) / (1 + 64))
  expect(findPace(0, 0, 100)).toBeCloseTo((2 - Math.SQRT2) / 64)
  expect(findPace(0, 10, 110)).toBeCloseTo((2 - Math.SQRT2) / 110)
  expect(findPace(0, 10, 111)).toBe(0)
})

test('LeaseAccount#repeat() repeats a refusal, aged, until its pause ends', () => {
  const account = new LeaseAccount(0)
  expect(account.repeat(0)).toBeUndefined()
  const limit = (resetMs: number, retryAfterMs: number) => ({ remaining: 1, resetMs, retryAfterMs })
  const outcome: Decision = { granted: 0, nowMs: 1_000, usage: [[limit(50, 0), limit(3, 60)], [limit(9, 9)]] }
  account.repeated = { outcome, sentAtMs: 100, untilMs: 110 }
  expect(account.repeat(104)).toEqual({
    granted: 0,
    nowMs: 1_004,
    usage: [[limit(46, 0), limit(0, 56)], [limit(5, 6)]],
  })
  expect(account.repeat(99)).toEqual({
    granted: 0,
    nowMs: 1_000,
    usage: [[limit(50, 0), limit(3, 60)], [limit(9, 11)]],
  })
  expect(account.repeat(110)).toBeUndefined()
  account.repeated = { outcome, sentAtMs: 0, untilMs: 110 }
  expect(account.repeat(109.5)?.usage[1]).toEqual([limit(0, 1)])
  account.repeated = { outcome: new StoreError('down'), sentAtMs: 100, untilMs: 110 }
  expect(() => account.repeat(109)).toThrow('down')
})
