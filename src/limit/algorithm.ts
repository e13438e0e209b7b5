import type { Rule, TierUsage } from '../store/store.ts'
import { concurrency } from './algorithms/concurrency.ts'
import { fixedWindow } from './algorithms/fixed-window.ts'
import { quota } from './algorithms/quota.ts'
import { slidingWindow } from './algorithms/sliding-window.ts'
import { sortedSet } from './algorithms/sorted-set.ts'
import { tokenBucket } from './algorithms/token-bucket.ts'

export type AlgorithmName = 'sliding-window' | 'token-bucket' | 'fixed-window' | 'quota' | 'sorted-set' | 'concurrency'

/** What a rule would allow now. */
export interface Peek {
  /** Units that could be spent now, all tiers considered. */
  readonly available: number
  readonly usage: readonly TierUsage[]
}

/**
 * A limiting algorithm over a state of its own: the twin, step by step, of the Lua module of the same name.
 * A missing state is that of a caller never seen.
 */
export interface Algorithm<State> {
  /** Pure. `wanted` is the number of units that `retryAfterMs` is about. */
  peek(state: State | undefined, rule: Rule, nowUs: number, wanted: number): Peek
  /**
   * Charges `units`, which `peek` has found available. The state is the caller's own and may be changed in place.
   * `leaseMs`: for exact logs, how long the units may still be spent. `ttlMs` is given where the state's time to live is set anew.
   */
  commit(state: State | undefined, rule: Rule, nowUs: number, units: number, leaseMs?: number): Commit<State>
  /**
   * Corrects a charge made at `chargedAtMs` by a difference in units, below 0 to give back. Only where a state can be
   * corrected; undefined where nothing of the charge is left.
   */
  settle?(state: State, rule: Rule, nowUs: number, chargedAtMs: number, units: number): Commit<State> | undefined
}

export interface Commit<State> {
  readonly state: State
  readonly ttlMs?: number
}

/** The letter of each algorithm in Redis keys and script arguments. */
export const ALGORITHM_LETTERS: Readonly<Record<AlgorithmName, string>> = {
  'sliding-window': 'w',
  'token-bucket': 't',
  'fixed-window': 'f',
  quota: 'q',
  'sorted-set': 'z',
  concurrency: 'c',
}

// biome-ignore lint/suspicious/noExplicitAny: a table of algorithms, each over a state that only it reads
export const ALGORITHMS: Readonly<Record<AlgorithmName, Algorithm<any>>> = {
  'sliding-window': slidingWindow,
  'token-bucket': tokenBucket,
  'fixed-window': fixedWindow,
  quota,
  'sorted-set': sortedSet,
  concurrency,
}
