import { expect, test } from 'vitest'
import { type AnsweringPlace, type ChargePlace, SplitPlan } from '../../src/core/engine/places/split-plan.ts'
import type { DecisionRequest, LimitState, StoreCharge } from '../../src/core/model/charge.ts'
import { ChargeTimes } from '../../src/core/store/charge-times.ts'
import { createCharge, storeWith } from '../support/charges.ts'

const LIMIT = { limit: 10, windowMs: 60_000 }
const charge = (key: string, overrides: Partial<StoreCharge> = {}) =>
  createCharge('sliding-window', [LIMIT], { key, ...overrides })
const [A, B] = [charge('a'), charge('b', { algorithm: 'quota' })]
const CAP = charge('cap', { counts: 'new-identities' })
const PROBE = {
  key: 'a',
  algorithm: 'sliding-window',
  limits: [LIMIT],
  cost: 11,
  mode: 'enforce',
  reserved: 0,
  counts: 'new-identities',
}
const PENALTY = { durationMs: 500, after: 1 }

const store = storeWith({ decide: async () => ({ granted: 1, nowMs: 1, usage: [] }) })
const place = (...charges: readonly StoreCharge[]): ChargePlace => ({ store, charges, times: new ChargeTimes() })
const limit = (remaining: number, retryAfterMs = 0, penaltyMs?: number): LimitState[] => [
  { remaining, resetMs: 9, retryAfterMs, ...(penaltyMs !== undefined && { penaltyMs }) },
]

function begin(
  charges: readonly StoreCharge[],
  places: readonly ChargePlace[],
  overrides: Partial<DecisionRequest> = {},
) {
  const plan = new SplitPlan({ action: 'take', permits: 1, charges, ...overrides }, places)
  const [first, second] = plan.places as readonly [AnsweringPlace, AnsweringPlace]
  const calls = () => plan.planQuestions()
  /** @param answers usage of each charge that was sent, by place */
  const answer = (...answers: readonly (readonly LimitState[][])[]) => {
    for (const [at, call] of calls().entries()) {
      plan.note(call, { granted: 1, nowMs: 1_000 + at, usage: answers[at] ?? [] })
    }
    return plan
  }
  return { plan, first, second, calls, answer }
}

test('SplitPlan asks about all charges, and probes those that detect identities for charges that do not apply yet', () => {
  const { calls, plan } = begin([A, CAP, B], [place(CAP, A), place(B)])
  expect(plan.places[0]?.charges).toEqual([A, CAP])
  expect(calls().map(({ request: { action, permits, charges } }) => [action, permits, charges])).toEqual([
    ['peek', 1, [A, PROBE, { ...CAP, counts: 'requests' }]],
    ['peek', 1, [B]],
  ])
  expect(calls().map(({ probed }) => [...probed])).toEqual([[A], []])
  const sent = (
    charges: readonly StoreCharge[],
    places: readonly ChargePlace[],
    overrides: Partial<DecisionRequest> = {},
  ) =>
    begin(charges, places, overrides)
      .calls()
      .map(({ request }) => [request.permits, request.charges.length])
  expect(sent([CAP, A], [place(CAP, A)])).toEqual([[1, 2]])
  expect(sent([A, CAP], [{ ...place(A, CAP), isNext: true }], { permits: 3 })).toEqual([[3, 2]])
  expect(sent([A, CAP], [place(A, CAP)], { action: 'take-up-to', permits: 3 })).toEqual([[1, 3]])
  expect(sent([A, B], [place(A), place(B)])).toEqual([
    [1, 1],
    [1, 1],
  ])
})

test('SplitPlan#planCharge() charges what applies, after a new identity has been detected or without one', () => {
  for (const isNew of [true, false]) {
    const { plan, first, second, answer } = begin([A, CAP], [place(A), place(CAP)])
    answer([limit(9), limit(0, isNew ? 5 : 0)], [limit(9)])
    expect([plan.firstNew, plan.applies(A), plan.applies(CAP)]).toEqual([
      isNew ? 0 : Number.POSITIVE_INFINITY,
      true,
      isNew,
    ])
    const own = plan.planCharge(first, 2)
    // It is still to be known whether the identity is new when it is charged.
    expect([own?.request.action, own?.request.permits, own?.request.charges.length]).toEqual(['take', 2, isNew ? 1 : 2])
    expect(plan.planCharge(second, 2)?.request.charges).toEqual(isNew ? [{ ...CAP, counts: 'requests' }] : undefined)
  }
  const { plan, first } = begin([A, CAP], [place(A), place(CAP)], { action: 'record' })
  expect(plan.planCharge(first, 1)?.request.charges).toEqual([A])
})

test('SplitPlan notes the first of several that have detected a new identity', () => {
  const other = charge('other')
  const { answer } = begin([A, other, CAP], [place(other), place(A), place(CAP)])
  expect(answer([limit(9), limit(0, 5)], [limit(9), limit(0, 5)]).firstNew).toBe(0)
})

test('SplitPlan#planRounds() charges all at once where there is room, else first where the least share is left', () => {
  const rounds = (permits: number, first: LimitState[], second: LimitState[], overrides: Partial<StoreCharge> = {}) => {
    const own = { ...B, ...overrides }
    const { answer } = begin([A, own], [place(A), place(own)])
    return answer([first], [second])
      .planRounds(permits)
      .map((round) => round.map(({ charges }) => charges[0]?.key))
  }
  expect(rounds(1, limit(10), limit(6))).toEqual([['a', 'b']])
  expect(rounds(2, limit(10), limit(6))).toEqual([['b'], ['a']])
  expect(rounds(1, limit(5), limit(6))).toEqual([['a'], ['b']])
  expect(rounds(1, limit(10), limit(6), { cost: 2 })).toEqual([['b'], ['a']])
  expect(rounds(1, limit(10), limit(6), { burst: 20 })).toEqual([['b'], ['a']])
  expect(rounds(1, limit(10), limit(0), { mode: 'shadow' })).toEqual([['a', 'b']])
})

test('SplitPlan#planRounds() counts new identities before they become known', () => {
  const { answer } = begin([B, A, CAP], [place(B), place(A, CAP), place(CAP)])
  const plan = answer([limit(0)], [limit(10), limit(0, 5), limit(10)], [limit(10)])
  expect(plan.firstNew).toBe(1)
  expect(plan.planRounds(1).map((round) => round.map(({ charges }) => charges.map(({ key }) => key)))).toEqual([
    [['cap']],
    [['a', 'cap']],
    [['b']],
  ])
})

test('SplitPlan#planRefusals() has charges with a penalty count that they refuse, without charging', () => {
  const planned = (overrides: Partial<StoreCharge>, usage: LimitState[], others: readonly StoreCharge[] = []) => {
    const own = { ...B, penalty: PENALTY, ...overrides }
    const { answer } = begin([...others, own], [place(own)])
    return answer([usage])
      .planRefusals()
      .map(({ request: { action, charges }, probed }) => [action, charges, probed.size])
  }
  const sent = { ...B, penalty: PENALTY, reserved: Number.MAX_SAFE_INTEGER }
  expect(planned({}, limit(0, 5))).toEqual([['take', [sent], 0]])
  expect(planned({}, limit(1, 0))).toEqual([])
  expect(planned({}, limit(0, 5, 3))).toEqual([])
  expect(planned({ mode: 'shadow' }, limit(0, 5))).toEqual([])
  expect(planned({ counts: 'new-identities' }, limit(0, 5))).toEqual([])
  const { penalty: _, ...without } = { ...B, penalty: PENALTY }
  const { answer } = begin([without], [place(without)])
  expect(answer([limit(0, 5)]).planRefusals()).toEqual([])
})

test('SplitPlan#noteRefusals() notes penalties only', () => {
  const own = { ...A, penalty: PENALTY }
  const { plan, answer } = begin([own], [place(own)])
  answer([limit(0, 5)])
  const note = (nowMs: number, usage: LimitState[][]) => {
    for (const call of plan.planRefusals()) plan.noteRefusals(call, { granted: 0, nowMs, usage })
    return plan.conclude(0)
  }
  expect(note(2_000, [limit(7, 1)])).toEqual({ granted: 0, nowMs: 2_000, usage: [limit(0, 5)] })
  expect(note(2_001, [[]]).usage).toEqual([limit(0, 5)])
  expect(note(2_002, []).usage).toEqual([limit(0, 5)])
  expect(note(2_003, [limit(7, 1, 500)]).usage).toEqual([limit(0, 500, 500)])
})

test('SplitPlan#countFitting() counts what fits everywhere, of what is not reserved nor punished', () => {
  const fitting = (usage: LimitState[], overrides: Partial<StoreCharge> = {}) => {
    const own = { ...B, ...overrides }
    return begin([A, own], [place(A), place(own)], { action: 'take-up-to', permits: 8 })
      .answer([limit(9)], [usage])
      .countFitting()
  }
  expect([fitting(limit(9)), fitting(limit(7)), fitting(limit(7), { cost: 2, reserved: 1 })]).toEqual([8, 7, 3])
  expect([fitting(limit(7), { reserved: 9 }), fitting(limit(7, 5, 0)), fitting(limit(0), { mode: 'shadow' })]).toEqual([
    0, 0, 8,
  ])
  expect(fitting(limit(0), { counts: 'new-identities' })).toBe(8)
})

test('SplitPlan#conclude() tells the stricter of two places, the latest time, and what does not apply as unused', () => {
  const conclude = (one: LimitState[], other: LimitState[]) =>
    begin([B, CAP], [place(B), place(B, CAP)])
      .answer([one], [other, limit(3)])
      .conclude(1)
  expect(conclude(limit(5, 7), limit(6, 2))).toEqual({
    granted: 1,
    nowMs: 1_001,
    usage: [limit(5, 7), [{ remaining: 10, resetMs: 60_000, retryAfterMs: 0 }]],
  })
  expect(conclude(limit(6, 2), limit(5, 7)).usage[0]).toEqual(limit(5, 7))
  expect(conclude(limit(6, 2, 3), limit(5, 7)).usage[0]).toEqual(limit(5, 7, 3))
  expect(conclude(limit(6, 2, 3), limit(6, 7, 4)).usage[0]).toEqual(limit(6, 7, 4))
  expect(conclude([], limit(6, 2)).usage[0]).toEqual(limit(6, 2))
})

test('SplitPlan#planRefusals() has nothing counted of which nothing is known', () => {
  const counting: StoreCharge = { ...A, penalty: PENALTY }
  const { answer } = begin([counting, B], [place(counting), place(B)])
  expect(answer([], [limit(9)]).planRefusals()).toEqual([])
})
