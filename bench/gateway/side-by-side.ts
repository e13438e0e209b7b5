/** Compares the gateways whose ratios say how Sluice stands, and what its own features cost. */
import type { Site } from '../site.ts'
import { type Comparison, compare, type Traffic } from './compare.ts'
import {
  FLOODED,
  LEASED,
  PLAIN,
  PLAIN_LIMITS,
  TWO_CALLS,
  UNLIMITED,
  UPSTASH_LIMITS,
  UPSTASH_PLAIN,
  type Variant,
  withStatistics,
} from './variants.ts'

interface Pair {
  readonly first: Variant
  readonly second: Variant
  readonly latenciesMs: readonly number[]
  readonly traffic: readonly Traffic[]
  /** A gateway begins each slice as after a pause, with no leases: of a slice of a second, that is a large part. */
  readonly sliceSeconds?: number
  /** Requests by the same processor time, first ÷ second, that must be shown; undefined: they show what can be. */
  readonly min?: number
}

const ONE: Traffic = { callers: 1, fields: 2 }
const ONE_OF_BOTH = [ONE, { ...ONE, fields: 21 }] as const
const ALL: readonly Traffic[] = [1, 1_000, 100_000].flatMap((callers) =>
  ONE_OF_BOTH.map((one) => ({ ...one, callers })),
)

const PAIRS: readonly Pair[] = [
  { first: PLAIN, second: UPSTASH_PLAIN, latenciesMs: [0, 20], traffic: ALL, min: 1 },
  { first: PLAIN_LIMITS, second: UPSTASH_LIMITS, latenciesMs: [0, 20], traffic: ONE_OF_BOTH, min: 2 },
  { first: TWO_CALLS, second: UPSTASH_PLAIN, latenciesMs: [20], traffic: ONE_OF_BOTH },
  { first: LEASED, second: UNLIMITED, latenciesMs: [20], traffic: [ONE], sliceSeconds: 2, min: 0.9 },
  { first: withStatistics(PLAIN), second: PLAIN, latenciesMs: [0], traffic: [ONE], min: 0.95 },
  { first: withStatistics(LEASED), second: LEASED, latenciesMs: [0], traffic: [ONE], sliceSeconds: 2, min: 0.95 },
  // A flood is refused so cheaply that a little more is a larger part of it.
  { first: withStatistics(FLOODED), second: FLOODED, latenciesMs: [0], traffic: [ONE] },
]

export interface PairFigures extends Comparison, Traffic {
  readonly names: readonly [first: string, second: string]
  readonly latencyMs: number
  readonly min: number | undefined
}

export interface SideBySideOptions {
  readonly site: Site
  /** Processes of each gateway. */
  readonly repetitions: number
}

export async function measureSideBySide(options: SideBySideOptions): Promise<PairFigures[]> {
  const figures: PairFigures[] = []
  for (const { first, second, latenciesMs, traffic, sliceSeconds = 1, min } of PAIRS) {
    for (const latencyMs of latenciesMs) {
      const comparisons = await compare(first, second, traffic, { ...options, latencyMs, sliceSeconds })
      for (const [at, comparison] of comparisons.entries()) {
        const names = [first.name, second.name] as const
        figures.push({ names, latencyMs, min, ...(traffic[at] as Traffic), ...comparison })
      }
    }
  }
  return figures
}
