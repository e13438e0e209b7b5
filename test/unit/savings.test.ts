import { expect, test } from 'vitest'
import { Decider } from '../../src/engine/decider.ts'
import { type LeaseSize, leasesOf } from '../../src/engine/leases.ts'
import { StoreError } from '../../src/model/store.ts'
import { MeasuredStore } from '../../src/statistics/measured-store.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { callContext } from '../support/call-context.ts'
import { ruleOf } from '../support/rules.ts'

function subject(leases: LeaseSize | undefined) {
  const clock = { now: 1_700_000_000_000 }
  const now = () => clock.now
  const told = { answered: 0, failed: 0 }
  const watch = { storeAnswered: () => told.answered++, storeFailed: () => told.failed++ }
  const store = new MemoryStore(now)
  const decider = new Decider({
    ...{ store: new MeasuredStore(store, watch, now), fallback: new MemoryStore(now), now, log: () => {} },
    ...{ timeoutMs: 500, createLeases: leasesOf(leases, now), localShare: 1 },
  })
  return { clock, told, store, decider }
}

test('Decider#savings tells refusals that were known already, and MeasuredStore the calls', async () => {
  const { decider, told } = subject(undefined)
  const charges = [{ rule: ruleOf('sliding-window', [{ limit: 1, windowMs: 60_000 }]), onStoreError: 'local' as const }]
  for (let i = 0; i < 5; i++) await decider.decide(charges, callContext())
  expect(told).toEqual({ answered: 2, failed: 0 })
  expect(decider.savings).toEqual({ byDenyCache: 3, byLeases: 0, permitsLeased: 0 })
})

test('Decider#savings tells permits taken in advance, and those that were spent', async () => {
  const { decider, told, clock } = subject('auto')
  const rule = ruleOf('sliding-window', [{ limit: 10_000, windowMs: 10_000 }])
  const background: Promise<unknown>[] = []
  const context = callContext(background)
  for (let i = 0; i < 400; i++) {
    await decider.decide([{ rule, onStoreError: 'local' }], context)
    await Promise.all(background.splice(0))
    clock.now += 5
  }
  const { byDenyCache, byLeases, permitsLeased } = decider.savings
  expect(byDenyCache).toBe(0)
  expect(byLeases).toBeGreaterThan(200)
  expect(permitsLeased).toBeGreaterThanOrEqual(byLeases)
  // Whoever spent no permit has asked.
  expect(400 - byLeases).toBeLessThanOrEqual(told.answered)
})

test('MeasuredStore tells what the store did not answer', async () => {
  const { decider, told, store } = subject(undefined)
  store.decide = async () => {
    throw new StoreError('away')
  }
  const rule = ruleOf('sliding-window', [{ limit: 1, windowMs: 60_000 }])
  expect((await decider.decide([{ rule, onStoreError: 'open' }], callContext())).degraded).toBe('open')
  expect(told).toEqual({ answered: 0, failed: 1 })
})
