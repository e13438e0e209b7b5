import { expect, test } from 'vitest'
import {
  ageUsage,
  countUnits,
  findLongestRetryMs,
  findStandingMs,
  type KnownRefusal,
  RefusalMemory,
} from '../../src/core/engine/refusals/refusal-memory.ts'
import type { LimitState } from '../../src/core/model/charge.ts'
import { createCharge, take } from '../support/charges.ts'

const limit = (remaining: number, overrides: Partial<LimitState> = {}): LimitState => ({
  remaining,
  resetMs: 60_000,
  retryAfterMs: 30_000,
  ...overrides,
})

/** A refusal of so many units, which stands for a long time. */
function refuse(units: number, sentAtMs: number, overrides: Partial<KnownRefusal> = {}): KnownRefusal {
  return {
    usage: [limit(1)],
    units,
    nowMs: sentAtMs,
    sentAtMs,
    receivedAtMs: sentAtMs,
    untilMs: 100_000,
    mayEndEarly: false,
    ...overrides,
  }
}

const remember = (...refusals: readonly KnownRefusal[]) =>
  refusals.reduce<RefusalMemory | undefined>(
    (before, one) => new RefusalMemory(one, 0, before),
    undefined,
  ) as RefusalMemory

test('RefusalMemory finds a refusal of as many units while it stands', () => {
  const one = refuse(3, 1_000, { receivedAtMs: 1_010, untilMs: 2_000 })
  const memory = remember(one)
  expect([1_009, 1_010, 1_999, 2_000].map((nowMs) => memory.findCertain(3, nowMs))).toEqual([
    undefined,
    one,
    one,
    undefined,
  ])
  expect([memory.findCertain(2, 1_500), memory.findCertain(4, 1_500)]).toEqual([undefined, undefined])
  expect(remember(refuse(3, 1_000, { mayEndEarly: true })).findCertain(3, 1_500)).toBeUndefined()
})

test('RefusalMemory drops refusals of five seconds ago, of as many units, or from before units came back', () => {
  const found = (before: KnownRefusal, latest: KnownRefusal) =>
    remember(before, latest).findCertain(before.units, 7_000)
  const before = refuse(2, 1_000)
  expect(found(before, refuse(3, 5_999))).toBe(before)
  expect(found(before, refuse(3, 6_000))).toBeUndefined()
  expect(found(before, refuse(3, 5_999, { usage: [limit(2)] }))).toBeUndefined()
  const again = refuse(2, 2_000)
  expect(found(before, again)).toBe(again)
})

test('RefusalMemory remembers eight refusals, the latest', () => {
  const refusals = Array.from({ length: 10 }, (_, n) => refuse(n + 2, 1_000 + n))
  const memory = remember(...refusals)
  expect(refusals.map(({ units }) => memory.findCertain(units, 2_000) !== undefined)).toEqual(
    refusals.map((_, n) => n >= 2),
  )
})

test('RefusalMemory counts the refusals of a second, those of one cost once if only time ends them', () => {
  const counts = (...refusals: readonly KnownRefusal[]) => remember(...refusals).countCalls(1_999)
  expect(counts(refuse(2, 1_000), refuse(2, 1_100))).toBe(1)
  expect(counts(refuse(2, 1_000), refuse(3, 1_100), refuse(2, 1_200))).toBe(2)
  const early = (units: number, atMs: number) => refuse(units, atMs, { mayEndEarly: true })
  expect(counts(early(2, 1_000), early(2, 1_100), early(2, 1_200))).toBe(3)
  expect(counts(early(2, 1_000), early(3, 1_100))).toBe(2)
  // The second begins with its first refusal, and the next one after it begins another.
  const memory = remember(early(2, 1_000), early(2, 1_999))
  expect([memory.spanEndMs, memory.countCalls(999), memory.countCalls(1_000), memory.countCalls(2_000)]).toEqual([
    2_000, 0, 2, 0,
  ])
  const next = remember(early(2, 1_000), early(2, 2_000))
  expect([next.spanEndMs, next.countCalls(1_999), next.countCalls(2_000)]).toEqual([3_000, 0, 1])
  // What was decided before this second is decided anew.
  expect(remember(refuse(2, 1_000), refuse(3, 2_000), refuse(2, 2_100)).countCalls(2_500)).toBe(2)
  expect(remember(refuse(2, 2_000), refuse(2, 1_000)).countCalls(1_500)).toBe(1)
})

test('RefusalMemory finds the refusal of the fewest units that are as many, if these lack', () => {
  const [few, many] = [refuse(3, 1_000, { mayEndEarly: true }), refuse(6, 1_001, { mayEndEarly: true })]
  for (const memory of [remember(few, many), remember(many, { ...few, sentAtMs: 1_002 })]) {
    expect([2, 3, 4, 6, 7].map((units) => memory.findClosest(units, 2_000)?.units)).toEqual([3, 3, 6, 6, undefined])
    // One unit is left.
    expect(memory.findClosest(1, 2_000)).toBeUndefined()
    expect([memory.findClosest(2, 100_000), memory.findClosest(2, 999)]).toEqual([undefined, undefined])
  }
  const punished = remember(refuse(3, 1_000, { usage: [limit(9, { penaltyMs: 5 })] }))
  expect(punished.findClosest(2, 2_000)?.units).toBe(3)
})

test('RefusalMemory finds no refusal that time may have ended, nor one of a cost that was decided apart', () => {
  const one = refuse(3, 1_000, { usage: [limit(1, { resetMs: 500 })] })
  expect([remember(one).findClosest(2, 1_499), remember(one).findClosest(2, 1_500)]).toEqual([one, undefined])
  const early = { ...one, mayEndEarly: true }
  expect(remember(early).findClosest(2, 1_500)).toBe(early)
  // Its own refusal has ended.
  const decided = remember(refuse(3, 1_000), refuse(2, 1_100, { untilMs: 1_200 }))
  expect([decided.findClosest(2, 1_150)?.units, decided.findClosest(2, 1_300)]).toEqual([undefined, undefined])
  const elsewhere = remember(refuse(2, 1_000, { untilMs: 1_200 }), refuse(3, 2_000))
  expect(elsewhere.findClosest(2, 2_100)?.units).toBe(3)
})

test.each<[string, LimitState[], mayEndEarly: boolean, standingMs: number]>([
  ['nothing', [], false, 0],
  ['a limit with a wait', [limit(0, { retryAfterMs: 700 })], false, 700],
  ['the longest wait', [limit(0, { retryAfterMs: 20 }), limit(0, { retryAfterMs: 700 })], false, 700],
  ['units that come before', [limit(0, { retryAfterMs: 700, resetMs: 100 })], false, 100],
  ['units that come before, if it may end early', [limit(0, { retryAfterMs: 700, resetMs: 100 })], true, 700],
  ['a long wait', [limit(0)], false, 5_000],
  ['a long wait, if it may end early', [limit(0)], true, 30_000],
  ['a penalty', [limit(0, { retryAfterMs: 700, resetMs: 100, penaltyMs: 600 })], false, 600],
  ['a penalty, if it may end early', [limit(0, { retryAfterMs: 700, resetMs: 100, penaltyMs: 600 })], true, 600],
])('findStandingMs() of %s', (_name, usage, mayEndEarly, standingMs) => {
  expect(findStandingMs(usage, mayEndEarly)).toBe(standingMs)
})

test('ageUsage() counts waits from when the answer came, and resets from when the call was sent', () => {
  const usage = [limit(1), limit(2, { retryAfterMs: 0, resetMs: 300 }), limit(0, { retryAfterMs: 400, penaltyMs: 350 })]
  const one = refuse(3, 1_000, { receivedAtMs: 1_100, usage })
  expect(ageUsage(one, 1_400)).toStrictEqual([
    { remaining: 1, resetMs: 59_600, retryAfterMs: 29_700 },
    { remaining: 2, resetMs: 0, retryAfterMs: 0 },
    { remaining: 0, resetMs: 59_600, retryAfterMs: 100, penaltyMs: 50 },
  ])
  expect(ageUsage(one, 1_600)[2]).toMatchObject({ retryAfterMs: 1, penaltyMs: 1 })
  expect(ageUsage(one, 1_400, 80).map(({ retryAfterMs }) => retryAfterMs)).toEqual([80, 0, 80])
})

test('countUnits() counts those of the permits without which nothing is granted, and reserved ones', () => {
  const charge = createCharge('quota', [{ limit: 9, windowMs: 1_000 }], { cost: 2, reserved: 1 })
  expect(countUnits(charge, take([charge], { permits: 3 }))).toBe(7)
  expect(countUnits(charge, take([charge], { permits: 3, action: 'take-up-to' }))).toBe(3)
  expect(findLongestRetryMs([])).toBe(0)
  expect(findLongestRetryMs([limit(0, { retryAfterMs: 3 }), limit(0, { retryAfterMs: 5 })])).toBe(5)
})
