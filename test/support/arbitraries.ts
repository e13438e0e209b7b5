import fc from 'fast-check'
import type { StoreCharge } from '../../src/model/charge.ts'
import type { AlgorithmName, Counts, Limit, PenaltySettings } from '../../src/model/limits.ts'
import { capacityOf, ruleOf, TIERED_ALGORITHMS } from './rules.ts'

/** 14 November 2023, and some odd milliseconds. */
export const START_MS = 1_700_000_000_123

const tier: fc.Arbitrary<Limit> = fc.record({
  limit: fc.integer({ min: 1, max: 200 }),
  windowMs: fc.integer({ min: 1, max: 3_000 }),
})
const severalTiers: fc.Arbitrary<Limit[]> = fc.uniqueArray(tier, {
  minLength: 1,
  maxLength: 3,
  selector: ({ windowMs }) => windowMs,
})
const burst = fc.option(fc.integer({ min: 1, max: 300 }), { nil: undefined })

/** A rule with a key of its own. */
export function anyRule(algorithm: AlgorithmName): fc.Arbitrary<StoreCharge> {
  const isTiered = TIERED_ALGORITHMS.some((name) => name === algorithm)
  const tiers = isTiered ? severalTiers : tier.map((tier) => [tier])
  if (algorithm !== 'token-bucket') return tiers.map((tiers) => ruleOf(algorithm, tiers))
  return fc.tuple(tiers, burst).map(([tiers, burst]) => ruleOf(algorithm, tiers, burst ? { burst } : {}))
}

/** A rule before and after its configuration has changed. */
export interface Configured {
  readonly before: StoreCharge
  readonly after: StoreCharge
}

export function anyConfigured(algorithm: AlgorithmName): fc.Arbitrary<Configured> {
  const pair = fc.tuple(anyRule(algorithm), anyRule(algorithm))
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
): readonly (readonly [name: string, rules: fc.Arbitrary<One[]>])[] {
  const anyOfAny = fc.constantFrom(...algorithms).chain(anyOf)
  return [
    ...algorithms.map((name) => [name, anyOf(name).map((rule) => [rule])] as const),
    ['several algorithms in one decision', fc.array(anyOfAny, { minLength: 2, maxLength: MOST_RULES })],
  ]
}

export interface Demand {
  readonly isChanged: boolean
  readonly cost: number
  readonly reserved: number
  readonly enforced: boolean
}

/** What a request asks of each of its rules. */
export const anyDemands: fc.Arbitrary<Demand[]> = fc.array(
  fc.record({
    isChanged: fc.integer({ min: 0, max: 9 }).map((die) => die === 9),
    cost: anyCost,
    reserved: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 20 })),
    enforced: fc.boolean(),
  }),
  { minLength: MOST_RULES, maxLength: MOST_RULES },
)

export function demanded(rules: readonly Configured[], demands: readonly Demand[]): StoreCharge[] {
  return rules.map(({ before, after }, index) => {
    const { isChanged, ...demand } = demands[index] as Demand
    return { ...(isChanged ? after : before), ...demand }
  })
}

/** What each rule counts. */
export const anyCounts = fc.array(fc.constantFrom<Counts>('requests', 'requests', 'failures'), {
  minLength: MOST_RULES,
  maxLength: MOST_RULES,
})

export function counting(rules: readonly StoreCharge[], counts: readonly Counts[]): StoreCharge[] {
  return rules.map((rule, index) => ({ ...rule, counts: counts[index] ?? 'requests' }))
}

/** What a refusal leads to. */
export const anyBlock: fc.Arbitrary<PenaltySettings> = fc.record({
  blockMs: fc.oneof(fc.integer({ min: 1, max: 50 }), fc.integer({ min: 1, max: 6_000 })),
  after: fc.constantFrom(1, 1, 2, 5),
})

/** What a refusal by each rule leads to; often nothing. */
export const anyBlocks: fc.Arbitrary<(PenaltySettings | undefined)[]> = fc.array(
  fc.option(anyBlock, { nil: undefined }),
  {
    minLength: MOST_RULES,
    maxLength: MOST_RULES,
  },
)

/** Slots are never blocked. */
export function blocking(
  rules: readonly StoreCharge[],
  blocks: readonly (PenaltySettings | undefined)[],
): StoreCharge[] {
  return rules.map((rule, index) => {
    const block = rule.algorithm === 'concurrency' ? undefined : blocks[index]
    return block ? { ...rule, block } : rule
  })
}

/** The same rule, enforced, and asked for no more than it can ever give. */
export function satisfiable(rule: StoreCharge): StoreCharge {
  const capacity = capacityOf(rule)
  const cost = Math.min(rule.cost, capacity)
  return { ...rule, cost, reserved: Math.min(rule.reserved, capacity - cost), enforced: true }
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
