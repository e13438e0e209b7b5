import { expect, test } from 'vitest'
import { KnownStatus, type Reply, StatusCache } from '../../src/core/engine/refusals/status-cache.ts'
import type { LimitState, StoreCharge } from '../../src/core/model/charge.ts'
import { createCharge, take } from '../support/charges.ts'

const CHARGE = createCharge('sliding-window', [{ limit: 5, windowMs: 60_000 }])
const REPLY = { granted: 1, nowMs: 1_000, usage: [[{ remaining: 4, resetMs: 60_000, retryAfterMs: 0 }]] }

const planned = (n: number): StoreCharge => ({ ...CHARGE, plan: `${n}` })

test.each([1, 99, 100, 250])('StatusCache#delete() reaches a key under each of %i names', (count) => {
  const statuses = new StatusCache()
  const charges = Array.from({ length: count }, (_, n) => planned(n))
  const isFresh = (charge: StoreCharge) => statuses.update(take([charge]), REPLY, 0, 0)[0]
  for (const charge of charges) statuses.update(take([charge]), REPLY, 0, statuses.replies)
  statuses.delete([CHARGE.key])
  // A reply to a call from before says nothing any more.
  expect(charges.map(isFresh)).toEqual(charges.map(() => false))
})

/** What a store says of one limit, to a call that began after so many replies. */
function reply(
  nowMs: number,
  remaining: number,
  repliesBefore: number,
  overrides: Partial<Reply & LimitState> = {},
): Reply {
  const { granted = 0, sentAtMs = 7, ...limit } = overrides
  return { granted, nowMs, sentAtMs, repliesBefore, usage: [{ remaining, resetMs: 9, retryAfterMs: 0, ...limit }] }
}

/** A status after one grant, at 1,000 ms by the store's clock. */
function granted(): KnownStatus {
  const status = new KnownStatus()
  expect(status.update(reply(1_000, 4, 0, { granted: 1 }), 1)).toBe(true)
  expect([status.usage[0]?.remaining, status.nowMs, status.sentAtMs, status.usedAtReply]).toEqual([4, 1_000, 7, 1])
  return status
}

test.each<[string, Reply, result: boolean, remaining: number, usedAtReply: number]>([
  ['an answer to a call that began after it', reply(1_000, 5, 1), true, 5, 1],
  ['a later one by the store', reply(1_001, 5, 0), true, 5, 1],
  ['one of the same millisecond', reply(1_000, 5, 0), false, 4, 1],
  ['one of the same millisecond that leaves less', reply(1_000, 3, 0), false, 3, 2],
  ['an earlier one that leaves less', reply(999, 3, 0), false, 4, 1],
  ['a later one that leaves less', reply(1_001, 3, 1), true, 3, 2],
  ['a later grant', reply(1_001, 4, 1, { granted: 1 }), true, 4, 2],
  ['a later one with a penalty', reply(1_001, 4, 1, { penaltyMs: 5 }), true, 4, 2],
])('KnownStatus takes %s', (_name, answer, result, remaining, usedAtReply) => {
  const status = granted()
  expect(status.update(answer, 2)).toBe(result)
  expect([status.usage[0]?.remaining, status.usedAtReply]).toEqual([remaining, usedAtReply])
})

test('KnownStatus takes a penalty that goes on for no sign of use', () => {
  const status = granted()
  status.update(reply(1_001, 4, 1, { penaltyMs: 100 }), 2)
  status.update(reply(1_051, 4, 2, { penaltyMs: 50 }), 3)
  expect(status.usedAtReply).toBe(2)
  status.update(reply(1_061, 4, 3, { penaltyMs: 41 }), 4)
  expect(status.usedAtReply).toBe(4)
})

test('KnownStatus is doubtful after a failed call, until an answer to one that began later', () => {
  const status = granted()
  status.invalidate()
  status.invalidate(1)
  expect(status.isDoubtful).toBe(false)
  status.invalidate(5)
  expect([status.isDoubtful, status.usedAtReply]).toEqual([true, 5])
  // It may have been decided before that call was charged, however late it was.
  expect(status.update(reply(9_000, 3, 4), 6)).toBe(false)
  expect([status.isDoubtful, status.usage[0]?.remaining, status.usedAtReply]).toEqual([true, 3, 5])
  expect(status.update(reply(9_001, 2, 6), 7)).toBe(true)
  expect([status.isDoubtful, status.usedAtReply]).toEqual([false, 5])
  // Now fewer units are a sign of use again.
  status.update(reply(9_002, 1, 7), 8)
  expect(status.usedAtReply).toBe(8)
})

test('KnownStatus forgets refusals once units were used', () => {
  const status = granted()
  expect(status.refusals).toBeUndefined()
  const refusal = { usage: [], nowMs: 1_000, sentAtMs: 7 } as unknown as Parameters<KnownStatus['addRefusal']>[0]
  status.addRefusal(refusal)
  expect(status.refusals).toBeDefined()
  status.update(reply(1_001, 4, 1, { granted: 1 }), 2)
  expect(status.refusals).toBeUndefined()
})

test('StatusCache knows the charges that a decision has told something of', () => {
  const statuses = new StatusCache()
  const cap: StoreCharge = { ...CHARGE, key: `${CHARGE.key} cap`, counts: 'new-identities' }
  const untold: StoreCharge = { ...CHARGE, key: `${CHARGE.key} untold` }
  const usage = [[{ remaining: 4, resetMs: 9, retryAfterMs: 0 }], [{ remaining: 5, resetMs: 9, retryAfterMs: 0 }]]
  expect(statuses.update(take([CHARGE, cap, untold]), { granted: 1, nowMs: 1_000, usage }, 7, 0)).toEqual([
    true,
    true,
    true,
  ])
  expect([statuses.replies, statuses.get(cap), statuses.get(untold)]).toEqual([1, undefined, undefined])
  const status = statuses.get(CHARGE)
  expect([status?.usage, status?.sentAtMs, statuses.ensure(CHARGE)]).toEqual([usage[0], 7, status])
  expect(statuses.get({ ...CHARGE, plan: 'pro' })).toBeUndefined()
  statuses.invalidate(take([CHARGE, untold]))
  expect([statuses.replies, status?.isDoubtful, status?.usedAtReply, statuses.get(untold)]).toEqual([
    2,
    true,
    2,
    undefined,
  ])
  expect(statuses.ensure(untold).usage).toEqual([])
})
