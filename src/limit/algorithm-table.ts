/**
 * All that is known about each algorithm outside itself. A new one is its Lua module (`lua/<name>.lua`), its twin and
 * an entry here.
 */
import type { Algorithm } from './algorithm.ts'
import { concurrency } from './algorithms/concurrency.ts'
import { fixedWindow, quota } from './algorithms/counted-windows.ts'
import { slidingWindow } from './algorithms/sliding-window.ts'
import { sortedSet } from './algorithms/sorted-set.ts'
import { tokenBucket } from './algorithms/token-bucket.ts'

interface Entry {
  /** In Redis keys and script arguments. */
  readonly letter: string
  // biome-ignore lint/suspicious/noExplicitAny: a table of algorithms, each over a state that only it reads
  readonly twin: Algorithm<any>
  /** Its limit is not for a window: units are held until they are given back, or a deadline. */
  readonly holdsSlots?: true
  /** It may hold more than its limit at once. */
  readonly hasBurst?: true
  /** It keeps each admission of its longest window. */
  readonly isLog?: true
  /** Permits may be spent for a while after the decision, and no window holds more than its limit. */
  readonly isLeasable?: true
  /** It can tell that a caller has not been seen within its windows. */
  readonly tellsNewIdentities?: true
}

const TABLE = {
  'sliding-window': {
    letter: 'w',
    twin: slidingWindow,
    isLog: true,
    isLeasable: true,
    tellsNewIdentities: true,
  },
  'token-bucket': { letter: 't', twin: tokenBucket, hasBurst: true },
  'fixed-window': { letter: 'f', twin: fixedWindow },
  quota: { letter: 'q', twin: quota },
  'sorted-set': { letter: 'z', twin: sortedSet, isLog: true },
  concurrency: { letter: 'c', twin: concurrency, holdsSlots: true },
} as const satisfies Readonly<Record<string, Entry>>

export type AlgorithmName = keyof typeof TABLE

export const ALGORITHMS: Readonly<Record<AlgorithmName, Entry>> = TABLE

export const ALGORITHM_NAMES = Object.keys(TABLE) as readonly AlgorithmName[]

export const SLOT_ALGORITHMS = ALGORITHM_NAMES.filter((name) => ALGORITHMS[name].holdsSlots)
