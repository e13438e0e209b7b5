import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { findLongestMs } from '../../src/core/algorithms/sliding-window.ts'
import type { StoreCharge } from '../../src/core/model/charge.ts'
import { anyCharge, anyCost, backAndForthUs, forwardUs, LONG, START_MS } from '../support/arbitraries.ts'
import { createCharge, EXACT_ALGORITHMS, take } from '../support/charges.ts'
import { TIMED_STORES, type TimedStore } from '../support/timed-stores.ts'
import { type Admission, expectNoWindowOver } from '../support/windows.ts'

interface Step {
  readonly gapUs: number
  readonly cost: number
  readonly leaseMs?: number
}

/** Requests to one script, and what of them was admitted. */
class Traffic {
  readonly #script: TimedStore
  #nowUs = START_MS * 1000
  #elapsedUs = START_MS * 1000

  constructor(script: TimedStore) {
    this.#script = script
  }

  /**
   * Admissions and when they were made, with fractions of a millisecond, by a clock of its own on which a step back of
   * Redis's clock takes no time.
   */
  async send(charge: StoreCharge, steps: readonly Step[]): Promise<Admission[]> {
    const admitted: Admission[] = []
    for (const { gapUs, cost, leaseMs = 0 } of steps) {
      this.#nowUs += gapUs
      this.#elapsedUs += Math.max(gapUs, 0)
      const { granted } = await this.#script.decide(take([{ ...charge, cost }], { leaseMs }), this.#nowUs)
      if (granted > 0) admitted.push({ ms: this.#elapsedUs / 1000, cost })
    }
    return admitted
  }
}

function findSteps(gapUs: fc.Arbitrary<number>): fc.Arbitrary<Step[]> {
  return fc.array(fc.record({ gapUs, cost: anyCost }), LONG)
}

const backAndForth = findSteps(backAndForthUs)
/** Steps of whole milliseconds: with parts of them, the clock that these laws go by and Redis's would round apart. */
const wholeMsBackAndForth = findSteps(backAndForthUs.map((us) => Math.trunc(us / 1000) * 1000))
const forward = findSteps(forwardUs)
const leasing = fc.array(
  fc.record({ gapUs: backAndForthUs, cost: anyCost, leaseMs: fc.constantFrom(0, 0, 0, 40, 1_500) }),
  LONG,
)

/** Two configurations of one key, of which the second has no longer windows than the first. */
function anyShortened(name: (typeof EXACT_ALGORITHMS)[number]): fc.Arbitrary<[StoreCharge, StoreCharge]> {
  return fc.tuple(anyCharge(name), anyCharge(name)).map(([one, other]) => {
    const [before, after] = findLongestMs(one) >= findLongestMs(other) ? [one, other] : [other, one]
    return [before, { ...after, key: before.key }]
  })
}

describe.each(TIMED_STORES)('%s', (_name, { open, expectProperty }) => {
  const admittedBy = (charge: StoreCharge, steps: readonly Step[]) => new Traffic(open()).send(charge, steps)
  const wholeMsAdmittedBy = async (charge: StoreCharge, steps: readonly Step[]) =>
    (await admittedBy(charge, steps)).map(({ ms, cost }) => ({ ms: Math.floor(ms), cost }))

  describe.each(EXACT_ALGORITHMS)('%s', (name) => {
    test('no true window ever admits more than its limit, to the microsecond', async () => {
      await expectProperty(
        fc.asyncProperty(anyCharge(name), forward, async (charge, steps) => {
          const admitted = await admittedBy(charge, steps)
          for (const { limit, windowMs } of charge.limits) expectNoWindowOver(limit, windowMs, admitted)
        }),
        60,
      )
    })

    test('a clock that steps back makes it stricter, never looser', async () => {
      await expectProperty(
        fc.asyncProperty(anyCharge(name), backAndForth, async (charge, steps) => {
          const admitted = await admittedBy(charge, steps)
          for (const { limit, windowMs } of charge.limits) expectNoWindowOver(limit, windowMs, admitted)
        }),
        60,
      )
    })

    test('changed limits hold from their first decision, whatever clocks and leases did', async () => {
      await expectProperty(
        fc.asyncProperty(anyShortened(name), leasing, leasing, async ([before, after], earlier, later) => {
          const traffic = new Traffic(open())
          const old = await traffic.send(before, earlier)
          const admitted = await traffic.send(after, later)
          for (const { limit, windowMs } of after.limits) {
            for (const { ms } of admitted) {
              const inWindow = [...old, ...admitted].filter((one) => one.ms > ms - windowMs && one.ms <= ms)
              expect(inWindow.reduce((sum, { cost }) => sum + cost, 0)).toBeLessThanOrEqual(limit)
            }
          }
        }),
        60,
      )
    })

    test('limits over longer windows than before hold among what they admit, whatever clocks and leases did', async () => {
      await expectProperty(
        fc.asyncProperty(anyShortened(name), leasing, leasing, async ([after, before], earlier, later) => {
          const traffic = new Traffic(open())
          await traffic.send({ ...before, key: after.key }, earlier)
          const admitted = await traffic.send(after, later)
          for (const { limit, windowMs } of after.limits) expectNoWindowOver(limit, windowMs, admitted)
        }),
        60,
      )
    })

    test('limits hold in whatever order they are named', async () => {
      const limits = [
        { limit: 3, windowMs: 10_000 },
        { limit: 100, windowMs: 100 },
      ]
      for (const named of [limits, limits.toReversed()]) {
        const charge = createCharge(name, named)
        const script = open()
        const granted: number[] = []
        for (const ms of [0, 1_000, 2_000, 2_050]) {
          granted.push((await script.decide(take([charge]), (START_MS + ms) * 1000)).granted)
        }
        expect(granted).toEqual([1, 1, 1, 0])
      }
    })

    test('a unit leaves its window when it is that old to the microsecond, or within the millisecond after', async () => {
      const charge = createCharge(name, [{ limit: 10, windowMs: 1_000 }])
      const script = open()
      const startUs = START_MS * 1000
      const grantedAt = async (us: number, cost: number) =>
        (await script.decide(take([{ ...charge, cost }]), us)).granted
      expect(await grantedAt(startUs + 999, 5)).toBe(1)
      expect(await grantedAt(startUs + 2_000, 5)).toBe(1)
      expect(await grantedAt(startUs + 1_000_000, 1)).toBe(0)
      expect(await grantedAt(startUs + 1_000_999, 1)).toBe(0)
      expect(await grantedAt(startUs + 1_001_000, 5)).toBe(1)
      // Of a unit dated by a whole millisecond, to the very microsecond.
      expect(await grantedAt(startUs + 1_001_999, 1)).toBe(0)
      expect(await grantedAt(startUs + 1_002_000, 5)).toBe(1)
    })
  })

  test('sliding-window: permits leased under long windows are counted by the short ones that follow', async () => {
    const script = open()
    const before = createCharge('sliding-window', [{ limit: 1_000, windowMs: 60_000 }])
    const after = { ...before, limits: [{ limit: 100, windowMs: 300 }] }
    const startUs = START_MS * 1000
    await script.decide(take([before], { permits: 10, leaseMs: 6_000 }), startUs)
    expect((await script.decide(take([after], { permits: 90 }), startUs + 100_000)).granted).toBe(90)
    for (const us of [1_100_000, 2_200_000, 6_299_000]) {
      expect((await script.decide(take([after]), startUs + us)).granted).toBe(0)
    }
    expect((await script.decide(take([after]), startUs + 6_300_000)).granted).toBe(1)
  })

  test.each(EXACT_ALGORITHMS)('%s: a window lengthened while the clock is 20 s back drops nothing', async (name) => {
    const script = open()
    const before = createCharge(name, [{ limit: 10, windowMs: 2_000 }])
    const after = { ...before, limits: [{ limit: 10, windowMs: 3_000 }] }
    const startUs = START_MS * 1000
    const backUs = startUs - 20_000_000
    await script.decide(take([before], { permits: 2 }), startUs)
    expect((await script.decide(take([after]), backUs)).granted).toBe(1)
    expect((await script.decide(take([after], { permits: 7 }), backUs + 5_900_000)).granted).toBe(7)
    for (const us of [6_100_000, 12_000_000, 22_999_000]) {
      expect((await script.decide(take([after]), backUs + us)).granted).toBe(0)
    }
    expect((await script.decide(take([after]), backUs + 23_000_000)).granted).toBe(1)
  })

  test('fixed-window: no window of the clock admits more than its limit', async () => {
    await expectProperty(
      fc.asyncProperty(anyCharge('fixed-window'), forward, async (charge, steps) => {
        const admitted = await wholeMsAdmittedBy(charge, steps)
        for (const { limit, windowMs } of charge.limits) {
          const windows = Map.groupBy(admitted, ({ ms }) => Math.floor(ms / windowMs))
          for (const inWindow of windows.values()) {
            expect(inWindow.reduce((sum, { cost }) => sum + cost, 0)).toBeLessThanOrEqual(limit)
          }
        }
      }),
      60,
    )
  })

  test('quota: no window that began at its first use admits more than its limit', async () => {
    await expectProperty(
      fc.asyncProperty(anyCharge('quota'), forward, async (charge, steps) => {
        const admitted = await wholeMsAdmittedBy(charge, steps)
        for (const { limit, windowMs } of charge.limits) {
          let endMs = Number.NEGATIVE_INFINITY
          let used = 0
          for (const { ms, cost } of admitted) {
            if (ms >= endMs) {
              endMs = ms + windowMs
              used = 0
            }
            used += cost
            expect(used).toBeLessThanOrEqual(limit)
          }
        }
      }),
      60,
    )
  })

  test.each(['fixed-window', 'quota'] as const)(
    '%s: no true window admits more than twice its limit, also if the clock steps back',
    async (name) => {
      await expectProperty(
        fc.asyncProperty(anyCharge(name), wholeMsBackAndForth, async (charge, steps) => {
          const admitted = await admittedBy(charge, steps)
          for (const { limit, windowMs } of charge.limits) expectNoWindowOver(2 * limit, windowMs, admitted)
        }),
        60,
      )
    },
  )

  test('fixed-window admits twice its limit across a boundary, where sliding-window does not', async () => {
    const limits = [{ limit: 10, windowMs: 60_000 }]
    const boundaryUs = Math.ceil(START_MS / 60_000) * 60_000 * 1000
    // Twenty requests in the last 10 ms of one minute, and twenty in the first 10 ms of the next.
    const timesUs = Array.from({ length: 40 }, (_, index) => boundaryUs + (index - 20) * 500)
    const admitted = async (charge: StoreCharge) => {
      const script = open()
      const grants: number[] = []
      for (const nowUs of timesUs) grants.push((await script.decide(take([charge]), nowUs)).granted)
      return [grants.slice(0, 20), grants.slice(20)].map((half) => half.reduce((sum, granted) => sum + granted, 0))
    }
    expect(await admitted(createCharge('fixed-window', limits))).toEqual([10, 10])
    expect(await admitted(createCharge('sliding-window', limits))).toEqual([10, 0])
  })

  test('fixed-window: a clock that steps back over a boundary finds the window before it as it was', async () => {
    const script = open()
    const charge = createCharge('fixed-window', [{ limit: 1, windowMs: 60_000 }])
    const boundaryUs = Math.ceil(START_MS / 60_000) * 60_000 * 1000
    expect((await script.decide(take([charge]), boundaryUs - 1_000)).granted).toBe(1)
    expect((await script.decide(take([charge], { action: 'peek' }), boundaryUs)).granted).toBe(1)
    expect((await script.decide(take([charge]), boundaryUs - 1_000)).granted).toBe(0)
  })
})
