/** What stores of several places do with their clocks and circuits; test/property/cluster has the laws of their decisions. */
import { expect, test } from 'vitest'
import { withHashSlots } from '../../src/core/engine/places/hash-slots.ts'
import { withShards } from '../../src/core/engine/places/shards.ts'
import type { StoreCharge } from '../../src/core/model/charge.ts'
import { StoreError } from '../../src/core/model/store.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { createCharge, remainingIn, storeWith, take } from '../support/charges.ts'

test('withHashSlots() settles each charge at the time of its own node, whatever the clocks of others show', async () => {
  const first = createCharge('quota', [{ limit: 9, windowMs: 10_000 }])
  const second = createCharge('quota', [{ limit: 9, windowMs: 10_000 }])
  let elapsedMs = 0
  const nodes = {
    [first.key]: new MemoryStore(() => elapsedMs),
    [second.key]: new MemoryStore(() => 60_000 + elapsedMs),
  }
  const findNode = (key = '') => nodes[key] as MemoryStore
  const store = storeWith({
    decide: async (request) => findNode(request.charges[0]?.key).decide(request),
    settle: async (differences, atMs) => findNode(differences[0]?.charge.key).settle(differences, atMs),
  })
  const slots = withHashSlots(store, { timeoutMs: 1_000, isCluster: true })
  const { nowMs } = await slots.decide(take([first, second]))
  expect(nowMs).toBe(60_000)
  // At the first node a window has begun since, in which nothing is to be given back.
  elapsedMs = 15_000
  await slots.decide(take([first, second]))
  await slots.settle(
    [first, second].map((charge) => ({ charge, units: -1 })),
    nowMs,
  )
  const left = await slots.decide(take([first, second], { action: 'peek' }))
  expect(remainingIn(left)).toEqual([8, 8])
})

test('withHashSlots() stops to call a node that keeps failing, and only that', async () => {
  const charges = Array.from({ length: 12 }, () => createCharge('quota', [{ limit: 9, windowMs: 10_000 }]))
  const slots = new Map<string, number>()
  const memory = new MemoryStore(() => 0)
  const calls = { low: 0, high: 0 }
  let last = 0
  const findName = (slot: number) => (slot < 8_192 ? 'low' : 'high')
  const store = storeWith({
    async decide(request) {
      const name = findName(last)
      calls[name]++
      if (name === 'low') throw new StoreError('the connection was lost')
      return memory.decide(request)
    },
  })
  const findNode = (slot: number) => {
    last = slot
    return findName(slot)
  }
  const cluster = withHashSlots(store, { timeoutMs: 1_000, isCluster: true, findNode, now: () => 0, log() {} })
  for (const charge of [...charges, ...charges, ...charges]) {
    const decided = cluster.decide(take([charge])).then(
      ({ granted }) => granted,
      ({ message }) => message,
    )
    slots.set(charge.key, last)
    expect(await decided).toEqual(
      findName(last) === 'low' ? expect.stringMatching(/^low: (the connection was lost$|circuit breaker open)/) : 1,
    )
  }
  const low = [...slots.values()].filter((slot) => findName(slot) === 'low').length
  expect(calls.high).toBe(3 * (charges.length - low))
  expect(calls.low).toBe(Math.min(5, 3 * low))
  // The slot of the specification's example.
  await cluster.decide(take([{ ...(charges[0] as StoreCharge), key: 'test:{123456789}' }])).catch(() => {})
  expect(last).toBe(0x31c3)
})

test('withShards() settles what moves at the time of either database', async () => {
  const charge = createCharge('quota', [{ limit: 9, windowMs: 10_000 }])
  const clocks = { a: 0, b: 25_000 }
  const stores = { a: new MemoryStore(() => clocks.a), b: new MemoryStore(() => clocks.b) }
  const store = withShards(
    [
      { name: 'a', state: 'leaving', store: stores.a },
      { name: 'b', state: 'joining', store: stores.b },
    ],
    { timeoutMs: 1_000 },
  )
  const { nowMs } = await store.decide(take([{ ...charge, cost: 4 }]))
  await store.settle([{ charge, units: -3 }], nowMs)
  for (const each of [store, stores.a, stores.b]) {
    expect(remainingIn(await each.decide(take([charge], { action: 'peek' })))).toEqual([8])
  }
})

test('withShards() asks where an identity was counted before if it is new, while it moves', async () => {
  const known = createCharge('sliding-window', [{ limit: 9, windowMs: 10_000 }])
  const digest = known.key.slice(known.key.lastIndexOf('{'))
  const news = createCharge('quota', [{ limit: 3, windowMs: 10_000 }], {
    key: `test:news:${digest}`,
    counts: 'new-identities',
  })
  const other = { ...news, key: 'test:news:{of all}' }
  const [a, b] = [new MemoryStore(() => 0), new MemoryStore(() => 0)]
  const before = withShards([{ name: 'a', store: a }], { timeoutMs: 1_000 })
  expect((await before.decide(take([known]))).granted).toBe(1)
  const store = withShards(
    [
      { name: 'a', state: 'leaving', store: a },
      { name: 'b', state: 'joining', store: b },
    ],
    { timeoutMs: 1_000 },
  )
  for (const charge of [news, other]) {
    expect((await store.decide(take([known, charge]))).granted).toBe(1)
    for (const place of [a, b]) {
      const { counts: _, ...plain } = charge
      expect(remainingIn(await place.decide(take([plain], { action: 'peek' })))).toEqual([3])
    }
  }
})
