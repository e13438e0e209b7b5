/** A caller that changes its plan: what was used stays, and the new limits hold for all of it, in the library too. */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { StoreCharge } from '../../src/core/model/charge.ts'
import { ALGORITHM_NAMES, type Limit } from '../../src/core/model/limits.ts'
import { createLimiter, type Limiter, memoryStore } from '../../src/index.ts'
import { forwardUs, LONG, START_MS } from '../support/arbitraries.ts'
import { createCharge, EXACT_ALGORITHMS, take } from '../support/charges.ts'
import { expectProperty } from '../support/property.ts'
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

const steps = fc.array(
  fc.record({
    gapMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 2_000 })),
    plan: fc.constantFrom(undefined, 'pro', 'trial'),
    way: fc.constantFrom('take', 'take', 'takeUpTo', 'peek', 'refund'),
    cost: fc.constantFrom(1, 2),
  }),
  LONG,
)
const formatLimits = (limits: readonly Limit[]) => limits.map((one) => `${one.limit + 1}/${one.windowMs}ms`).join()

describe('createLimiter()', () => {
  const ALGORITHMS = ALGORITHM_NAMES.filter((algorithm) => algorithm !== 'concurrency')

  test.each(ALGORITHMS)('%s: a call of a plan is answered as if there were no other plan', async (algorithm) => {
    const isBucket = algorithm === 'token-bucket'
    await expectProperty(
      fc.asyncProperty(plans, steps, async (plans, steps) => {
        const clock = { now: START_MS }
        const now = () => clock.now
        const [base = '', pro = '', trial = ''] = plans.map((limits) =>
          formatLimits(isBucket ? limits.slice(0, 1) : limits),
        )
        const limited = { name: 'calls', algorithm, limits: base }
        const limiter = createLimiter({ now, policies: [{ ...limited, plans: { pro, trial } }] })
        // Limiters over one store share the counts of a name.
        const store = memoryStore({ now })
        const alone = { pro, trial, '': base }
        const open = (plan: keyof typeof alone) =>
          createLimiter({ now, store, policies: [{ ...limited, limits: alone[plan] }] })
        const others = { pro: open('pro'), trial: open('trial'), '': open('') }
        const ask = async (one: Limiter, { way, cost }: (typeof steps)[number], plan?: string) => {
          if (way === 'takeUpTo') return one.takeUpTo('alice', 3, { cost, plan })
          if (way === 'peek') return one.peek('alice', { cost, plan })
          return one.take('alice', { cost, ...(plan && { plan }) })
        }
        let last: (() => Promise<void>)[] = []
        for (const step of steps) {
          clock.now += step.gapMs
          // Windows of a log refuse it.
          if (step.way === 'refund') for (const refund of last) await refund().catch(() => {})
          const other = others[step.plan ?? '']
          const [decision, expected] = [await ask(limiter, step, step.plan), await ask(other, step)]
          last = [() => limiter.refund('alice', decision), () => other.refund('alice', expected)]
          expect(decision).toEqual({ ...expected, ...(step.plan && { plan: step.plan }) })
        }
      }),
      NUM_RUNS,
    )
  })

  test('with leases, whoever is granted by a plan has used no more than that plan allows', async () => {
    await expectProperty(
      fc.asyncProperty(plans, steps, async (plans, steps) => {
        const clock = { now: START_MS }
        const [base = '', pro = '', trial = ''] = plans.map(formatLimits)
        const limiter = createLimiter({ now: () => clock.now, limits: base, plans: { pro, trial }, leases: 'auto' })
        const admitted: Admitted[] = []
        for (const { gapMs, plan, cost } of steps) {
          clock.now += gapMs
          if (!(await limiter.take('alice', { cost, plan })).granted) continue
          admitted.push({ atUs: clock.now * 1000, cost })
          const limits = plans[plan === undefined ? 0 : plan === 'pro' ? 1 : 2] ?? []
          for (const { limit, windowMs } of limits) {
            expect(usedSince(admitted, (clock.now - windowMs) * 1000)).toBeLessThanOrEqual(limit + 1)
          }
        }
      }),
      NUM_RUNS,
    )
  })
})
