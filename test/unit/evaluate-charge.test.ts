import { expect, test } from 'vitest'
import { holdsSlots } from '../../src/core/algorithms/algorithm-table.ts'
import {
  countGranted,
  countsNewIdentities,
  countWanted,
  decide,
  detectsNewIdentities,
  type Evaluation,
  evaluateCharge,
  findMinRemaining,
  hasPenalty,
  isChargedLater,
  isUnused,
  type States,
  skipCharge,
  subtract,
  wasSkipped,
  withoutCondition,
  withPenalty,
} from '../../src/core/algorithms/decide.ts'
import type { DecisionRequest, LimitState, StoreCharge } from '../../src/core/model/charge.ts'
import { createCharge } from '../support/charges.ts'

const NOW_MS = 1_000_000
const NOW_US = NOW_MS * 1000
const WINDOW_MS = 60_000
const CHARGE = createCharge('quota', [{ limit: 10, windowMs: WINDOW_MS }])
const NEW_IDENTITIES: StoreCharge = { ...CHARGE, counts: 'new-identities' }
const FAILURES: StoreCharge = { ...CHARGE, counts: 'failures' }

const remaining = (...units: readonly number[]): LimitState[] =>
  units.map((each) => ({ remaining: each, resetMs: 9, retryAfterMs: 0 }))

/** States in memory, and what is written. */
function subject() {
  const known = new Map<string, unknown>()
  const written: string[] = []
  const states: States = {
    read: (key) => known.get(key),
    write(key, state) {
      written.push(key)
      known.set(key, state)
    },
  }
  const ask = (charges: readonly StoreCharge[], overrides: Partial<DecisionRequest> = {}) => {
    written.length = 0
    const { granted, usage } = decide({ action: 'take', permits: 1, charges, ...overrides }, NOW_US, states)
    return [granted, usage.map(([limit]) => limit?.remaining), [...written]]
  }
  return { ask }
}

test('usage: the least that remains, penalties, and what was not used', () => {
  expect([findMinRemaining([]), findMinRemaining(remaining(3, 2, 5))]).toEqual([Number.POSITIVE_INFINITY, 2])
  const punished = remaining(3).map((limit) => ({ ...limit, penaltyMs: 0 }))
  expect([hasPenalty(remaining(3)), hasPenalty([...remaining(3), ...punished])]).toEqual([false, true])
  const two = { ...NEW_IDENTITIES, limits: [...CHARGE.limits, { limit: 20, windowMs: 90_000 }] }
  expect([isUnused(two, remaining(10, 20)), isUnused(two, remaining(10, 19))]).toEqual([true, false])
  expect([wasSkipped(two, remaining(10, 20)), wasSkipped(two, remaining(9, 20))]).toEqual([true, false])
  expect(wasSkipped({ ...two, counts: 'requests' }, remaining(10, 20))).toBe(false)
  const usage = remaining(3, 1)
  subtract(usage, 2)
  expect(usage).toEqual(remaining(1, 0))
  const [short, long] = withPenalty([...remaining(3), { remaining: 0, resetMs: 9, retryAfterMs: 50 }], 20)
  expect([short, long]).toEqual([
    { remaining: 3, resetMs: 9, retryAfterMs: 20, penaltyMs: 20 },
    { remaining: 0, resetMs: 9, retryAfterMs: 50, penaltyMs: 20 },
  ])
})

test('what a charge counts', () => {
  const charges = [CHARGE, NEW_IDENTITIES, FAILURES]
  expect(charges.map(countsNewIdentities)).toEqual([false, true, false])
  expect(countsNewIdentities(undefined)).toBe(false)
  expect(charges.map(isChargedLater)).toEqual([false, false, true])
  expect(withoutCondition(NEW_IDENTITIES)).toEqual({ ...CHARGE, counts: 'requests' })
  expect(withoutCondition(FAILURES)).toBe(FAILURES)
  const log: StoreCharge = { ...CHARGE, algorithm: 'sliding-window' }
  const later: StoreCharge = { ...log, counts: 'failures' }
  expect([log, later, CHARGE].map(detectsNewIdentities)).toEqual([true, false, false])
  expect((['concurrency', 'quota'] as const).map((algorithm) => holdsSlots({ algorithm }))).toEqual([true, false])
})

test('countGranted() takes the least of enforced charges, and all or none unless a part is asked for', () => {
  const fitting = (...permits: readonly number[]) => permits.map((each) => ({ fitting: each }) as Evaluation)
  const charges = [CHARGE, { ...CHARGE, mode: 'shadow' as const }, CHARGE]
  const count = (action: DecisionRequest['action'], ...permits: readonly number[]) =>
    countGranted({ action, permits: 5, charges }, fitting(...permits))
  expect([count('take', 5, 0, 5), count('take', 5, 5, 4), count('take', 9, 9, 9)]).toEqual([5, 0, 5])
  expect([count('take-up-to', 5, 0, 3), count('take-up-to', 0, 5, 5)]).toEqual([3, 0])
  expect((['take', 'take-up-to', 'peek'] as const).map((action) => countWanted({ action, permits: 5 }))).toEqual([
    5, 1, 5,
  ])
})

test('skipCharge() tells all as unused, and charges nothing', () => {
  const usage = [{ remaining: 10, resetMs: WINDOW_MS, retryAfterMs: 0 }]
  expect(skipCharge(NEW_IDENTITIES, { permits: 3 })).toEqual({ usage, fitting: 3, chargeable: 0 })
})

test('evaluateCharge() leaves what is reserved, and counts no refusal due to that', () => {
  const charge: StoreCharge = { ...CHARGE, cost: 3, reserved: 3, penalty: { durationMs: 500, after: 1 } }
  const evaluate = (overrides: Partial<StoreCharge>, action: DecisionRequest['action'] = 'take', permits = 1) =>
    evaluateCharge({ ...charge, ...overrides }, { action, permits }, undefined, NOW_US)
  const { usage, ...plain } = evaluate({})
  expect([plain, usage[0]?.retryAfterMs]).toEqual([{ fitting: 2, chargeable: 2 }, 0])
  expect(evaluate({ reserved: 8 })).toMatchObject({ fitting: 0, chargeable: 0 })
  expect('changed' in evaluate({ reserved: 8 })).toBe(false)
  expect(evaluate({ cost: 11, reserved: 0 })).toEqual({
    usage: [{ remaining: 10, resetMs: WINDOW_MS, retryAfterMs: WINDOW_MS, penaltyMs: 500 }],
    fitting: 0,
    chargeable: 0,
    changed: { refusals: 0, untilMs: NOW_MS + 500 },
  })
  expect('changed' in evaluate({ cost: 11, reserved: 0, mode: 'shadow' })).toBe(false)
  expect('changed' in evaluate({ cost: 11, reserved: 0 }, 'peek')).toBe(false)
  expect(evaluate({ cost: 11 }, 'record', 4)).toMatchObject({ fitting: 4, chargeable: 4 })
  expect(evaluate({ counts: 'failures' })).toMatchObject({ fitting: 2, chargeable: 0 })
  expect(evaluate({ counts: 'failures' }, 'record')).toMatchObject({ fitting: 1, chargeable: 1 })
  expect(evaluate({ penalty: { durationMs: 500, after: 2 }, cost: 11 }).changed).toEqual({
    refusals: 1,
    untilMs: NOW_MS + WINDOW_MS,
  })
})

test('decide() charges all that were granted, and a refusal only where it is remembered', () => {
  const { ask } = subject()
  const other: StoreCharge = { ...CHARGE, key: 'other', cost: 4 }
  const shadow: StoreCharge = { ...CHARGE, key: 'shadow', cost: 11, mode: 'shadow' }
  const { key } = CHARGE
  expect(ask([CHARGE, other, shadow])).toEqual([1, [9, 6, 10], [key, 'other']])
  expect(ask([CHARGE, other], { action: 'peek' })).toEqual([1, [9, 6], []])
  expect(ask([CHARGE, other], { action: 'take-up-to', permits: 9 })).toEqual([1, [8, 2], [key, 'other']])
  expect(ask([CHARGE, other])).toEqual([0, [8, 2], []])
  expect(ask([CHARGE, { ...other, penalty: { durationMs: 5, after: 1 } }])).toEqual([0, [8, 2], ['other']])
  expect(ask([CHARGE, FAILURES].map((each, at) => ({ ...each, key: `${at}` })))).toEqual([1, [9, 10], ['0']])
})

test('decide() applies a charge for new identities only after one that has met one', () => {
  const { ask } = subject()
  const caller: StoreCharge = { ...CHARGE, algorithm: 'sliding-window', key: 'caller' }
  const cap: StoreCharge = { ...NEW_IDENTITIES, key: 'cap' }
  expect(ask([cap, caller, cap])).toEqual([1, [10, 9, 9], ['caller', 'cap']])
  expect(ask([caller, cap])).toEqual([1, [8, 10], ['caller']])
  // A charge that does not apply moves no state to another.
  expect(ask([cap, caller])).toEqual([1, [10, 7], ['caller']])
  expect(ask([cap, caller])).toEqual([1, [10, 6], ['caller']])
  expect(ask([{ ...caller, key: 'fresh', counts: 'failures' }, cap])).toEqual([1, [10, 10], []])
})

test('decide() subtracts what a lease forfeits', () => {
  const { ask } = subject()
  const bucket = createCharge('token-bucket', [{ limit: 1_000, windowMs: 1_000 }], { key: 'bucket' })
  expect(ask([{ ...bucket, cost: 500 }], { leaseMs: 100 })).toEqual([1, [400], ['bucket']])
})
