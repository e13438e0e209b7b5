import fc from 'fast-check'
import { describe, expect, inject, test } from 'vitest'
import { ALGORITHMS } from '../../src/core/algorithms/algorithm-table.ts'
import { findLongestMs } from '../../src/core/algorithms/sliding-window.ts'
import type { StoreCharge } from '../../src/core/model/charge.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import {
  addPenalties,
  aloneAndMixed,
  anyConfigured,
  anyCounts,
  anyDemands,
  anyPenalties,
  type Configured,
  counting,
  demanded,
  forwardUs,
  LONG,
  START_MS,
  satisfiable,
} from '../support/arbitraries.ts'
import { createCharge, EVERY_ALGORITHM, retryAfterMs, take } from '../support/charges.ts'
import { connectRedis } from '../support/redis-client.ts'
import { ScriptStore } from '../support/script-store.ts'
import { REDIS, TIMED_STORES } from '../support/timed-stores.ts'

const SUBJECTS = aloneAndMixed(EVERY_ALGORITHM, anyConfigured)
const NUM_RUNS = 40

const redis = await connectRedis(inject('redisPort'))
redis.unref()

describe.each(TIMED_STORES)('%s', (_name, { open, gapUs, configured, expectProperty }) => {
  describe.each(SUBJECTS)('%s', (_name, anyRules) => {
    const charges = anyRules.map(configured)

    test('it and its implementation in TypeScript agree on every step', async () => {
      const action = fc.record({
        gapUs,
        action: fc.constantFrom('take', 'take', 'take-up-to', 'peek', 'record'),
        permits: fc.integer({ min: 1, max: 5 }),
        leaseMs: fc.constantFrom(0, 0, 0, 40),
        demands: anyDemands,
        counts: anyCounts,
        penalties: fc.option(anyPenalties, { nil: undefined, freq: 3 }),
      })
      await expectProperty(
        fc.asyncProperty(charges, anyPenalties, fc.array(action, LONG), async (charges, usualPenalties, actions) => {
          let nowUs = START_MS * 1000
          const store = open()
          const implementation = new MemoryStore(() => nowUs / 1000)
          for (const { gapUs, action, permits, leaseMs, demands, counts, penalties = usualPenalties } of actions) {
            nowUs += gapUs
            const requested = addPenalties(counting(demanded(charges, demands), counts), penalties)
            const request = take(requested, { action, permits, leaseMs })
            expect(await store.decide(request, nowUs)).toEqual(await implementation.decide(request))
          }
        }),
        NUM_RUNS,
      )
    })

    test('the retry time is the least that works', async () => {
      const action = fc.record({ gapUs, demands: anyDemands })
      await expectProperty(
        fc.asyncProperty(charges, anyPenalties, fc.array(action, LONG), async (charges, penalties, actions) => {
          const store = open()
          let nowUs = START_MS * 1000
          for (const { gapUs, demands } of actions) {
            nowUs += gapUs
            const request = take(addPenalties(demanded(charges, demands).map(satisfiable), penalties))
            const decision = await store.decide(request, nowUs)
            const retryUs = retryAfterMs(decision) * 1000
            expect(retryUs > 0).toBe(decision.granted === 0)
            if (decision.granted > 0) continue
            expect((await store.peek(request, nowUs + retryUs)).granted).toBe(1)
            expect((await store.peek(request, nowUs + retryUs - 1000)).granted).toBe(0)
          }
        }),
        NUM_RUNS,
      )
    })

    test('the reset time is the least after which more is left, also where more is used than the limit', async () => {
      const action = fc.record({ gapUs, demands: anyDemands })
      await expectProperty(
        fc.asyncProperty(charges, fc.array(action, LONG), async (charges, actions) => {
          const store = open()
          let nowUs = START_MS * 1000
          for (const { gapUs, demands } of actions) {
            nowUs += gapUs
            const request = take(demanded(charges, demands))
            const peek = async (atUs: number) => (await store.peek(request, atUs)).usage
            const usage = await peek(nowUs)
            for (const [charge, limits] of usage.entries()) {
              for (const [at, { remaining, resetMs }] of limits.entries()) {
                const most = request.charges[charge]?.burst ?? request.charges[charge]?.limits[at]?.limit ?? 0
                if (remaining === most) continue
                const resetUs = nowUs + resetMs * 1000
                expect((await peek(resetUs))[charge]?.[at]?.remaining).toBeGreaterThan(remaining)
                expect((await peek(resetUs - 1000))[charge]?.[at]?.remaining).toBe(remaining)
              }
            }
            // What is recorded is charged even if it does not fit.
            await store.decide({ ...request, action: 'record' }, nowUs)
          }
        }),
        NUM_RUNS,
      )
    })

    test('a refusal changes nothing, without a penalty', async () => {
      const action = fc.record({ gapUs, demands: anyDemands, counts: anyCounts })
      await expectProperty(
        fc.asyncProperty(charges, fc.array(action, LONG), async (charges, actions) => {
          const store = open()
          const changeable = charges.map(({ before }) => before)
          let nowUs = START_MS * 1000
          for (const { gapUs, demands, counts } of actions) {
            nowUs += gapUs
            const request = take(counting(demanded(charges, demands), counts))
            // What expires at this moment has nothing to do with the refusal.
            const { granted } = await store.decide({ ...request, action: 'peek' }, nowUs)
            const before = granted === 0 && (await store.kept(changeable, nowUs))
            expect((await store.decide(request, nowUs)).granted).toBe(granted)
            if (before) expect(await store.kept(changeable, nowUs)).toEqual(before)
          }
        }),
        NUM_RUNS,
      )
    })

    test('a partial grant is the least of what the charges have left', async () => {
      const action = fc.record({ gapUs: forwardUs, permits: fc.integer({ min: 1, max: 50 }), demands: anyDemands })
      await expectProperty(
        fc.asyncProperty(charges, fc.array(action, LONG), async (charges, actions) => {
          const store = open()
          let nowUs = START_MS * 1000
          for (const { gapUs, permits, demands } of actions) {
            nowUs += gapUs
            const request = take(demanded(charges, demands), { action: 'take-up-to', permits })
            const { usage } = await store.decide({ ...request, action: 'peek' }, nowUs)
            const fitting = request.charges.map(({ cost, reserved, mode }, index) => {
              const left = Math.min(...(usage[index] ?? []).map(({ remaining }) => remaining))
              return mode === 'enforce' ? Math.max(0, Math.floor((left - reserved) / cost)) : permits
            })
            expect((await store.decide(request, nowUs)).granted).toBe(Math.min(permits, ...fitting))
          }
        }),
        NUM_RUNS / 2,
      )
    })
  })

  describe.each(EVERY_ALGORITHM)('%s', (name) => {
    test('both implementations agree on what a shorter window has dropped while it was busy', async () => {
      const wide = createCharge(name, [{ limit: 300, windowMs: 1_000 }])
      const narrow = { ...wide, limits: [{ limit: 300, windowMs: 10 }] }
      let nowUs = START_MS * 1000
      const store = open()
      const implementation = new MemoryStore(() => nowUs / 1000)
      for (const [afterMs, charge, cost] of [
        [0, wide, 100],
        [5, wide, 70],
        [12, narrow, 1],
        [13, wide, 1],
      ] as const) {
        nowUs = (START_MS + afterMs) * 1000
        const request = take([{ ...charge, cost }])
        expect(await store.decide(request, nowUs)).toEqual(await implementation.decide(request))
      }
    })

    test('a key lives until it says what a missing one does, whatever clocks, limits and leases did', async () => {
      const action = fc.record({
        gapUs,
        leaseMs: fc.constantFrom(0, 0, 0, 40, 1_500),
        demands: anyDemands,
      })
      await expectProperty(
        fc.asyncProperty(anyConfigured(name), fc.array(action, LONG), async (configured, actions) => {
          const store = open()
          let nowUs = START_MS * 1000
          for (const { gapUs, leaseMs, demands } of actions) {
            nowUs += gapUs
            const [charge] = demanded([configured], demands).map(satisfiable) as [StoreCharge]
            const { granted } = await store.decide(take([charge], { leaseMs }), nowUs)
            if (granted === 0) continue
            const missing = { ...charge, key: `${charge.key}:missing` }
            const endUs = store.expiresAtMs(charge.key) * 1000
            expect(await store.peek(take([charge]), endUs)).toEqual(await store.peek(take([missing]), endUs))
          }
        }),
        NUM_RUNS / 2,
      )
    })

    test('after each admission the TTL fits the windows', async () => {
      const action = fc.record({ gapUs: forwardUs, demands: anyDemands })
      await expectProperty(
        fc.asyncProperty(anyConfigured(name), fc.array(action, LONG), async (configured, actions) => {
          const store = open()
          let nowUs = START_MS * 1000
          for (const { gapUs, demands } of actions) {
            nowUs += gapUs
            const [charge] = demanded([configured], demands) as [StoreCharge]
            const { granted, nowMs } = await store.decide(take([{ ...charge, mode: 'enforce' }]), nowUs)
            if (granted === 0) continue
            const ttlMs = store.expiresAtMs(charge.key) - nowMs
            const [least, most] = lifetimeBoundsMs(charge, configured)
            expect(ttlMs).toBeGreaterThanOrEqual(least)
            expect(ttlMs).toBeLessThanOrEqual(most)
          }
        }),
        NUM_RUNS,
      )
    })
  })
})

/** Of a key's time to live after an admission. */
function lifetimeBoundsMs(charge: StoreCharge, { before, after }: Configured): [least: number, most: number] {
  const longestMs = findLongestMs(charge)
  switch (charge.algorithm) {
    case 'sliding-window':
      return [longestMs, Math.ceil((2 * longestMs) / 1000) * 1000 + 1_000]
    case 'sorted-set':
      return [longestMs, longestMs + 1_000]
    case 'concurrency':
      // Slots of the configuration before are held until their deadlines.
      return [longestMs, 2 * Math.max(findLongestMs(before), findLongestMs(after))]
    case 'fixed-window':
    case 'quota':
      // Windows of the configuration before are kept until they end.
      return [longestMs, Math.max(longestMs, findLongestMs(before), findLongestMs(after))]
    case 'token-bucket': {
      const { limit = 1, windowMs = 0 } = charge.limits[0] ?? {}
      return [1, Math.ceil(((charge.burst ?? limit) * windowMs) / limit) + 1]
    }
  }
}

const SETTLEABLE = EVERY_ALGORITHM.filter((name) => ALGORITHMS[name].implementation.settle)

describe.each(SETTLEABLE)('%s', (name) => {
  test('its script and its implementation in TypeScript agree on what is settled, whenever that is', async () => {
    const action = fc.record({
      gapUs: fc.oneof(REDIS.gapUs, fc.integer({ min: 0, max: 20_000_000 })),
      demands: anyDemands,
      // Which of the last charges is settled, and by how much.
      back: fc.integer({ min: 1, max: 4 }),
      units: fc.integer({ min: -30, max: 60 }).filter((units) => units !== 0),
    })
    let settled = 0
    await REDIS.expectProperty(
      fc.asyncProperty(anyConfigured(name), fc.array(action, LONG), async (configured, actions) => {
        const store = new ScriptStore(redis)
        let nowUs = START_MS * 1000
        const implementation = new MemoryStore(() => nowUs / 1000)
        const charged: { readonly charge: StoreCharge; readonly atMs: number }[] = []
        for (const { gapUs, demands, back, units } of actions) {
          nowUs += gapUs
          const [charge] = demanded([configured], demands) as [StoreCharge]
          const request = take([charge])
          const decision = await store.decide(request, nowUs)
          expect(decision).toEqual(await implementation.decide(request))
          if (decision.granted > 0) charged.push({ charge, atMs: decision.nowMs })
          const chosen = charged.at(-back)
          if (!chosen) continue
          settled++
          const differences = [{ charge: chosen.charge, units: Math.max(units, -chosen.charge.cost) }]
          await store.settle(differences, chosen.atMs, nowUs)
          await implementation.settle(differences, chosen.atMs)
          const look = take([charge], { action: 'peek' })
          expect(await store.decide(look, nowUs)).toEqual(await implementation.decide(look))
        }
      }),
      2 * NUM_RUNS,
    )
    expect(settled).toBeGreaterThan(100)
  })
})
