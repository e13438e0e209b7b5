import type { Service } from '../services.ts'
import { serviceBindings } from '../services.ts'
import { type CompareOptions, type Comparison, compare } from './compare.ts'
import { HOT } from './measure.ts'
import {
  LEASED,
  PLAIN,
  PLAIN_TIERS,
  TWO_CALLS,
  UNLIMITED,
  UPSTASH_PLAIN,
  UPSTASH_TIERS,
  type Variant,
} from './variants.ts'

interface Pair {
  readonly first: Variant
  readonly second: Variant
  readonly latenciesMs: readonly number[]
  /** With how many callers: one who is hot, or any number that is measured. */
  readonly callers: 'hot' | 'any'
  /** Requests by the same processor time, first ÷ second, that must be shown; undefined: they show what can be. */
  readonly least?: number
}

const PAIRS: readonly Pair[] = [
  { first: PLAIN, second: UPSTASH_PLAIN, latenciesMs: [0, 20], callers: 'any', least: 1.15 },
  { first: PLAIN_TIERS, second: UPSTASH_TIERS, latenciesMs: [0, 20], callers: 'hot', least: 2 },
  { first: LEASED, second: UNLIMITED, latenciesMs: [20], callers: 'hot', least: 0.9 },
  { first: TWO_CALLS, second: UPSTASH_PLAIN, latenciesMs: [20], callers: 'hot' },
]

export interface PairFigures extends Comparison {
  readonly names: readonly [first: string, second: string]
  readonly callers: number
  /** Milliseconds by which Redis's answers come later. */
  readonly restLatencyMs: number
  readonly least: number | undefined
}

export interface SideBySideOptions extends Omit<CompareOptions, 'bindings' | 'callers'> {
  readonly upstream: Service
  /** REST fronts by their added latency in milliseconds. */
  readonly fronts: ReadonlyMap<number, Service>
  readonly token: string
  readonly callers: readonly number[]
}

/** Compares the gateways whose ratios say how Sluice stands. */
export async function measureSideBySide({
  upstream,
  fronts,
  token,
  callers: counts,
  ...options
}: SideBySideOptions): Promise<PairFigures[]> {
  const figures: PairFigures[] = []
  for (const { first, second, latenciesMs, callers, least } of PAIRS) {
    for (const restLatencyMs of latenciesMs) {
      const front = fronts.get(restLatencyMs)
      if (!front) continue
      const bindings = serviceBindings({ upstream, front, token })
      for (const count of callers === 'hot' ? [HOT] : counts) {
        const comparison = await compare(first, second, { ...options, bindings, callers: count })
        figures.push({ ...comparison, names: [first.name, second.name], callers: count, restLatencyMs, least })
      }
    }
  }
  return figures
}
