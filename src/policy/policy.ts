import type { AlgorithmName } from '../algorithms/algorithm.ts'
import type { Source } from '../identity/source.ts'
import type { Tier } from '../store/store.ts'
import type { Pattern } from './pattern.ts'

export interface PolicyTier extends Tier {
  /** Unique, `<policy>-<window>`, e.g. `default-1m`. */
  readonly name: string
}

/** A set of tiers, what it counts by and where it applies. */
export interface Policy {
  /** Unique; part of Redis keys and of response fields. */
  readonly name: string
  readonly algorithm: AlgorithmName
  /** Ordered by window, at least one. */
  readonly tiers: readonly PolicyTier[]
  /** What makes two requests the same caller's: the same value of each of these. */
  readonly by: readonly Source[]
  /** Where it applies; undefined: everywhere. */
  readonly match: readonly Pattern[] | undefined
  /** Units that a request costs, an integer from 1, at most the smallest limit. */
  readonly cost: number
  /** False in shadow mode: it decides and reports, but refuses nothing. */
  readonly enforced: boolean
}
