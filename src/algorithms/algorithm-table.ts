/**
 * All that is known about each algorithm outside itself. A new one is its Lua module (`lua/<name>.lua`), its twin and
 * an entry here.
 */
import { ALGORITHM_NAMES, type AlgorithmName } from '../model/limits.ts'
import type { Algorithm } from './algorithm.ts'
import { concurrency } from './concurrency.ts'
import { fixedWindow, quota } from './counted-windows.ts'
import { slidingWindow, sortedSet } from './sliding-window.ts'
import { tokenBucket } from './token-bucket.ts'

interface AlgorithmEntry {
  /** In Redis keys and script arguments. */
  readonly letter: string
  // biome-ignore lint/suspicious/noExplicitAny: a table of algorithms, each over a state that only it reads
  readonly implementation: Algorithm<any>
  /** Its limit is not for a window: units are held until they are given back, or a deadline. */
  readonly holdsSlots?: true
  /** It may hold more than its limit at once. */
  readonly hasBurst?: true
  /** It keeps each admission of its longest window. */
  readonly isLog?: true
  /**
   * What keeps its limit strict while permits are spent for a while after the decision: units count as if spent when the
   * lease ends (`dated`), or a lease ends with the windows that it is charged to (`windowed`). Without, there are no leases.
   */
  readonly lease?: 'dated' | 'windowed'
  /** It can tell that a caller has not been seen within its windows. */
  readonly tellsNewIdentities?: true
}

export const ALGORITHMS: Readonly<Record<AlgorithmName, AlgorithmEntry>> = {
  'sliding-window': {
    letter: 'w',
    implementation: slidingWindow,
    isLog: true,
    lease: 'dated',
    tellsNewIdentities: true,
  },
  'token-bucket': { letter: 't', implementation: tokenBucket, hasBurst: true, lease: 'dated' },
  'fixed-window': { letter: 'f', implementation: fixedWindow, lease: 'windowed' },
  quota: { letter: 'q', implementation: quota, lease: 'windowed' },
  'sorted-set': { letter: 'z', implementation: sortedSet, isLog: true, lease: 'dated' },
  // A slot is held by one request, and free when that ends: there is nothing to take in advance.
  concurrency: { letter: 'c', implementation: concurrency, holdsSlots: true },
}

export const SLOT_ALGORITHMS = ALGORITHM_NAMES.filter((name) => ALGORITHMS[name].holdsSlots)
