import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { findLongestMs } from '../../src/core/algorithms/sliding-window.ts'
import type { StoreCharge } from '../../src/core/model/charge.ts'
import type { PenaltySettings } from '../../src/core/model/limits.ts'
import type { PolicyMode } from '../../src/core/model/policy.ts'
import {
  addPenalties,
  aloneAndMixed,
  anyConfigured,
  anyCost,
  type Configured,
  forwardUs,
  LONG,
  MOST_RULES,
  START_MS,
  satisfiable,
} from '../support/arbitraries.ts'
import { createCharge, EVERY_ALGORITHM, take } from '../support/charges.ts'
import { TIMED_STORES } from '../support/timed-stores.ts'

const WITHOUT_SLOTS = EVERY_ALGORITHM.filter((name) => name !== 'concurrency')
const SUBJECTS = aloneAndMixed(WITHOUT_SLOTS, anyConfigured)
const NUM_RUNS = 24

const anyPenalty: fc.Arbitrary<PenaltySettings> = fc.record({
  durationMs: fc.oneof(fc.integer({ min: 1, max: 50 }), fc.integer({ min: 1, max: 6_000 })),
  after: fc.constantFrom(1, 1, 2, 3, 7),
})
const anyPenalties = fc.array(anyPenalty, { minLength: MOST_RULES, maxLength: MOST_RULES })

/** What a request asks of each charge. */
interface Ask {
  readonly cost: number
  readonly reserved: number
  readonly mode: PolicyMode
}
const anyRequests: fc.Arbitrary<Ask[]> = fc.array(
  fc.record({
    // Often all that there is, so that many are refused.
    cost: fc.oneof(anyCost, fc.constant(200)),
    reserved: fc.oneof(fc.constant(0), fc.constant(0), fc.integer({ min: 0, max: 20 })),
    mode: fc.integer({ min: 0, max: 4 }).map((die) => (die > 0 ? ('enforce' as const) : ('shadow' as const))),
  }),
  { minLength: MOST_RULES, maxLength: MOST_RULES },
)

function requested(charges: readonly Configured[], requests: readonly Ask[]): StoreCharge[] {
  return charges.map(({ before }, index) => {
    const { mode, ...units } = requests[index] as Ask
    return { ...satisfiable({ ...before, ...units }), mode }
  })
}

/** In which a bucket is filled, at the rate of its one limit. */
function bucketMs({ limits: [limit], burst = 0 }: StoreCharge): number {
  return limit ? (burst * limit.windowMs) / limit.limit : 0
}

/** What the words of docs/policies.md say, told from the answers of limits alone. */
class Model {
  readonly #charges = new Map<string, { refusals: number; untilMs: number }>()

  /** Milliseconds of the penalty after a request that it refuses by its limits or not. */
  see({ key, penalty, mode, ...charge }: StoreCharge, refuses: boolean, nowMs: number): number {
    if (mode === 'shadow' || !penalty) return 0
    let known = this.#charges.get(key)
    if (known && known.untilMs <= nowMs) known = undefined
    if (known?.refusals === 0) return known.untilMs - nowMs
    if (!refuses) return 0
    const refusals = (known?.refusals ?? 0) + 1
    if (refusals < penalty.after) {
      const untilMs = known?.untilMs ?? nowMs + findLongestMs(charge)
      this.#charges.set(key, { refusals, untilMs })
      return 0
    }
    this.#charges.set(key, { refusals: 0, untilMs: nowMs + penalty.durationMs })
    return penalty.durationMs
  }
}

let penalized = 0

describe.each(TIMED_STORES)('%s', (_name, { open, gapUs, expectProperty }) => {
  test.each(WITHOUT_SLOTS)(
    'refusals of %s count for a longest window, and lead to a penalty, to the ms',
    async (algorithm) => {
      const store = open()
      const penalty = { durationMs: 5, after: 2 }
      // It never fits.
      const charge = createCharge(algorithm, [{ limit: 1, windowMs: 1 }], { cost: 2, penalty })
      const refuse = async (atMs: number) => {
        return (await store.decide(take([charge]), (START_MS + atMs) * 1000)).usage[0]?.[0]?.penaltyMs
      }
      expect([await refuse(0), await refuse(1), await refuse(1)]).toEqual([undefined, undefined, 5])
      expect([await refuse(5), await refuse(6), await refuse(6)]).toEqual([1, undefined, 5])
    },
  )

  describe.each(SUBJECTS)('%s', (_name, charges) => {
    test('who was refused as often as said is refused for as long as said, by the charges that refused, and no longer', async () => {
      const action = fc.record({
        gapUs: forwardUs,
        requests: anyRequests,
        action: fc.constantFrom('take', 'take', 'take-up-to'),
      })
      await expectProperty(
        fc.asyncProperty(charges, anyPenalties, fc.array(action, LONG), async (configured, penalties, actions) => {
          const store = open()
          const model = new Model()
          let nowUs = START_MS * 1000
          for (const { gapUs, requests, action } of actions) {
            nowUs += gapUs
            const nowMs = Math.floor(nowUs / 1000)
            const bare = requested(configured, requests)
            const own = addPenalties(bare, penalties)
            const fits = await Promise.all(
              bare.map(async (charge) => {
                const lone = { ...charge, reserved: 0, mode: 'enforce' } as const
                return (await store.peek(take([lone]), nowUs)).granted > 0
              }),
            )
            const { granted: byLimits, usage: withoutPenalties } = await store.peek(take(bare), nowUs)
            const expected = own.map((charge, index) => model.see(charge, !fits[index], nowMs))
            const decision = await store.decide(take(own, { action }), nowUs)
            const reported = decision.usage.map((limits) => limits[0]?.penaltyMs ?? 0)
            expect(reported).toEqual(expected)
            expect(decision.granted).toBe(expected.some((ms) => ms > 0) ? 0 : byLimits)
            penalized += expected.filter((ms) => ms > 0).length
            if (decision.granted > 0) continue
            const stands = withoutPenalties.map((limits, index) =>
              limits.map((limit) => {
                const penaltyMs = reported[index] as number
                return penaltyMs === 0
                  ? limit
                  : { ...limit, retryAfterMs: Math.max(limit.retryAfterMs, penaltyMs), penaltyMs }
              }),
            )
            expect(decision.usage).toEqual(stands)
          }
        }),
        NUM_RUNS,
      )
    })

    test('a refusal changes nothing but what its charges with a penalty remember, and only until that ends', async () => {
      const action = fc.record({
        gapUs,
        requests: anyRequests,
        hasPenalty: fc.array(fc.boolean(), { minLength: MOST_RULES, maxLength: MOST_RULES }),
      })
      await expectProperty(
        fc.asyncProperty(charges, anyPenalties, fc.array(action, LONG), async (configured, penalties, actions) => {
          const store = open()
          let nowUs = START_MS * 1000
          let latestUs = nowUs
          for (const { gapUs, requests, hasPenalty } of actions) {
            nowUs += gapUs
            latestUs = Math.max(latestUs, nowUs)
            const bare = requested(configured, requests)
            const own = addPenalties(bare, penalties).map((charge, index) =>
              hasPenalty[index] ? charge : (bare[index] as StoreCharge),
            )
            const request = take(own)
            const { granted, usage } = await store.decide({ ...request, action: 'peek' }, nowUs)
            const before = await Promise.all(bare.map((charge) => store.kept([charge], nowUs)))
            const stood = await store.peek(take(bare), nowUs)
            const decision = await store.decide(request, nowUs)
            expect(decision.granted).toBe(granted)
            if (granted > 0) continue
            // How the limits stand, without penalties.
            expect(await store.peek(take(bare), nowUs)).toEqual(stood)
            for (const [index, charge] of own.entries()) {
              const isRefusing = usage[index]?.some(({ retryAfterMs, penaltyMs }) => retryAfterMs > 0 && !penaltyMs)
              if (!charge.penalty || charge.mode === 'shadow' || !isRefusing) {
                expect(await store.kept([bare[index] as StoreCharge], nowUs)).toEqual(before[index])
              } else {
                const ttlMs = store.expiresAtMs(charge.key) - decision.nowMs
                const steppedBackMs = (latestUs - nowUs) / 1000
                const mostMs = Math.max(charge.penalty.durationMs, 2 * findLongestMs(charge), bucketMs(charge))
                expect(ttlMs).toBeLessThanOrEqual(steppedBackMs + mostMs + 2_000)
                expect(ttlMs).toBeGreaterThanOrEqual(decision.usage[index]?.[0]?.penaltyMs ?? 0)
              }
            }
          }
        }),
        NUM_RUNS,
      )
    })
  })
})

test('the laws were tried on callers with a penalty', () => {
  expect(penalized).toBeGreaterThan(50)
})
