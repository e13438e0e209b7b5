/**
 * Properties of each algorithm. A new algorithm takes its Lua module (`lua/<name>.lua`), the same in TypeScript, and an entry here.
 */
import type { AlgorithmName } from '../model/limits.ts'
import type { Algorithm } from './algorithm.ts'
import { concurrency } from './concurrency.ts'
import { fixedWindow, quota } from './counted-windows.ts'
import { slidingWindow, sortedSet } from './sliding-window.ts'
import { tokenBucket } from './token-bucket.ts'

export interface AlgorithmEntry {
  /** Part of Redis keys and script arguments. */
  readonly letter: string
  // biome-ignore lint/suspicious/noExplicitAny: a table of algorithms, each over a state that only it reads
  readonly implementation: Algorithm<any>
  readonly hasBurst?: true
  /** Its limits hold in every window, in windows aligned to the clock, or in windows that begin with their first unit. */
  readonly windows?: 'every' | 'aligned' | 'own'
  /** It stores each admission of its longest window. */
  readonly isLog?: true
  /**
   * Keeps its limit exact with leases: units count as if used when the lease ends (`dated`), or a lease ends with the
   * windows that it is charged to (`windowed`). Undefined: no leases.
   */
  readonly lease?: 'dated' | 'windowed'
  /** It detects that a caller has not been seen within its windows. */
  readonly detectsNewIdentities?: true
}

const TABLE = {
  'sliding-window': {
    letter: 'w',
    implementation: slidingWindow,
    windows: 'every',
    isLog: true,
    lease: 'dated',
    detectsNewIdentities: true,
  },
  'token-bucket': { letter: 't', implementation: tokenBucket, hasBurst: true, lease: 'dated' },
  'fixed-window': { letter: 'f', implementation: fixedWindow, windows: 'aligned', lease: 'windowed' },
  quota: { letter: 'q', implementation: quota, windows: 'own', lease: 'windowed' },
  'sorted-set': { letter: 'z', implementation: sortedSet, windows: 'every', isLog: true, lease: 'dated' },
  // No leases: a slot is held by one request.
  concurrency: { letter: 'c', implementation: concurrency },
} satisfies Readonly<Record<AlgorithmName, AlgorithmEntry>>

export const ALGORITHMS: Readonly<Record<AlgorithmName, AlgorithmEntry>> = TABLE

export type AlgorithmState<Name extends AlgorithmName> =
  (typeof TABLE)[Name]['implementation'] extends Algorithm<infer State> ? State : never

/** Units are then held until they are released or their deadline, not counted in a window. */
export function holdsSlots({ algorithm }: { readonly algorithm: AlgorithmName }): boolean {
  return ALGORITHMS[algorithm].implementation.slots !== undefined
}
