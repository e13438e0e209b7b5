/** Compares the gateways whose ratios say how Sluice stands. */
import { type CompareOptions, type Comparison, compare } from './compare.ts'
import { HOT } from './measure.ts'
import {
  LEASED,
  PLAIN,
  PLAIN_LIMITS,
  TWO_CALLS,
  UNLIMITED,
  UPSTASH_LIMITS,
  UPSTASH_PLAIN,
  type Variant,
} from './variants.ts'

interface Pair {
  readonly first: Variant
  readonly second: Variant
  readonly latenciesMs: readonly number[]
  /** Compared with one hot caller, or with each number of callers that is measured. */
  readonly callers: 'hot' | 'any'
  /** Requests by the same processor time, first ÷ second, that must be shown; undefined: they show what can be. */
  readonly min?: number
}

const PAIRS: readonly Pair[] = [
  { first: PLAIN, second: UPSTASH_PLAIN, latenciesMs: [0, 20], callers: 'any', min: 1.15 },
  { first: PLAIN_LIMITS, second: UPSTASH_LIMITS, latenciesMs: [0, 20], callers: 'hot', min: 2 },
  { first: LEASED, second: UNLIMITED, latenciesMs: [20], callers: 'hot', min: 0.9 },
  { first: TWO_CALLS, second: UPSTASH_PLAIN, latenciesMs: [20], callers: 'hot' },
]

export interface PairFigures extends Comparison {
  readonly names: readonly [first: string, second: string]
  readonly callers: number
  readonly latencyMs: number
  readonly min: number | undefined
}

export interface SideBySideOptions extends Omit<CompareOptions, 'latencyMs' | 'callers'> {
  readonly latenciesMs: readonly number[]
  readonly callers: readonly number[]
}

export async function measureSideBySide({
  latenciesMs: measuredMs,
  callers: counts,
  ...options
}: SideBySideOptions): Promise<PairFigures[]> {
  const figures: PairFigures[] = []
  for (const { first, second, latenciesMs, callers: which, min } of PAIRS) {
    for (const latencyMs of latenciesMs.filter((ms) => measuredMs.includes(ms))) {
      for (const callers of which === 'hot' ? [HOT] : counts) {
        const comparison = await compare(first, second, { ...options, latencyMs, callers })
        figures.push({ ...comparison, names: [first.name, second.name], callers, latencyMs, min })
      }
    }
  }
  return figures
}
