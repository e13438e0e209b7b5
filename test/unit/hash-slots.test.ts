/** What `withHashSlots()` does with the clocks of several nodes; test/property/cluster has the laws of its decisions. */
import { expect, test } from 'vitest'
import { withHashSlots } from '../../src/core/engine/stages/hash-slots.ts'
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
