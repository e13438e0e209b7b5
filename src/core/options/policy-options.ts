/**
 * The options of an algorithm, and of penalties. Configuration and library both read them by the table at the
 * end; how a policy is limited by them is in `read-limits.ts`.
 */

import { type AlgorithmName, DURATION_EXPECTED } from '../model/limits.ts'
import * as v from './readers.ts'

/** The limits of a policy and their algorithm: made by `slidingWindow`, `quota` and the like. */
export interface AlgorithmOptions {
  readonly algorithm: AlgorithmName
  /**
   * Limits; of `quota`, also `10000/month`; of `concurrency`, a number.
   * @example '10/1s, 120/1m'
   */
  readonly limits: string
  /**
   * `token-bucket`: units that the bucket holds, an integer from 1.
   * @default the limit
   * @example 50
   */
  readonly burst?: number | undefined
  /**
   * `concurrency`: time after which a slot that nobody renews is free again.
   * @default '1m'
   * @example '30s'
   */
  readonly slotTtl?: string | undefined
  /**
   * `sliding-window`, `sorted-set`: a limit may exceed 100,000, at 16 (120) bytes an admission and caller.
   * @default false
   * @example true
   */
  readonly allowLargeLog?: boolean | undefined
  /**
   * `quota` by day, week, month or year: IANA name of their time zone.
   * @default 'UTC'
   * @example 'Europe/Berlin'
   */
  readonly timeZone?: string | undefined
  /**
   * `quota` by month: day on which months begin, 1 to 31, or the last one of a shorter month.
   * @default 1
   * @example 15
   */
  readonly starts?: number | undefined
}

/** The penalty of a policy. */
export interface PenaltyOptions {
  /**
   * An identity that this policy refuses stays refused for so long. Not with `concurrency`.
   * @default none
   * @example '10m'
   */
  readonly penalty?: string | undefined
  /**
   * Number of refusals that lead to `penalty`, an integer from 1 to 1,000, within a time as long as the longest window
   * that begins with the first of them.
   * @default 1
   * @example 3
   */
  readonly penaltyAfter?: number | undefined
}

/** `lua/sorted-set.lua` stores fewer refusals than this in a score. */
export const MAX_AFTER = 1_000

export type OptionName = Exclude<keyof (AlgorithmOptions & PenaltyOptions), 'algorithm' | 'limits'>
export type OwnOptions = Pick<AlgorithmOptions & PenaltyOptions, OptionName>

export const OPTIONS = {
  burst: v.integer(1, v.MAX_COST),
  slotTtl: v.anyText(DURATION_EXPECTED),
  allowLargeLog: v.BOOLEAN,
  timeZone: v.anyText('a time zone'),
  starts: v.integer(1, 31),
  penalty: v.anyText(DURATION_EXPECTED),
  penaltyAfter: v.integer(1, MAX_AFTER),
} as const satisfies Readonly<Record<OptionName, v.Reader>>
