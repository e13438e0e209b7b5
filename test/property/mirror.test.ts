import fc from 'fast-check'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { holdsSlots } from '../../src/core/algorithms/algorithm-table.ts'
import { findLongestMs } from '../../src/core/algorithms/sliding-window.ts'
import { type MirrorCount, withMirror } from '../../src/core/engine/stages/mirror.ts'
import type { Decision, DecisionRequest, StoreCharge } from '../../src/core/model/charge.ts'
import type { AlgorithmName } from '../../src/core/model/limits.ts'
import { type Store, StoreError } from '../../src/core/model/store.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import {
  addPenalties,
  anyCharge,
  anyCost,
  anyCounts,
  anyDemands,
  anyPenalties,
  anyPenalty,
  counting,
  demanded,
  forwardUs,
  LONG,
  MOST_RULES,
  START_MS,
} from '../support/arbitraries.ts'
import { callContext } from '../support/call-context.ts'
import { createCharge, EVERY_ALGORITHM, EXACT_ALGORITHMS, findCapacity, take } from '../support/charges.ts'
import { expectProperty } from '../support/property.ts'
import { OBJECTS, REDIS, type TimedStore } from '../support/timed-stores.ts'
import { type Admission, expectNoSpanOver, expectNoWindowOver } from '../support/windows.ts'

function createMirrorWatch() {
  const counts = { decisions: 0, refusedByMirrorOnly: 0, refusedByPrimaryOnly: 0, failures: 0 }
  return { counts, onMirrored: (what: MirrorCount) => counts[what]++ }
}

/** A store that decides at the time of the test. */
function createStore(timed: TimedStore, nowUs: () => number): Store {
  const decide = (request: DecisionRequest): Promise<Decision> => timed.decide(request, nowUs())
  return { kind: 'timed', decide } as Partial<Store> as Store
}

interface Step {
  readonly gapUs: number
  readonly cost: number
  readonly action: 'take' | 'take-up-to'
  readonly permits: number
  readonly leaseMs: number
  /** How late the shadow is charged for it. */
  readonly delayUs: number
}

const MOST_DELAY_US = 200_000

const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.record({
    gapUs: forwardUs,
    cost: anyCost,
    action: fc.constantFrom('take', 'take', 'take-up-to'),
    permits: fc.integer({ min: 1, max: 4 }),
    leaseMs: fc.constantFrom(0, 0, 0, 40),
    delayUs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: MOST_DELAY_US })),
  }),
  LONG,
)

/** Traffic, when the other store begins to be charged beside, and when it takes over: shares of the traffic. */
const move = fc.record({
  traffic: steps,
  begins: fc.double({ min: 0, max: 1, noNaN: true }),
  lasts: fc.double({ min: 0, max: 1, noNaN: true }),
  /** Of the new store's clock. */
  skewUs: fc.integer({ min: -1_500_000, max: 1_500_000 }),
})

/**
 * What both stores admit, the move included, by the time of the test. Whom the old one has given a penalty, the new one refuses
 * until then, and for no longer than it learned of that too late.
 */
async function admittedOver(
  charge: StoreCharge,
  [openOld, openNew]: readonly [() => TimedStore, () => TimedStore],
  { traffic, begins, lasts, skewUs }: typeof move extends fc.Arbitrary<infer Move> ? Move : never,
): Promise<Admission[]> {
  let nowUs = START_MS * 1000
  let delayUs = 0
  const old = createStore(openOld(), () => nowUs)
  const next = createStore(openNew(), () => nowUs + skewUs + delayUs)
  const now = () => nowUs / 1000
  const watch = createMirrorWatch()
  const alongside = withMirror(old, { mirror: next, now, timeoutMs: 60_000, watch, log: () => {} })
  const beginsAt = Math.floor(begins * traffic.length)
  const movesAt = beginsAt + Math.floor(lasts * (traffic.length - beginsAt))
  let begunUs = nowUs
  let latestUs = nowUs
  let penaltyUntilMs = 0
  const admitted: Admission[] = []
  for (const [index, { gapUs, cost, action, permits, leaseMs, delayUs: lateUs }] of traffic.entries()) {
    nowUs += gapUs
    if (index === beginsAt) begunUs = nowUs
    // All that was to be charged has been.
    if (index === movesAt) nowUs = Math.max(nowUs, latestUs, begunUs + Math.ceil(findDropMs(charge) * 1000))
    delayUs = index < movesAt ? lateUs : 0
    latestUs = Math.max(latestUs, nowUs + delayUs)
    const store = index < beginsAt ? old : index < movesAt ? alongside : next
    const background: Promise<unknown>[] = []
    const request = take([{ ...charge, cost }], {
      action,
      permits,
      ...(charge.algorithm === 'sliding-window' && { leaseMs }),
    })
    if (index === movesAt) {
      const { usage } = await next.decide({ ...request, action: 'peek' })
      const oldMs = Math.max(0, penaltyUntilMs - nowUs / 1000)
      expect(findPenaltyMs(usage)).toBeLessThanOrEqual(oldMs + MOST_DELAY_US / 1000 + 1)
    }
    const { granted, usage } = await store.decide(request, callContext(background))
    await Promise.all(background)
    // Clocks may differ by part of a millisecond.
    if (store === next && nowUs / 1000 < penaltyUntilMs - 1) expect(granted).toBe(0)
    if (store !== next) penaltyUntilMs = Math.max(penaltyUntilMs, nowUs / 1000 + findPenaltyMs(usage))
    if (granted > 0) admitted.push({ ms: nowUs / 1000, cost: granted * cost })
  }
  expect(watch.counts.failures).toBe(0)
  return admitted
}

function findPenaltyMs([limits]: Decision['usage']): number {
  return limits?.[0]?.penaltyMs ?? 0
}

/** After this, what was charged before the move began matters no more. */
function findDropMs(charge: StoreCharge): number {
  const longestMs = findLongestMs(charge)
  const fullMs = charge.burst === undefined ? longestMs : (longestMs * charge.burst) / (charge.limits[0]?.limit ?? 1)
  return Math.max(fullMs, charge.penalty?.durationMs ?? 0)
}

describe.each([
  ['from Redis to Durable Objects', [REDIS.open, OBJECTS.open]],
  ['from Durable Objects to Redis', [OBJECTS.open, REDIS.open]],
] as const)('a move %s', (_name, stores) => {
  test.each(EXACT_ALGORITHMS)('%s: no true window over the move admits more than its limit', async (name) => {
    await expectProperty(
      fc.asyncProperty(anyCharge(name), move, async (charge, moved) => {
        const admitted = await admittedOver(charge, stores, moved)
        for (const { limit, windowMs } of charge.limits) expectNoWindowOver(limit, windowMs, admitted)
      }),
      60,
    )
  })

  test('token-bucket: no span over the move admits more than the bucket holds and what refills meanwhile', async () => {
    await expectProperty(
      fc.asyncProperty(anyCharge('token-bucket'), move, async (charge, moved) => {
        const admitted = await admittedOver(charge, stores, moved)
        const { limit, windowMs } = charge.limits[0] as StoreCharge['limits'][number]
        expectNoSpanOver(findCapacity(charge), limit / windowMs, admitted)
      }),
      60,
    )
  })

  test.each(['fixed-window', 'quota'] as const)(
    '%s: no true window over the move admits more than three times its limit, as windows of two stores overlap',
    async (name) => {
      await expectProperty(
        fc.asyncProperty(anyCharge(name), move, async (charge, moved) => {
          const admitted = await admittedOver(charge, stores, moved)
          for (const { limit, windowMs } of charge.limits) expectNoWindowOver(3 * limit, windowMs, admitted)
        }),
        60,
      )
    },
  )

  test.each(EVERY_ALGORITHM.filter((algorithm) => !holdsSlots({ algorithm })))(
    '%s: a penalty goes on over the move',
    async (name) => {
      // Low limits and long penalties, so that a penalty is on at most moves.
      const penalized = fc.tuple(anyCharge(name), anyPenalty).map(([charge, { durationMs, after }]) => {
        const limits = charge.limits.map(({ limit, windowMs }) => ({ limit: Math.min(limit, 60), windowMs }))
        return { ...charge, limits, penalty: { durationMs: 1_000 + durationMs, after } }
      })
      await expectProperty(
        fc.asyncProperty(penalized, move, async (charge, moved) => {
          await admittedOver(charge, stores, moved)
        }),
        60,
      )
    },
  )
})

const MIXED: fc.Arbitrary<StoreCharge[]> = fc.array(
  fc.constantFrom<AlgorithmName>(...EVERY_ALGORITHM).chain(anyCharge),
  {
    minLength: 1,
    maxLength: MOST_RULES,
  },
)

test('what is charged alongside from the start stands as in the store, whatever is decided, settled and released', async () => {
  const action = fc.record({
    gapUs: forwardUs.map((us) => us - (us % 1000)),
    action: fc.constantFrom('take', 'take', 'take-up-to', 'peek', 'record'),
    permits: fc.integer({ min: 1, max: 5 }),
    demands: anyDemands,
    counts: anyCounts,
    afterwards: fc.constantFrom('nothing', 'settle', 'release', 'renew', 'delete'),
    units: fc.integer({ min: -5, max: 5 }),
  })
  await expectProperty(
    fc.asyncProperty(MIXED, anyPenalties, fc.array(action, LONG), async (mixed, penalties, actions) => {
      const charges = addPenalties(mixed, penalties)
      let nowMs = Math.ceil(START_MS)
      const [store, shadow] = [new MemoryStore(() => nowMs), new MemoryStore(() => nowMs)]
      const alongside = withMirror(store, { mirror: shadow, now: () => nowMs, timeoutMs: 60_000, log: () => {} })
      const configured = charges.map((charge) => ({ before: charge, after: charge }))
      for (const { gapUs, action, permits, demands, counts, afterwards, units } of actions) {
        nowMs += gapUs / 1000
        const requested = counting(demanded(configured, demands), counts).map((charge) => ({
          ...charge,
          // How much of a part such a charge was charged cannot be told.
          mode: action === 'take-up-to' ? 'enforce' : charge.mode,
          needsSettlement: true,
        }))
        const request = take(requested, { action, permits })
        const background: Promise<unknown>[] = []
        const decision = await alongside.decide(request, callContext(background))
        if (decision.granted > 0 && action !== 'peek') {
          const slots = request.charges.filter(({ slot }) => slot !== undefined)
          const charged = request.charges.filter(({ counts, algorithm }, index) => {
            const hasFitted = decision.usage[index]?.every(({ retryAfterMs }) => retryAfterMs === 0)
            return algorithm !== 'concurrency' && (action === 'record' || (counts !== 'failures' && hasFitted))
          })
          if (afterwards === 'release') await alongside.release(slots)
          if (afterwards === 'renew') await alongside.renew(slots)
          if (afterwards === 'delete') await alongside.delete(requested.map(({ key }) => key))
          if (afterwards === 'settle') {
            await alongside.settle(
              charged.map((charge) => ({ charge: charge, units })),
              decision.nowMs,
            )
          }
        }
        await Promise.all(background)
        for (const charge of charges) {
          const peek = take([charge], { action: 'peek' })
          expect(await shadow.decide(peek)).toEqual(await store.decide(peek))
        }
      }
      // As many more refusals lead to a penalty in both.
      for (let i = 0; i < 5; i++) {
        const refused = take(charges.map((charge) => ({ ...charge, cost: findCapacity(charge) + 1 })))
        expect(await shadow.decide(refused)).toEqual(await store.decide(refused))
      }
    }),
    60,
  )
})

const PLENTY = createCharge('quota', [{ limit: 1_000_000, windowMs: 3_600_000 }])

/** A shadow that keeps silent at times, and how many charges have reached it. */
function silentAt(isSilent: () => boolean, timeoutMs: number) {
  const memory = new MemoryStore(() => Date.now())
  const seen = { charges: 0 }
  const decide = async (request: DecisionRequest): Promise<Decision> => {
    if (request.action === 'record') seen.charges++
    if (!isSilent()) return memory.decide(request)
    await new Promise((resolve) => setTimeout(resolve, timeoutMs))
    throw new StoreError('no answer in time')
  }
  return { seen, store: { kind: 'silent', decide } as Partial<Store> as Store }
}

test('every charge is sent alongside, however often the shadow keeps silent for some seconds', async () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const traffic = fc.array(fc.integer({ min: 0, max: 40 }), { minLength: 50, maxLength: 300, size: 'max' })
  const silences = fc.array(fc.tuple(fc.integer({ min: 0, max: 5_000 }), fc.integer({ min: 1, max: 1_300 })), {
    minLength: 1,
    maxLength: 3,
  })
  await expectProperty(
    fc.asyncProperty(traffic, silences, async (gapsMs, silences) => {
      const startMs = Date.now()
      const isSilent = () =>
        silences.some(([from, lasts]) => Date.now() >= startMs + from && Date.now() < startMs + from + lasts)
      const { seen, store: shadow } = silentAt(isSilent, 100)
      const store = new MemoryStore(() => Date.now())
      const alongside = withMirror(store, { mirror: shadow, now: () => Date.now(), timeoutMs: 100, log: () => {} })
      const background: Promise<unknown>[] = []
      for (const gapMs of gapsMs) {
        await vi.advanceTimersByTimeAsync(gapMs)
        await alongside.decide(take([PLENTY]), callContext(background))
      }
      await vi.advanceTimersByTimeAsync(20_000)
      await Promise.all(background)
      expect(seen.charges).toBe(gapsMs.length)
    }),
    200,
  )
})

test('charges that cannot be sent for long are given up, and so are those that are too many to keep', async () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const { seen, store: shadow } = silentAt(() => true, 100)
  const store = new MemoryStore(() => Date.now())
  const watch = createMirrorWatch()
  const alongside = withMirror(store, { mirror: shadow, now: () => Date.now(), timeoutMs: 100, watch, log: () => {} })
  const background: Promise<unknown>[] = []
  const ask = () => alongside.decide(take([PLENTY]), callContext(background))
  for (let i = 0; i < 5; i++) await ask()
  await vi.advanceTimersByTimeAsync(101)
  expect(watch.counts.failures).toBe(5)
  // The circuit is open, and a thousand may wait.
  for (let i = 0; i < 1_200; i++) await ask()
  await vi.advanceTimersByTimeAsync(0)
  expect(watch.counts.failures).toBe(205)
  await vi.advanceTimersByTimeAsync(10_000)
  await Promise.all(background)
  expect(watch.counts.failures).toBe(1_205)
  // One at a time finds out whether the shadow is back.
  expect(seen.charges).toBeLessThan(40)
})
