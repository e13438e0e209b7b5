import { expect, test, vi } from 'vitest'
import { DecisionWatch } from '../../src/core/engine/decision-watch.ts'
import { Engine } from '../../src/core/engine/engine.ts'
import { type LeaseSize, withLeases } from '../../src/core/engine/leases/with-leases.ts'
import { scaleToLocalShare } from '../../src/core/engine/local-share.ts'
import type { StageWatch } from '../../src/core/engine/stages/stage.ts'
import type { DecisionRequest, StoreCharge } from '../../src/core/model/charge.ts'
import type { OnStoreError } from '../../src/core/model/policy.ts'
import { StoreError } from '../../src/core/model/store.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { callContext } from '../support/call-context.ts'
import { createCharge, withPolicy } from '../support/charges.ts'

function subject(leases: LeaseSize | undefined) {
  const clock = { now: 1_700_000_000_000 }
  const now = () => clock.now
  const store = new MemoryStore(now)
  const decide = vi.spyOn(store, 'decide')
  const avoided = { refusalCache: 0, leases: 0, permits: 0 }
  const watch: StageWatch = {
    onAvoided: (by) => avoided[by]++,
    onLeased(permits) {
      avoided.permits += permits
    },
  }
  const decider = new Engine({
    ...{ store, now, log: () => {} },
    ...{ storeTimeoutMs: 500, localShare: 1 },
    // Statistics see the same with a function for decisions as without.
    watch: new DecisionWatch({ isRemote: true }, watch),
    leases: leases === undefined ? undefined : withLeases(leases),
  })
  return { clock, decide, decider, avoided }
}

test('Engine counts refusals that were known already', async () => {
  const { decider, decide, avoided } = subject(undefined)
  const charges = [withPolicy(createCharge('sliding-window', [{ limit: 1, windowMs: 60_000 }]))]
  for (let i = 0; i < 5; i++) await decider.decide(charges, callContext())
  expect(decide).toHaveBeenCalledTimes(2)
  expect(avoided).toEqual({ refusalCache: 3, leases: 0, permits: 0 })
})

test('Engine counts permits taken in advance, and those that were used', async () => {
  const { decider, decide, clock, avoided } = subject('auto')
  const charge = createCharge('sliding-window', [{ limit: 10_000, windowMs: 10_000 }])
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
  // Whoever spent no permit has made a call.
  expect(400 - avoided.leases).toBeLessThanOrEqual(decide.mock.calls.length)
})

function scaleCharge(charge: Partial<StoreCharge>, share: number): unknown {
  const limits = [
    { limit: 10, windowMs: 1_000 },
    { limit: 1_000, windowMs: 60_000 },
  ]
  const { limits: local, burst, reserved } = scaleToLocalShare(createCharge('sliding-window', limits, charge), share)
  return { limits: local.map(({ limit }) => limit), burst, reserved }
}

test.each([
  ['all of it', {}, 1, { limits: [10, 1_000], burst: undefined, reserved: 0 }],
  ['a part, rounded down', {}, 0.25, { limits: [2, 250], burst: undefined, reserved: 0 }],
  ['room for one request', { cost: 4 }, 0.1, { limits: [4, 100], burst: undefined, reserved: 0 }],
  ['a part of the burst', { burst: 50 }, 0.5, { limits: [5, 500], burst: 25, reserved: 0 }],
  ['a part of what is reserved', { reserved: 8 }, 0.5, { limits: [5, 500], burst: undefined, reserved: 4 }],
  ['room besides what is reserved', { reserved: 9 }, 0.89, { limits: [9, 890], burst: undefined, reserved: 8 }],
])('scaleToLocalShare() allows %s', (_name, charge, share, expected) => {
  expect(scaleCharge(charge, share)).toEqual(expected)
})

test('Engine refuses without the store unless a fallback admits, also for one that it does not know', async () => {
  const { decider, decide } = subject(undefined)
  decide.mockRejectedValue(new StoreError('down'))
  const charge = withPolicy(createCharge('sliding-window', [{ limit: 1, windowMs: 60_000 }]))
  const decideAs = (onStoreError: string) =>
    decider.decide(
      [{ ...charge, policy: { ...charge.policy, onStoreError: onStoreError as OnStoreError } }],
      callContext(),
    )
  expect(await decideAs('open')).toMatchObject({ granted: 1, degraded: 'open' })
  expect(await decideAs('closed')).toMatchObject({ granted: 0, degraded: 'closed' })
  expect(await decideAs('later')).toMatchObject({ granted: 0, degraded: 'closed' })
})

test('MemoryStore charges nothing for an action that it does not know', async () => {
  const store = new MemoryStore(() => 1_700_000_000_000)
  const charges = [createCharge('sliding-window', [{ limit: 1, windowMs: 60_000 }])]
  const request = { action: 'borrow' as DecisionRequest['action'], permits: 1, charges }
  await expect((async () => store.decide(request))()).rejects.toThrow()
  expect(await store.decide({ action: 'take', permits: 1, charges })).toMatchObject({ granted: 1 })
})
