import { expect, test } from 'vitest'
import type { DecisionRequest, StoreCharge } from '../../src/core/model/charge.ts'
import { StoreError } from '../../src/core/model/store.ts'
import { Negotiation } from '../../src/core/store/durable-object/negotiation.ts'
import {
  callWithin,
  type ObjectNamespace,
  type ObjectVote,
  openObjects,
  type PreparedCharge,
  TOO_LATE_MESSAGE,
} from '../../src/core/store/durable-object/objects.ts'
import { createCharge } from '../support/charges.ts'

const ID = 7
const PATIENCE_MS = 50
const LIMIT = { limit: 10, windowMs: 60_000 }

const charge = (key: string, overrides: Partial<StoreCharge> = {}) =>
  createCharge('sliding-window', [LIMIT], { key, ...overrides })
const [A, B] = [charge('a'), charge('b', { cost: 2 })]
const SHADOW = charge('shadow', { mode: 'shadow' })
const CAP = charge('cap', { counts: 'new-identities' })
const CANCEL = { id: ID, permits: 0 }

function begin(charges: readonly StoreCharge[], overrides: Partial<DecisionRequest> = {}): Negotiation {
  return new Negotiation({ action: 'take', permits: 1, leaseMs: 5, charges, ...overrides }, ID, PATIENCE_MS)
}

/** An object that has charged as many permits as fit. */
function vote(fitting: number, overrides: Partial<ObjectVote> = {}): ObjectVote {
  const usage = [{ remaining: 10, resetMs: 60_000, retryAfterMs: 0 }]
  const rest = { forfeited: 0, nowMs: 1_000, isNew: false, isProvisional: false, isVoid: false }
  return { usage, fitting, chargeable: fitting, charged: fitting, ...rest, ...overrides }
}

/** The index of each message, its key, and whether it is shared with others. */
function list(messages: ReturnType<Negotiation['prepareFirst']>): unknown[] {
  return messages.map(({ index, key, message: { action, permits, shared } }) => [index, key, action, permits, shared])
}

const shared = (siblings: readonly string[], precedesNewIdentities = false) => ({
  id: ID,
  siblings,
  precedesNewIdentities,
})

test('Negotiation first asks all but those that count new identities, and names siblings that remember grants', () => {
  expect(list(begin([A, CAP, SHADOW, B]).prepareFirst())).toEqual([
    [0, 'a', 'take', 1, shared(['b'], true)],
    [2, 'shadow', 'take', 1, shared(['a', 'b'])],
    [3, 'b', 'take', 1, shared(['a'])],
  ])
  const [first] = begin([A, B]).prepareFirst()
  expect(first?.message).toEqual({
    ...{ action: 'take', permits: 1, leaseMs: 5, charge: A, patienceMs: PATIENCE_MS, shared: shared(['b']) },
  } satisfies PreparedCharge)
})

test.each<[string, readonly StoreCharge[], Partial<DecisionRequest>]>([
  ['one charge', [A], {}],
  ['a peek', [A, B], { action: 'peek' }],
  ['a record', [A, B], { action: 'record' }],
])('Negotiation takes nothing back of %s', (_name, charges, overrides) => {
  const negotiation = begin(charges, overrides)
  for (const { message } of negotiation.prepareFirst()) expect(message.shared).toBeUndefined()
  expect([negotiation.isFinal, negotiation.cancel()]).toEqual([true, []])
  for (const index of charges.keys()) negotiation.addVote(index, vote(1))
  const { awaited, kept, decision } = negotiation.conclude()
  expect([awaited, kept, decision.granted]).toEqual([[], [], 1])
  expect(decision.usage[0]?.[0]?.remaining).toBe(9)
})

test('Negotiation asks those that count new identities after the first that is new', () => {
  const other = charge('other cap', { counts: 'new-identities' })
  const listSecond = (isNew: boolean, fitting: number, overrides: Partial<DecisionRequest> = {}) => {
    const negotiation = begin([other, A, SHADOW, CAP, B], overrides)
    negotiation.addVote(1, vote(fitting, { isNew }))
    negotiation.addVote(2, vote(1))
    negotiation.addVote(4, vote(2))
    return list(negotiation.prepareSecond())
  }
  expect(listSecond(false, 1)).toEqual([])
  expect(listSecond(true, 1)).toEqual([[3, 'cap', 'take', 1, shared(['a', 'b'])]])
  expect(listSecond(true, 3, { action: 'take-up-to', permits: 5 })).toEqual([
    [3, 'cap', 'take-up-to', 2, shared(['a', 'b'])],
  ])
  // Refused already, it only reports.
  expect(listSecond(true, 0, { action: 'take-up-to', permits: 5 })).toEqual([[3, 'cap', 'peek', 1, undefined]])
  expect(listSecond(true, 1, { permits: 5 })).toEqual([[3, 'cap', 'peek', 5, undefined]])
  const negotiation = begin([A, CAP])
  negotiation.addVote(0, vote(1, { isNew: true }))
  expect(list(negotiation.prepareSecond())).toEqual([[1, 'cap', 'take', 1, shared(['a'])]])
})

test('Negotiation#cancel() undoes what was charged, and what may have been', () => {
  const cancelled = (charges: readonly StoreCharge[], votes: readonly (ObjectVote | undefined)[]) => {
    const negotiation = begin(charges)
    for (const [index, each] of votes.entries()) if (each) negotiation.addVote(index, each)
    return negotiation.cancel().map(({ index, key, message }) => {
      expect([key, message]).toEqual([charges[index]?.key, CANCEL])
      return index
    })
  }
  expect(cancelled([A, B, SHADOW], [vote(1), vote(0), undefined])).toEqual([0, 2])
  expect(cancelled([A, CAP, B], [vote(1), undefined, vote(1)])).toEqual([0, 2])
  expect(cancelled([A, CAP, B], [vote(1, { isNew: true }), undefined, vote(1)])).toEqual([0, 1, 2])
  // Only what comes after a new identity is asked about it.
  expect(cancelled([A, CAP, B], [vote(1), undefined, vote(1, { isNew: true })])).toEqual([0, 2])
})

test('Negotiation#conclude() keeps what was granted, and gives back the rest at once', () => {
  const negotiation = begin([A, B, SHADOW], { action: 'take-up-to', permits: 3 })
  negotiation.addVote(0, vote(3, { forfeited: 1, nowMs: 1_005 }))
  negotiation.addVote(1, vote(2))
  negotiation.addVote(2, vote(1, { nowMs: 990 }))
  const { decision, awaited, kept, votedAtMs } = negotiation.conclude()
  expect([decision.granted, decision.nowMs]).toEqual([2, 1_005])
  expect(decision.usage.map(([limit]) => limit?.remaining)).toEqual([7, 6, 10])
  const keep = { id: ID, permits: 2 }
  expect(kept).toEqual([
    { index: 0, key: 'a', message: keep },
    { index: 1, key: 'b', message: keep },
  ])
  expect(awaited).toEqual([
    { index: 0, key: 'a', message: { ...keep, isPartial: true } },
    { index: 2, key: 'shadow', message: CANCEL },
  ])
  expect(votedAtMs).toEqual(
    new Map([
      ['a', 1_005],
      ['b', 1_000],
      ['shadow', 990],
    ]),
  )
  expect('isProvisional' in decision).toBe(false)
})

test('Negotiation#conclude() gives all back that a refused decision has charged', () => {
  const negotiation = begin([A, B])
  negotiation.addVote(0, vote(1))
  negotiation.addVote(1, vote(0))
  const { decision, awaited, kept } = negotiation.conclude()
  expect([decision.granted, awaited, kept]).toEqual([0, [{ index: 0, key: 'a', message: CANCEL }], []])
  expect('isProvisional' in decision).toBe(false)
})

test('Negotiation#conclude() awaits that the charge of a new identity is kept, and reports a charge that was not asked', () => {
  const conclude = (isNew: boolean, charges: readonly StoreCharge[]) => {
    const negotiation = begin(charges)
    for (const [index, each] of charges.entries()) if (each !== CAP) negotiation.addVote(index, vote(1, { isNew }))
    return negotiation.conclude()
  }
  const { awaited, kept, decision } = conclude(true, [A, CAP])
  expect(awaited).toEqual([{ index: 0, key: 'a', message: { id: ID, permits: 1 } }])
  expect(kept).toEqual(awaited)
  expect(decision.usage[1]).toEqual([{ remaining: 10, resetMs: 60_000, retryAfterMs: 0 }])
  expect([conclude(false, [A, CAP]).awaited, conclude(true, [CAP, A]).awaited]).toEqual([[], []])
})

test.each<[string, readonly Partial<ObjectVote>[], true | undefined]>([
  ['units of others', [{ isProvisional: true }, {}], true],
  ['units that stay', [{}, {}], undefined],
  ['units of others at another object', [{}, { isProvisional: true, fitting: 0 }], true],
  ['units of others where it fits', [{ isProvisional: true, fitting: 1 }, {}], undefined],
])('Negotiation#conclude() tells whether a refusal is due to %s', (_name, [first, second], isProvisional) => {
  const negotiation = begin([A, B, SHADOW])
  negotiation.addVote(0, vote(0, first))
  negotiation.addVote(1, vote(1, second))
  negotiation.addVote(2, vote(0, { isProvisional: true }))
  expect(negotiation.conclude().decision.isProvisional).toBe(isProvisional)
})

test('Negotiation is void if an object says so', () => {
  const negotiation = begin([A, B])
  expect(negotiation.isVoid).toBe(false)
  negotiation.addVote(0, vote(1))
  negotiation.addVote(1, vote(1, { isVoid: true }))
  expect(negotiation.isVoid).toBe(true)
})

test('openObjects() posts the name of a call and its argument to the object of a key', async () => {
  const posted: unknown[] = []
  const answer = { status: 200 }
  const namespace: ObjectNamespace = {
    idFromName: (name) => `id of ${name}`,
    get: (id) => ({
      async fetch(url, { method, body }) {
        posted.push([id, url, method, JSON.parse(body)])
        return { ...answer, json: async () => 'answer' }
      },
    }),
  }
  const objects = openObjects(namespace)
  expect(await objects.close('a', CANCEL)).toBe('answer')
  await objects.inquire('b', ID)
  await objects.correct('c', [{ kind: 'delete' }])
  await objects.reserve('d', { action: 'take', permits: 1, charge: A })
  const sent = [
    ['a', ['close', CANCEL]],
    ['b', ['inquire', ID]],
    ['c', ['correct', [{ kind: 'delete' }]]],
    ['d', ['reserve', { action: 'take', permits: 1, charge: A }]],
  ]
  expect(posted).toEqual(sent.map(([key, call]) => [`id of ${key}`, 'https://object', 'POST', call]))
  answer.status = 503
  await expect(objects.inquire('b', ID)).rejects.toThrow('a Durable Object answered 503')
})

test('callWithin() throws a StoreError without what the object has thrown, or if it is too late', async () => {
  expect(await callWithin(60_000, Promise.resolve(1))).toBe(1)
  const failed = callWithin(60_000, Promise.reject(new Error('secret')))
  await expect(failed).rejects.toThrow(new StoreError('a Durable Object could not be reached, or has failed'))
  await expect(callWithin(1, new Promise(() => {}))).rejects.toThrow(new StoreError(TOO_LATE_MESSAGE))
})
