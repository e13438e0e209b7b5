import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { DecisionRequest, StoreCharge } from '../../src/core/model/charge.ts'
import { StoreError } from '../../src/core/model/store.ts'
import { openCalendar } from '../../src/core/options/calendar.ts'
import { DurableObjectStore } from '../../src/core/store/durable-object/durable-object-store.ts'
import type { CommitOrAbort, ObjectVote, PreparedCharge } from '../../src/core/store/durable-object/objects.ts'
import { TOO_LATE_MESSAGE } from '../../src/core/store/durable-object/objects.ts'
import { callContext } from '../support/call-context.ts'
import { createCharge } from '../support/charges.ts'

const TIMEOUT_MS = 1_000
const charge = (key: string, overrides: Partial<StoreCharge> = {}) =>
  createCharge('sliding-window', [{ limit: 10, windowMs: 60_000 }], { key, ...overrides })
const [A, B] = [charge('a'), charge('b')]
const BOTH: DecisionRequest = { action: 'take', permits: 1, charges: [A, B] }

function vote(fitting: number, overrides: Partial<ObjectVote> = {}): ObjectVote {
  const usage = [{ remaining: 10, resetMs: 60_000, retryAfterMs: 0 }]
  const rest = { forfeited: 0, nowMs: 1_000, isNew: false, isProvisional: false, isVoid: false }
  return { usage, fitting, chargeable: fitting, charged: fitting, ...rest, ...overrides }
}

const never = new Promise<never>(() => {})

/** @param votes of the objects by key: by default, each grants what is asked */
function subject(
  votes: Readonly<Record<string, ObjectVote | 'silent' | 'gone'>> = {},
  stands: (attempt: number) => boolean = () => true,
) {
  const reserved: (readonly [string, PreparedCharge])[] = []
  const closed: (readonly [string, CommitOrAbort])[] = []
  const corrected: (readonly [string, unknown])[] = []
  const store = new DurableObjectStore({
    timeoutMs: TIMEOUT_MS,
    objects: {
      async reserve(key, reservation) {
        reserved.push([key, reservation])
        const answer = votes[key] ?? vote(reservation.permits)
        if (answer === 'gone') throw new Error('gone')
        return answer === 'silent' ? never : answer
      },
      async close(key, closing) {
        closed.push([key, closing])
        return stands(closed.length)
      },
      inquire: async () => true,
      async correct(key, corrections) {
        corrected.push([key, corrections])
      },
    },
  })
  const cancels = () => closed.map(([key, { permits }]) => [key, permits])
  return { store, reserved, closed, corrected, cancels }
}

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** @returns what a decision comes to when all timers have run; undefined if it never ends */
async function settle(deciding: Promise<unknown>): Promise<unknown> {
  const outcome = Promise.race([deciding.catch((error: unknown) => error), never])
  let result: unknown
  void outcome.then((value) => {
    result = value
  })
  await vi.runAllTimersAsync()
  return result
}

test('DurableObjectStore asks each object, and ends what was charged after its answer', async () => {
  const { store, reserved, closed } = subject()
  const background: Promise<unknown>[] = []
  expect(await store.decide(BOTH, callContext(background))).toMatchObject({ granted: 1, nowMs: 1_000 })
  expect(reserved.map(([key, { patienceMs, shared }]) => [key, patienceMs, shared?.siblings])).toEqual([
    ['a', 250, ['b']],
    ['b', 250, ['a']],
  ])
  await Promise.all(background)
  expect(closed.map(([key, { permits }]) => [key, permits])).toEqual([
    ['a', 1],
    ['b', 1],
  ])
  expect(new Set(closed.map(([, { id }]) => id))).toEqual(new Set([reserved[0]?.[1].shared?.id]))
  const alone = subject()
  await alone.store.decide({ ...BOTH, charges: [A] })
  expect([alone.reserved[0]?.[1].shared, alone.closed]).toEqual([undefined, []])
  expect([store.isSplit([A]), store.isSplit([A, B])]).toEqual([false, true])
})

test('DurableObjectStore takes back what a refused decision has charged before it answers', async () => {
  const { store, cancels } = subject({ b: vote(0) })
  expect(await store.decide(BOTH)).toMatchObject({ granted: 0 })
  expect(cancels()).toEqual([['a', 0]])
})

test.each<[string, Readonly<Record<string, ObjectVote | 'silent' | 'gone'>>, string, readonly unknown[]]>([
  [
    'does not answer',
    { a: 'silent' },
    TOO_LATE_MESSAGE,
    [
      ['a', 0],
      ['b', 0],
    ],
  ],
  [
    'cannot be reached',
    { a: 'gone' },
    'a Durable Object could not be reached, or has failed',
    [
      ['a', 0],
      ['b', 0],
    ],
  ],
  [
    'knows that it was given up',
    { a: vote(0, { isVoid: true }) },
    'the decision took so long, or met so many others, that it was given up',
    [['b', 0]],
  ],
])('DurableObjectStore cancels a decision if an object %s', async (_name, votes, message, cancelled) => {
  const { store, cancels } = subject(votes)
  expect(await settle(store.decide(BOTH))).toEqual(new StoreError(message))
  expect(cancels()).toEqual(cancelled)
})

test('DurableObjectStore refuses if what is to stay of a new identity was cancelled meanwhile', async () => {
  const cap = charge('cap', { counts: 'new-identities' })
  const votes = { a: vote(1, { isNew: true }) }
  const request = { ...BOTH, charges: [A, cap] }
  expect(await settle(subject(votes, () => false).store.decide(request))).toEqual(
    new StoreError('decision timed out and was cancelled'),
  )
  const { store, reserved } = subject(votes)
  expect(await settle(store.decide(request))).toMatchObject({ granted: 1 })
  expect(reserved.map(([key]) => key)).toEqual(['a', 'cap'])
})

test('DurableObjectStore sends an end again, after pauses that double, and leaves it to the objects after the ninth', async () => {
  let failures = 3
  const fail = () => {
    if (failures-- > 0) throw new Error('gone')
    return true
  }
  const { store, closed } = subject({}, fail)
  const startedMs = Date.now()
  await store.decide(BOTH)
  await vi.advanceTimersByTimeAsync(49)
  expect(closed).toHaveLength(2)
  await vi.runAllTimersAsync()
  expect([closed.length, Date.now() - startedMs]).toEqual([5, 150])
  failures = Number.POSITIVE_INFINITY
  const lost = subject({ b: vote(0) }, fail)
  const lostAtMs = Date.now()
  const waitUntil = (work: Promise<unknown>) => void work.catch(() => {})
  const deadlines = { waitWithin: (_timeoutMs: number, work: unknown) => work } as never
  expect(await settle(lost.store.decide(BOTH, { deadlines, waitUntil }))).toEqual(
    new StoreError('a Durable Object could not be reached, or has failed'),
  )
  expect(Date.now() - lostAtMs).toBeGreaterThanOrEqual(50 * (2 ** 8 - 1))
})

test('DurableObjectStore makes no decision for a client that has gone, unless it serves others or must be known', async () => {
  const gone = (overrides: Partial<DecisionRequest>) => {
    const { store } = subject()
    return settle(store.decide({ ...BOTH, ...overrides }, { ...callContext(), isClientGone: () => true }))
  }
  expect(await gone({})).toBeUndefined()
  for (const overrides of [
    { leaseMs: 5 },
    { action: 'peek' as const },
    { action: 'record' as const },
    { charges: [A, { ...B, slot: 1 }] },
  ]) {
    expect(await gone(overrides)).toMatchObject({ granted: 1 })
  }
})

test('DurableObjectStore gives back what it charged for a client that went away meanwhile', async () => {
  const { store, cancels } = subject()
  let calls = 0
  const deciding = store.decide(BOTH, { ...callContext(), isClientGone: () => ++calls > 2 })
  expect(await settle(deciding)).toBeUndefined()
  expect(cancels()).toEqual([
    ['a', 0],
    ['b', 0],
  ])
})

test('DurableObjectStore corrects charges at their objects, each by the time of its own', async () => {
  const { store, corrected } = subject({ b: vote(1, { nowMs: 900 }) })
  const { nowMs } = await store.decide(BOTH)
  await store.settle(
    [
      { charge: A, units: -1 },
      { charge: B, units: 2 },
    ],
    nowMs,
  )
  await store.release([A, B])
  await store.revoke([
    { charge: A, isKnown: true },
    { charge: A, isKnown: false },
  ])
  await store.renew([A])
  await store.delete(['a', 'b'])
  await store.ping()
  expect(corrected).toEqual([
    ['a', [{ kind: 'settle', charge: A, units: -1, chargedAtMs: 1_000 }]],
    ['b', [{ kind: 'settle', charge: B, units: 2, chargedAtMs: 900 }]],
    ['a', [{ kind: 'release', charge: A }]],
    ['b', [{ kind: 'release', charge: B }]],
    [
      'a',
      [
        { kind: 'release', charge: A },
        { kind: 'revoke', charge: A },
      ],
    ],
    ['a', [{ kind: 'renew', charge: A }]],
    ['a', [{ kind: 'delete' }]],
    ['b', [{ kind: 'delete' }]],
    ['ping', []],
  ])
})

test('DurableObjectStore sends of a charge what its object needs, and the ends of a calendar', async () => {
  const { store, reserved } = subject()
  const calendar = openCalendar('month', 'UTC', 1)
  const limits = [{ limit: 10, windowMs: 60_000, calendar }]
  const own = { burst: 5, slot: 0, counts: 'requests', penalty: { durationMs: 5, after: 1 } } as const
  await store.decide({ ...BOTH, charges: [{ ...A, ...own, limits, plan: 'pro', needsSettlement: true }] })
  const sent = { ...A, ...own, limits: [{ limit: 10, windowMs: 60_000, endsMs: calendar.findEnds(Date.now()) }] }
  expect(reserved[0]?.[1].charge).toEqual(sent)
  await store.decide({ ...BOTH, charges: [A] })
  expect(Object.keys(reserved[1]?.[1].charge ?? {}).toSorted()).toEqual(Object.keys(A).toSorted())
})
