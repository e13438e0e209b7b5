import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type ConcurrencyState, concurrency, releaseSlot } from '../../src/core/algorithms/concurrency.ts'
import { findMinRemaining } from '../../src/core/algorithms/decide.ts'
import type { StoreCharge } from '../../src/core/model/charge.ts'
import { LONG, START_MS } from '../support/arbitraries.ts'
import { createCharge, take } from '../support/charges.ts'
import { TIMED_STORES } from '../support/timed-stores.ts'

const anyLimit = fc.record({ limit: fc.integer({ min: 1, max: 12 }), windowMs: fc.integer({ min: 1, max: 3_000 }) })
const anyAction = {
  cost: fc.integer({ min: 1, max: 5 }),
  afterwards: fc.constantFrom('nothing', 'nothing', 'release', 'renew'),
  /** Of those that were admitted. */
  oneOf: fc.nat(),
}

describe.each(TIMED_STORES)('%s', (_name, { open, gapUs, expectProperty }) => {
  test('never more than the limit are held, each until it is released or its deadline has passed', async () => {
    await expectProperty(
      fc.asyncProperty(anyLimit, fc.array(fc.record({ gapUs, ...anyAction }), LONG), async (each, actions) => {
        const { limit, windowMs } = each
        const charge = createCharge('concurrency', [each])
        const store = open()
        let state: ConcurrencyState | undefined
        const admitted: StoreCharge[] = []
        let nowUs = START_MS * 1000
        for (const { gapUs, cost, afterwards, oneOf } of actions) {
          nowUs += gapUs
          const nowMs = Math.floor(nowUs / 1000)
          if (store.expiresAtMs(charge.key) < nowMs) state = undefined
          const request = take([{ ...charge, cost }])
          const [own] = request.charges as [StoreCharge]
          const { usage } = concurrency.peek(state, charge, nowUs, cost)
          const granted = findMinRemaining(usage) >= cost ? 1 : 0
          const usageAfter = usage.map((each) => ({ ...each, remaining: each.remaining - granted * cost }))
          expect(await store.decide(request, nowUs)).toEqual({ granted, nowMs, usage: [usageAfter] })
          if (granted > 0) {
            state = concurrency.commit(state, own, nowUs, cost).state
            expect(state.expiresAtMs).toBe(store.expiresAtMs(charge.key))
            admitted.push(own)
          }
          const units = [...(await store.heldUnits(charge, nowUs)).values()]
          expect(units.reduce((sum, units) => sum + units, 0)).toBeLessThanOrEqual(limit)

          const held = admitted[oneOf % admitted.length]
          if (!held || !state) continue
          if (afterwards === 'release') {
            await store.revoke([{ charge: held, isKnown: true }], nowUs)
            releaseSlot(state, held.slot ?? 0)
          } else if (afterwards === 'renew') {
            await store.renew([held], nowUs)
            concurrency.slots?.renew(state, held.slot ?? 0, nowMs, windowMs)
          }
        }
      }),
      100,
    )
  })

  test('a key outlasts every deadline, whatever clocks and windows did', async () => {
    const anyWindowMs = fc.oneof(fc.integer({ min: 1, max: 3_000 }), fc.integer({ min: 1, max: 600_000 }))
    const anyTaking = fc.record({ gapMs: fc.integer({ min: -100_000, max: 200_000 }), windowMs: anyWindowMs })
    await expectProperty(
      fc.asyncProperty(fc.array(anyTaking, LONG), async (takings) => {
        const limit = 1_000
        const { key } = createCharge('concurrency', [{ limit, windowMs: 1 }])
        const store = open()
        let nowMs = START_MS
        let latestMs = 0
        for (const { gapMs, windowMs } of takings) {
          nowMs += gapMs
          if (store.expiresAtMs(key) < nowMs) latestMs = 0
          await store.decide(take([createCharge('concurrency', [{ limit, windowMs }], { key })]), nowMs * 1000)
          latestMs = Math.max(latestMs, nowMs + windowMs)
          expect(store.expiresAtMs(key)).toBeGreaterThanOrEqual(latestMs)
        }
      }),
      50,
    )
  })
})
