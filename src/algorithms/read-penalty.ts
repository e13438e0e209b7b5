import type { AlgorithmName, PenaltySettings } from '../model/limits.ts'
import { DURATION_EXPECTED, parseDuration } from '../model/limits.ts'
import { ALGORITHMS } from './algorithm-table.ts'

/** `lua/sorted-set.lua` keeps fewer refusals than this in a score. */
export const MAX_AFTER = 1_000

/** What a policy says of who is refused. */
export interface PenaltyOptions {
  readonly algorithm: AlgorithmName
  /** For how long, such as `10m`. */
  readonly block?: string | undefined
  /** After how many refusals, an integer from 1 to `MAX_AFTER`; 1 if left out. */
  readonly after?: number | undefined
}

/** Throws. @param key the option to fix */
type Fail = (key: 'block' | 'after', expected: string) => never

export function readPenalty({ algorithm, block, after }: PenaltyOptions, fail: Fail): PenaltySettings | undefined {
  if (block === undefined) {
    if (after !== undefined) fail('after', 'block, e.g. "10m", with it')
    return undefined
  }
  // A slot is free at any moment: who is refused one has done nothing too often.
  if (ALGORITHMS[algorithm].holdsSlots) fail('block', 'an algorithm other than "concurrency" with it')
  return { blockMs: parseDuration(block) ?? fail('block', DURATION_EXPECTED), after: after ?? 1 }
}
