import { expect, test, vi } from 'vitest'
import { Engine } from '../../src/core/engine/engine.ts'
import { type LeaseSize, withLeases } from '../../src/core/engine/stages/leases.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { callContext } from '../support/call-context.ts'
import { chargeOf, withPolicy } from '../support/charges.ts'

function subject(leases: LeaseSize | undefined) {
  const clock = { now: 1_700_000_000_000 }
  const now = () => clock.now
  const store = new MemoryStore(now)
  const asked = vi.spyOn(store, 'decide')
  const avoided = { refusalCache: 0, leases: 0, permits: 0 }
  const decider = new Engine({
    ...{ store, now, log: () => {} },
    ...{ storeTimeoutMs: 500, localShare: 1 },
    watch: {
      onAvoided: (by) => avoided[by]++,
      onLeased(permits) {
        avoided.permits += permits
      },
    },
    leases: leases === undefined ? undefined : withLeases(leases),
  })
  return { clock, asked, decider, avoided }
}

test('Engine counts refusals that were known already', async () => {
  const { decider, asked, avoided } = subject(undefined)
  const charges = [withPolicy(chargeOf('sliding-window', [{ limit: 1, windowMs: 60_000 }]))]
  for (let i = 0; i < 5; i++) await decider.decide(charges, callContext())
  expect(asked).toHaveBeenCalledTimes(2)
  expect(avoided).toEqual({ refusalCache: 3, leases: 0, permits: 0 })
})

test('Engine counts permits taken in advance, and those that were spent', async () => {
  const { decider, asked, clock, avoided } = subject('auto')
  const charge = chargeOf('sliding-window', [{ limit: 10_000, windowMs: 10_000 }])
  const background: Promise<unknown>[] = []
  const context = callContext(background)
  for (let i = 0; i < 400; i++) {
    await decider.decide([withPolicy(charge)], context)
    await Promise.all(background.splice(0))
    clock.now += 5
  }
  expect(avoided.refusalCache).toBe(0)
  expect(avoided.leases).toBeGreaterThan(200)
  expect(avoided.permits).toBeGreaterThanOrEqual(avoided.leases)
  // Whoever spent no permit has asked.
  expect(400 - avoided.leases).toBeLessThanOrEqual(asked.mock.calls.length)
})
