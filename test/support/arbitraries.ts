import fc from 'fast-check'
import type { StoreCharge } from '../../src/core/model/charge.ts'
import type { AlgorithmName, Counts, Limit, PenaltySettings } from '../../src/core/model/limits.ts'
import { POLICY_MODES, type PolicyMode } from '../../src/core/model/policy.ts'
import { createCharge, findCapacity, TIERED_ALGORITHMS } from './charges.ts'

/** 14 November 2023, and some odd milliseconds. */
export const START_MS = 1_700_000_000_123

const limit: fc.Arbitrary<Limit> = fc.record({
  limit: fc.integer({ min: 1, max: 200 }),
  windowMs: fc.integer({ min: 1, max: 3_000 }),
})
const severalLimits: fc.Arbitrary<Limit[]> = fc.uniqueArray(limit, {
  minLength: 1,
  maxLength: 3,
  selector: ({ windowMs }) => windowMs,
})
/** The most windows that a calendar knows; after these, it is like one of an isolate whose clock is slow. */
const MAX_ENDS = 60
/** By a calendar, in windows of any lengths up to that of the limit. */
const severalByCalendar: fc.Arbitrary<Limit[]> = fc
  .tuple(severalLimits, fc.infiniteStream(fc.double({ min: 0, max: 1, noNaN: true })))
  .map(([limits, shares]) =>
    limits.map((limit) => {
      const endsMs: number[] = []
      for (let endMs = START_MS; endsMs.length < MAX_ENDS; ) {
        endMs += Math.ceil(limit.windowMs * shares.next().value) || 1
        endsMs.push(endMs)
      }
      return { ...limit, calendar: { unit: 'day', timeZone: 'UTC', starts: 1, findEnds: () => endsMs } }
    }),
  )
const burst = fc.option(fc.integer({ min: 1, max: 300 }), { nil: undefined })

/**
 * A charge with a key of its own.
 * @param hasCalendar quotas may end by a calendar, at any moments within their windows
 */
export function anyCharge(algorithm: AlgorithmName, hasCalendar = false): fc.Arbitrary<StoreCharge> {
  const hasLimits = TIERED_ALGORITHMS.some((name) => name === algorithm)
  const several = hasCalendar && algorithm === 'quota' ? fc.oneof(severalLimits, severalByCalendar) : severalLimits
  const limits = hasLimits ? several : limit.map((limit) => [limit])
  if (algorithm !== 'token-bucket') return limits.map((limits) => createCharge(algorithm, limits))
  return fc.tuple(limits, burst).map(([limits, burst]) => createCharge(algorithm, limits, burst ? { burst } : {}))
}

/** A charge before and after its configuration has changed. */
export interface Configured {
  readonly before: StoreCharge
  readonly after: StoreCharge
}

export function anyConfigured(algorithm: AlgorithmName): fc.Arbitrary<Configured> {
  const pair = fc.tuple(anyCharge(algorithm, true), anyCharge(algorithm, true))
  return pair.map(([before, after]) => ({ before, after: { ...after, key: before.key } }))
}

/** Long enough for streams that no single read covers. */
export const LONG = { maxLength: 150, size: 'max' } as const

export const anyCost = fc.oneof(fc.constant(1), fc.constant(1), fc.integer({ min: 1, max: 60 }))

/** Rules of one decision at most. */
export const MOST_RULES = 5

/** What a law is tried on, each with a name: each of these algorithms by itself, and several in one decision. */
export function aloneAndMixed<One>(
  algorithms: readonly AlgorithmName[],
  anyOf: (algorithm: AlgorithmName) => fc.Arbitrary<One>,
): readonly (readonly [name: string, charges: fc.Arbitrary<One[]>])[] {
  const anyOfAny = fc.constantFrom(...algorithms).chain(anyOf)
  return [
    ...algorithms.map((name) => [name, anyOf(name).map((charge) => [charge])] as const),
    ['several algorithms in one decision', fc.array(anyOfAny, { minLength: 2, maxLength: MOST_RULES })],
  ]
}

export interface Demand {
  readonly isChanged: boolean
  readonly cost: number
  readonly reserved: number
  readonly mode: PolicyMode
}

/** What a request asks of each of its charges. */
export const anyDemands: fc.Arbitrary<Demand[]> = fc.array(
  fc.record({
    isChanged: fc.integer({ min: 0, max: 9 }).map((die) => die === 9),
    cost: anyCost,
    reserved: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 20 })),
    mode: fc.constantFrom(...POLICY_MODES),
  }),
  { minLength: MOST_RULES, maxLength: MOST_RULES },
)

export function demanded(charges: readonly Configured[], demands: readonly Demand[]): StoreCharge[] {
  return charges.map(({ before, after }, index) => {
    const { isChanged, ...demand } = demands[index] as Demand
    return { ...(isChanged ? after : before), ...demand }
  })
}

/** What each charge counts. */
export const anyCounts = fc.array(fc.constantFrom<Counts>('requests', 'requests', 'failures'), {
  minLength: MOST_RULES,
  maxLength: MOST_RULES,
})

export function counting(charges: readonly StoreCharge[], counts: readonly Counts[]): StoreCharge[] {
  return charges.map((charge, index) => ({ ...charge, counts: counts[index] ?? 'requests' }))
}

/** What a refusal leads to. */
export const anyPenalty: fc.Arbitrary<PenaltySettings> = fc.record({
  durationMs: fc.oneof(fc.integer({ min: 1, max: 50 }), fc.integer({ min: 1, max: 6_000 })),
  after: fc.constantFrom(1, 1, 2, 5),
})

/** What a refusal by each charge leads to; often nothing. */
export const anyPenalties: fc.Arbitrary<(PenaltySettings | undefined)[]> = fc.array(
  fc.option(anyPenalty, { nil: undefined }),
  {
    minLength: MOST_RULES,
    maxLength: MOST_RULES,
  },
)

/** Slots have no penalties. */
export function addPenalties(
  charges: readonly StoreCharge[],
  penalties: readonly (PenaltySettings | undefined)[],
): StoreCharge[] {
  return charges.map((charge, index) => {
    const penalty = charge.algorithm === 'concurrency' ? undefined : penalties[index]
    return penalty ? { ...charge, penalty } : charge
  })
}

/** The same charge, enforced, and asked for no more than it can ever give. */
export function satisfiable(charge: StoreCharge): StoreCharge {
  const capacity = findCapacity(charge)
  const cost = Math.min(charge.cost, capacity)
  return { ...charge, cost, reserved: Math.min(charge.reserved, capacity - cost), mode: 'enforce' }
}

const gapMs = fc.oneof(
  fc.constant(0),
  fc.integer({ min: 0, max: 5 }),
  fc.integer({ min: 0, max: 50 }),
  fc.integer({ min: 0, max: 2_000 }),
)
const partOfMs = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 999 }))
/** Microseconds from one step to the next. */
export const forwardUs = fc.tuple(gapMs, partOfMs).map(([ms, us]) => ms * 1000 + us)
export const backAndForthUs = fc.oneof(forwardUs, fc.integer({ min: -1_500_000, max: 1_500_000 }))
