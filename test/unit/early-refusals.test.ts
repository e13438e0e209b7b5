import { expect, test } from 'vitest'
import { createEarlyRefusals } from '../../src/core/engine/refusals/early-refusals.ts'
import type { KnownRefusal } from '../../src/core/engine/refusals/refusal-memory.ts'
import { StatusCache } from '../../src/core/engine/refusals/status-cache.ts'
import type { DecisionRequest, LimitState, StoreCharge } from '../../src/core/model/charge.ts'
import { callContext } from '../support/call-context.ts'
import { createCharge, storeWith, take } from '../support/charges.ts'

const NOW_MS = 10_000
const LIMITS = [{ limit: 5, windowMs: 60_000 }]
const createIdentity = () => createCharge('sliding-window', LIMITS)
const createCap = (overrides: Partial<StoreCharge> = {}) =>
  createCharge('quota', LIMITS, { counts: 'new-identities', ...overrides })

const limit = (remaining: number, overrides: Partial<LimitState> = {}): LimitState => ({
  remaining,
  resetMs: 60_000,
  retryAfterMs: 0,
  ...overrides,
})

function subject() {
  const statuses = new StatusCache()
  const early = createEarlyRefusals(statuses, () => NOW_MS)
  /** Has the store refuse a charge so often within this second. */
  const refuse = (charge: StoreCharge, times: number, overrides: Partial<KnownRefusal> = {}) => {
    for (let i = 0; i < times; i++) {
      statuses.ensure(charge).addRefusal({
        usage: [limit(0, { retryAfterMs: 30_000 })],
        units: 1,
        nowMs: NOW_MS,
        sentAtMs: NOW_MS - 100,
        receivedAtMs: NOW_MS - 90,
        untilMs: NOW_MS + 30_000,
        mayEndEarly: true,
        ...overrides,
      })
    }
  }
  return { statuses, early, refuse }
}

test('EarlyRefusals#find() repeats a refusal once three were decided in a second', () => {
  const { early, refuse } = subject()
  const slots = take([createCharge('concurrency', LIMITS)])
  const [charge] = slots.charges as [StoreCharge]
  expect(early.find(slots, 0, NOW_MS)).toBeUndefined()
  refuse(charge, 2)
  expect(early.find(slots, 0, NOW_MS)).toBeUndefined()
  refuse(charge, 1)
  const found = early.find(slots, 0, NOW_MS)
  expect(found?.refusal.units).toBe(1)
  expect(Object.keys(found ?? {})).toEqual(['refusal'])
  expect([early.find(slots, 0, NOW_MS + 899), early.find(slots, 0, NOW_MS + 900)]).toEqual([found, undefined])
  const two = take([{ ...charge, cost: 2 }])
  expect(early.find(two, 0, NOW_MS)).toBeUndefined()
})

test('EarlyRefusals#find() has an identity looked up at its first sight, and then repeats what it was told', () => {
  const { early, refuse } = subject()
  const request = take([createIdentity(), createCap()])
  const [identity, cap] = request.charges as [StoreCharge, StoreCharge]
  refuse(cap, 3)
  expect(early.find(request, 1, NOW_MS)).toBeUndefined()
  // The store has not seen it.
  early.noteRefused(request, 1, [[limit(5)], [limit(0)]], NOW_MS)
  expect(Object.keys(early.find(request, 1, NOW_MS) ?? {})).toEqual(['refusal'])
  refuse(cap, 6)
  // It was not looked up, so the wait is only until it may be.
  const other = take([createIdentity(), cap])
  expect(early.find(other, 1, NOW_MS)).toMatchObject({ maxWaitMs: 900 })
  early.noteAdmitted([identity])
  expect(early.find(request, 1, NOW_MS)).toBeUndefined()
})

test('EarlyRefusals#noteRefused() knows an identity as new only if it is unused, and if new ones are counted', () => {
  for (const [at, usage, isNew] of [
    [1, [[limit(5)], [limit(0)]], true],
    [1, [[limit(4)], [limit(0)]], false],
    [1, [[], [limit(0)]], false],
    [1, [], false],
    [0, [[limit(5)], [limit(0)]], false],
    [2, [[limit(5)], [limit(0)], [limit(0)]], false],
  ] as const) {
    const { early, refuse } = subject()
    const request = take([createIdentity(), createCap(), createCharge('concurrency', LIMITS)])
    refuse(request.charges[1] as StoreCharge, 9)
    early.noteRefused(request, at, usage, NOW_MS)
    expect(Object.keys(early.find(request, 1, NOW_MS) ?? {})).toEqual(isNew ? ['refusal'] : ['refusal', 'maxWaitMs'])
  }
})

test.each<[string, Partial<DecisionRequest>, Partial<StoreCharge>, times: number, known: number, isLikelyNew: boolean]>(
  [
    ['too many were refused', {}, {}, 1, 0, true],
    ['one of its charges is known', {}, {}, 1, 1, true],
    ['it was admitted here', {}, {}, 1, 2, false],
    ['none was refused', {}, {}, 0, 0, false],
    ['new ones are counted in shadow mode', {}, { mode: 'shadow' }, 1, 0, false],
    ['all are counted', {}, { counts: 'requests' }, 1, 0, false],
    ['as many permits are taken as there are', { action: 'take-up-to' }, {}, 1, 0, false],
    ['it is a record', { action: 'record' }, {}, 1, 0, false],
    ['it takes more than was refused', { permits: 2 }, {}, 1, 0, false],
  ],
)('EarlyRefusals#isLikelyNew() if %s', (_name, overrides, ofCap, times, known, isLikelyNew) => {
  const { early, refuse } = subject()
  const cap = createCap(ofCap)
  const identities = [createIdentity(), createIdentity()]
  refuse(cap, times)
  early.noteAdmitted([...identities.slice(0, known), cap])
  expect(early.isLikelyNew(take([...identities, cap], overrides)) === true).toBe(isLikelyNew)
  // What comes after it is not what it counts.
  expect(early.isLikelyNew(take([cap, ...identities], overrides)) === true).toBe(false)
})

test('EarlyRefusals#mayBeNew() of what detects identities, and was not admitted here', () => {
  const { early } = subject()
  const [known, other, cap] = [createIdentity(), createIdentity(), createCap()]
  early.noteAdmitted([known, cap])
  const slots = createCharge('concurrency', LIMITS)
  const failures = { ...createIdentity(), counts: 'failures' as const }
  expect([known, other, slots, failures].map((charge) => early.mayBeNew(charge))).toEqual([false, true, false, false])
})

test('EarlyRefusals#peek() asks about new identities only', async () => {
  const { early } = subject()
  const [known, other, cap, slots] = [
    createIdentity(),
    createIdentity(),
    createCap(),
    createCharge('concurrency', LIMITS),
  ]
  early.noteAdmitted([known])
  const sent: unknown[] = []
  const store = storeWith({
    async decide(request, context) {
      sent.push([request, context])
      return { granted: 0, nowMs: 7, usage: [[limit(5)], [limit(0)]] }
    },
  })
  const context = callContext()
  const request: DecisionRequest = { action: 'take', permits: 2, charges: [known, other, cap, slots] }
  expect(await early.peek(store, request, context)).toEqual({
    granted: 0,
    nowMs: 7,
    usage: [[], [limit(5)], [limit(0)], []],
  })
  expect(sent).toEqual([[{ action: 'peek', permits: 2, charges: [other, cap] }, context]])
})
