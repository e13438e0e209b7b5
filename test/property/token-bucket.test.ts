import fc from 'fast-check'
import { describe, expect, inject, test } from 'vitest'
import { findMinRemaining } from '../../src/core/algorithms/decide.ts'
import { type TokenBucketState, tokenBucket } from '../../src/core/algorithms/token-bucket.ts'
import type { StoreCharge } from '../../src/core/model/charge.ts'
import { seededRandom } from '../../tools/seeded-random.ts'
import { anyCharge, anyCost, backAndForthUs, forwardUs, LONG, START_MS } from '../support/arbitraries.ts'
import { createCharge, findCapacity, take } from '../support/charges.ts'
import type { ScriptStore } from '../support/script-store.ts'
import { REDIS, TIMED_STORES } from '../support/timed-stores.ts'

/** A bucket of real numbers: what it holds is counted in exact parts of a unit, `windowUs` of them to one. */
class IdealBucket {
  readonly #limit: bigint
  readonly #windowUs: bigint
  readonly #capacity: bigint
  #parts: bigint
  #atUs: bigint

  constructor(charge: StoreCharge, nowUs: number) {
    const { limit = 1, windowMs = 1 } = charge.limits[0] ?? {}
    this.#limit = BigInt(limit)
    this.#windowUs = BigInt(windowMs) * 1000n
    this.#capacity = BigInt(findCapacity(charge)) * this.#windowUs
    this.#parts = this.#capacity
    this.#atUs = BigInt(nowUs)
  }

  /** Whole units in it; what is left over is less than one, which one refill interval brings. */
  unitsAt(nowUs: number): number {
    const refilled = this.#parts + (BigInt(nowUs) - this.#atUs) * this.#limit
    this.#parts = refilled < this.#capacity ? refilled : this.#capacity
    this.#atUs = BigInt(nowUs)
    return Number(this.#parts / this.#windowUs)
  }

  take(units: number): void {
    this.#parts -= BigInt(units) * this.#windowUs
  }
}

const RATES: readonly StoreCharge[] = [
  createCharge('token-bucket', [{ limit: 7, windowMs: 1_000 }], { burst: 7 }),
  createCharge('token-bucket', [{ limit: 997, windowMs: 60_000 }], { burst: 1_009 }),
  createCharge('token-bucket', [{ limit: 3, windowMs: 86_400_000 }], { burst: 50 }),
  createCharge('token-bucket', [{ limit: 1_000_003, windowMs: 1_000 }], { burst: 1_500_007 }),
  // Close to the largest product of burst and window that is allowed, 2^52.
  createCharge('token-bucket', [{ limit: 997, windowMs: 30 * 86_400_000 }], { burst: 1_737 }),
]

/** A million in the long form. The first tells already of a unit that is rounded, and each further one of what adds up. */
const STEPS = inject('fuzz').isLong ? 1_000_000 : 50_000

test(`the bucket holds the whole units of an ideal one, after ${STEPS} random steps`, () => {
  for (const [seed, charge] of RATES.entries()) {
    const { limit = 1, windowMs = 1 } = charge.limits[0] ?? {}
    const random = seededRandom(seed)
    const burst = findCapacity(charge)
    let nowUs = START_MS * 1000
    let state: TokenBucketState | undefined
    const ideal = new IdealBucket(charge, nowUs)
    let apart = 0
    for (let i = 0; i < STEPS; i++) {
      const mostUnits = random() < 0.9 ? 3 : burst
      const units = 1 + Math.floor(random() * mostUnits)
      // A little less time than the units need, so that the bucket runs low, but never stays empty.
      nowUs += Math.floor(random() * ((3 * windowMs * 1000) / limit))
      const available = findMinRemaining(tokenBucket.peek(state, charge, nowUs, units).usage)
      if (available !== ideal.unitsAt(nowUs)) apart++
      if (available < units) continue
      ideal.take(units)
      state = tokenBucket.commit(state, charge, nowUs, units).state
    }
    expect(apart).toBe(0)
  }
})

describe.each(TIMED_STORES)('%s', (_name, { open, expectProperty }) => {
  const step = (gapUs: fc.Arbitrary<number>) => fc.array(fc.record({ gapUs, cost: anyCost }), LONG)

  test('a store holds the whole units of an ideal bucket at every step', async () => {
    await expectProperty(
      fc.asyncProperty(anyCharge('token-bucket'), step(forwardUs), async (charge, steps) => {
        const script = open()
        let nowUs = START_MS * 1000
        const ideal = new IdealBucket(charge, nowUs)
        for (const { gapUs, cost } of steps) {
          nowUs += gapUs
          const units = ideal.unitsAt(nowUs)
          const { granted, usage } = await script.decide(take([{ ...charge, cost }]), nowUs)
          expect(granted).toBe(units >= cost ? 1 : 0)
          expect(usage[0]?.[0]?.remaining).toBe(units - granted * cost)
          ideal.take(granted * cost)
        }
      }),
      60,
    )
  })

  test('no span of time admits more than the burst and what is refilled in it, also if the clock steps back', async () => {
    await expectProperty(
      fc.asyncProperty(anyCharge('token-bucket'), step(backAndForthUs), async (charge, steps) => {
        const { limit = 1, windowMs = 1 } = charge.limits[0] ?? {}
        const script = open()
        const admitted: { us: number; cost: number }[] = []
        let nowUs = START_MS * 1000
        let elapsedUs = 0
        for (const { gapUs, cost } of steps) {
          nowUs += gapUs
          // A step back is the clock's alone: no time goes by.
          elapsedUs += Math.max(gapUs, 0)
          const { granted } = await script.decide(take([{ ...charge, cost }]), nowUs)
          if (granted > 0) admitted.push({ us: elapsedUs, cost })
        }
        for (const [index, first] of admitted.entries()) {
          let units = 0
          for (const { us, cost } of admitted.slice(index)) {
            units += cost
            const spared = (units - findCapacity(charge)) * windowMs * 1000
            expect(spared).toBeLessThanOrEqual((us - first.us) * limit)
          }
        }
      }),
      60,
    )
  })

  test('a bucket says to the ms when units are there: the first after the µs that the rate brings them', async () => {
    const ceilDivide = (dividend: bigint, divisor: bigint) => Number((dividend + divisor - 1n) / divisor)
    const [startUs, windowUs] = [START_MS * 1000, 1_000_000]
    for (let spent = 1; spent <= 20; spent++) {
      const store = open()
      // A unit in a seventh of a second: 142,857 1/7 µs.
      const charge = createCharge('token-bucket', [{ limit: 7, windowMs: 1_000 }], { burst: 20 })
      await store.decide(take([{ ...charge, cost: spent }]), startUs)
      // In sevenths of a µs.
      const fullAt = 7n * BigInt(startUs) + BigInt(spent * windowUs)
      for (let elapsedUs = 0; elapsedUs < spent * 140_000; elapsedUs += 85_859) {
        const nowUs = startUs + elapsedUs
        const lack = ceilDivide(fullAt - 7n * BigInt(nowUs), BigInt(windowUs))
        const freedUs = ceilDivide(fullAt - BigInt((lack - 1) * windowUs), 7n)
        const waitMs = Math.ceil((freedUs - nowUs) / 1000)
        const { usage } = await store.decide(take([{ ...charge, cost: 21 - lack }], { action: 'peek' }), nowUs)
        const isTooMuch = lack === 0
        expect(usage[0]?.[0]).toEqual({
          remaining: 20 - lack,
          resetMs: waitMs,
          retryAfterMs: isTooMuch ? 1_000 : waitMs,
        })
      }
    }
  })

  test('a bucket lives to the first ms at which it is full', async () => {
    for (const [limit, elapsedUs, livesMs] of [
      [1_000, 0, 1],
      [1_000, 1, 2],
      // Full a seventh of a µs after a whole ms.
      [7, 143, 144],
      [7, 142, 143],
    ] as const) {
      const store = open()
      const charge = createCharge('token-bucket', [{ limit, windowMs: 1_000 }])
      await store.decide(take([charge]), START_MS * 1000 + elapsedUs)
      expect(store.expiresAtMs(charge.key)).toBe(START_MS + livesMs)
    }
  })

  test('a raised rate is felt within one unit of the old one, a lowered one gives nothing away', async () => {
    const script = open()
    const slow = createCharge('token-bucket', [{ limit: 1, windowMs: 1_000 }], { burst: 10 })
    const fast = { ...slow, limits: [{ limit: 1_000, windowMs: 1_000 }] }
    let nowUs = START_MS * 1000
    await script.decide(take([{ ...slow, cost: 10 }]), nowUs)

    const [[limit] = []] = (await script.decide(take([fast]), nowUs)).usage
    expect(limit).toEqual({ remaining: 0, resetMs: 1_000, retryAfterMs: 1_000 })
    nowUs += 1_000_000
    expect((await script.decide(take([fast]), nowUs)).granted).toBe(1)
    expect((await script.decide(take([fast], { action: 'peek' }), nowUs)).usage[0]?.[0]?.retryAfterMs).toBe(1)

    nowUs += 5_500
    const left = (await script.decide(take([fast], { action: 'peek' }), nowUs)).usage[0]?.[0]?.remaining
    expect(left).toBe(5)
    await script.decide(take([{ ...slow, cost: 1 }]), nowUs)
    const after = (await script.decide(take([slow], { action: 'peek' }), nowUs)).usage[0]?.[0]
    expect(after).toEqual({ remaining: 4, resetMs: 1_000, retryAfterMs: 0 })
  })
})

test('a script forgets a bucket to which all is given back, and charges later what has not been refilled since', async () => {
  const store = REDIS.open() as ScriptStore
  const charge = createCharge('token-bucket', [{ limit: 1_000, windowMs: 1_000 }])
  const startUs = START_MS * 1000
  await store.decide(take([charge]), startUs)
  await store.settle([{ charge, units: -1 }], START_MS, startUs)
  // It is charged from the end of the ms on: 2 units, 2 ms.
  for (const [nowUs, remaining] of [
    [startUs + 3_000, 1_000],
    [startUs + 2_999, 999],
  ] as const) {
    await store.settle([{ charge, units: 1 }], START_MS, nowUs)
    const { usage } = await store.decide(take([charge], { action: 'peek' }), nowUs)
    expect(usage[0]?.[0]?.remaining).toBe(remaining)
  }
})
