import { expect, test } from 'vitest'
import type { Decision, DecisionRequest, StoreCharge } from '../../src/core/model/charge.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'

/** The bound of the source: more callers than any test could know of by accident. */
const MAX_KEYS = 100_000
const START_MS = 1_700_000_000_000

function subject() {
  const clock = { now: START_MS }
  const store = new MemoryStore(() => clock.now)
  const charge = (key: string, overrides: Partial<StoreCharge> = {}): StoreCharge => ({
    key,
    algorithm: 'sliding-window',
    limits: [{ limit: 2, windowMs: 1_000 }],
    cost: 1,
    mode: 'enforce',
    reserved: 0,
    ...overrides,
  })
  const ask = (key: string, overrides?: Partial<StoreCharge>, action: DecisionRequest['action'] = 'take'): Decision =>
    store.decideNow({ action, permits: 1, charges: [charge(key, overrides)] })
  /** Units that a caller has left, found out without a charge. */
  const left = (key: string, overrides?: Partial<StoreCharge>) => ask(key, overrides, 'peek').usage[0]?.[0]?.remaining
  return { clock, store, ask, left }
}

test('MemoryStore drops a caller two windows after the charge at the latest', () => {
  const { clock, store, ask, left } = subject()
  ask('a')
  clock.now += 999
  expect(left('a')).toBe(1)
  clock.now += 1
  expect(left('a')).toBe(2)
  expect(store.size).toBe(1)
  clock.now += 1_001
  // Slots that have expired go as others are charged.
  ask('b')
  expect(store.size).toBe(1)
})

test('MemoryStore does not remember who was only looked at or refused', () => {
  const { store, ask } = subject()
  ask('peeked', {}, 'peek')
  ask('refused', { cost: 3 })
  expect(store.size).toBe(0)
})

test('MemoryStore drops expired callers, two for each charge', () => {
  const { clock, store, ask } = subject()
  for (let i = 0; i < 100; i++) ask(`old-${i}`)
  clock.now += 2_001
  const sizes = [1, 2, 3].map((i) => {
    ask(`new-${i}`)
    return store.size
  })
  expect(sizes).toEqual([99, 98, 97])
  for (let i = 4; i <= 200; i++) ask(`new-${i}`)
  expect(store.size).toBe(200)
})

test('MemoryStore remembers a bounded number of callers, and drops those first who were charged longest ago', () => {
  const { store, ask, left } = subject()
  for (let i = 0; i < MAX_KEYS; i++) ask(`caller-${i}`)
  expect(store.size).toBe(MAX_KEYS)
  // Charged again, the first is now the last in line; a look or a refusal does not move the second.
  ask('caller-0')
  left('caller-1')
  ask('caller-1', { cost: 2 })

  ask('new-1')
  expect(store.size).toBe(MAX_KEYS)
  expect(['caller-0', 'caller-1', 'caller-2', 'new-1'].map((key) => left(key))).toEqual([0, 2, 1, 1])
  ask('new-2')
  expect(store.size).toBe(MAX_KEYS)
  expect(['caller-0', 'caller-2', 'caller-3', 'new-1'].map((key) => left(key))).toEqual([0, 2, 1, 1])
})

test('MemoryStore drops a bucket that is full again by a refund, as Redis does, even if the clock steps back', async () => {
  const { clock, store, ask, left } = subject()
  const bucket: Partial<StoreCharge> = { algorithm: 'token-bucket', limits: [{ limit: 1, windowMs: 1 }] }
  const { nowMs } = ask('a', bucket)
  const charge = { key: 'a', cost: 1, mode: 'enforce', reserved: 0, ...bucket } as StoreCharge
  await store.settle([{ charge, units: -1 }], nowMs)
  clock.now -= 1
  expect(left('a', bucket)).toBe(1)
})
