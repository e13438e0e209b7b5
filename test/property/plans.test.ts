/** A caller that changes its plan: what was used stays, and the new limits hold for all of it. */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { StoreCharge } from '../../src/core/model/charge.ts'
import type { Limit } from '../../src/core/model/limits.ts'
import { forwardUs, LONG, START_MS } from '../support/arbitraries.ts'
import { createCharge, EXACT_ALGORITHMS, take } from '../support/charges.ts'
import { TIMED_STORES, type Trial } from '../support/timed-stores.ts'

const NUM_RUNS = 40

const windows = fc.uniqueArray(fc.integer({ min: 1, max: 3_000 }), { minLength: 1, maxLength: 3 })
const limits = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 3, maxLength: 3 })
/** Limits of three plans over the same windows. */
const plans = fc
  .tuple(windows, fc.array(limits, { minLength: 3, maxLength: 3 }))
  .map(([windows, plans]) => plans.map((plan) => windows.map((windowMs, at) => ({ limit: plan[at] ?? 1, windowMs }))))
const actions = fc.array(
  fc.record({ gapUs: forwardUs, plan: fc.integer({ min: 0, max: 2 }), cost: fc.integer({ min: 1, max: 5 }) }),
  LONG,
)

interface Admitted {
  readonly atUs: number
  readonly cost: number
}

interface Step {
  /** By which it was admitted. */
  readonly limits: readonly Limit[]
  readonly nowUs: number
  /** All that were, this one included. */
  readonly admitted: readonly Admitted[]
}

async function play(
  { open, expectProperty }: Trial,
  algorithm: StoreCharge['algorithm'],
  findLimits: (limits: readonly Limit[]) => readonly Limit[],
  onAdmission: (step: Step) => void,
) {
  await expectProperty(
    fc.asyncProperty(plans, actions, async (plans, actions) => {
      const store = open()
      const { key } = createCharge(algorithm, [])
      const admitted: Admitted[] = []
      let nowUs = START_MS * 1000
      for (const { gapUs, plan, cost } of actions) {
        nowUs += gapUs
        const limits = findLimits(plans[plan] ?? [])
        const charge = { ...createCharge(algorithm, limits), key, cost }
        if ((await store.decide(take([charge]), nowUs)).granted === 0) continue
        admitted.push({ atUs: nowUs, cost })
        onAdmission({ limits, nowUs, admitted })
      }
    }),
    NUM_RUNS,
  )
}

function usedSince(admitted: readonly Admitted[], sinceUs: number): number {
  return admitted.filter(({ atUs }) => atUs > sinceUs).reduce((sum, { cost }) => sum + cost, 0)
}

describe.each(TIMED_STORES)('%s', (_name, trial) => {
  describe.each(EXACT_ALGORITHMS)('%s', (algorithm) => {
    test('whoever is admitted by a plan has used no more than that plan allows, by whatever plans', async () => {
      await play(
        trial,
        algorithm,
        (limits) => limits,
        ({ limits, nowUs, admitted }) => {
          for (const { limit, windowMs } of limits) {
            expect(usedSince(admitted, nowUs - windowMs * 1000)).toBeLessThanOrEqual(limit)
          }
        },
      )
    })
  })

  test('fixed-window: what any plan has admitted in the window of the clock counts for the new plan', async () => {
    await play(
      trial,
      'fixed-window',
      (limits) => limits,
      ({ limits, nowUs, admitted }) => {
        const nowMs = Math.floor(nowUs / 1000)
        for (const { limit, windowMs } of limits) {
          const startUs = (nowMs - (nowMs % windowMs)) * 1000
          expect(usedSince(admitted, startUs - 1)).toBeLessThanOrEqual(limit)
        }
      },
    )
  })

  test('quota: what any plan has admitted since the first use counts for the new plan', async () => {
    let starts = new Map<number, number>()
    await play(
      trial,
      'quota',
      (limits) => limits,
      ({ limits, nowUs, admitted }) => {
        if (admitted.length === 1) starts = new Map()
        const nowMs = Math.floor(nowUs / 1000)
        for (const { limit, windowMs } of limits) {
          const start = starts.get(windowMs)
          if (start === undefined || start + windowMs <= nowMs) starts.set(windowMs, nowMs)
          const startUs = (starts.get(windowMs) ?? 0) * 1000
          expect(usedSince(admitted, startUs - 1)).toBeLessThanOrEqual(limit)
        }
      },
    )
  })

  test('token-bucket: after a change, the new plan admits one bucket of its own and what that refills, at most', async () => {
    let stay: { plan: Limit | undefined; sinceUs: number } | undefined
    await play(
      trial,
      'token-bucket',
      ([limit]) => (limit ? [limit] : []),
      ({ limits, nowUs, admitted }) => {
        const [plan] = limits
        const { limit, windowMs } = plan ?? { limit: 0, windowMs: 1 }
        if (admitted.length === 1 || !stay || stay.plan !== plan) stay = { plan, sinceUs: nowUs }
        const refilled = ((nowUs - stay.sinceUs) * limit) / (windowMs * 1000)
        expect(usedSince(admitted, stay.sinceUs - 1)).toBeLessThanOrEqual(limit + refilled)
      },
    )
  })

  test('concurrency: slots that are held count for the new plan', async () => {
    await play(
      trial,
      'concurrency',
      ([limit]) => (limit ? [limit] : []),
      ({ limits, nowUs, admitted }) => {
        const [{ limit, windowMs } = { limit: 0, windowMs: 1 }] = limits
        expect(usedSince(admitted, nowUs - (windowMs - 1) * 1000)).toBeLessThanOrEqual(limit)
      },
    )
  })
})
