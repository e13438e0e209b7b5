/** Reads the limits and the penalty of a policy, for the configuration and for the library. */

import { ALGORITHMS, holdsSlots } from '../algorithms/algorithm-table.ts'
import {
  DURATION_EXPECTED,
  formatWindow,
  LIMITS_EXPECTED,
  type Limit,
  type PenaltySettings,
  parseDuration,
  parseLimits,
} from '../model/limits.ts'
import type { Policy } from '../model/policy.ts'
import type { AlgorithmOptions, OptionName, PenaltyOptions } from './policy-options.ts'

/** An exact log holds 16 bytes for each admission in its longest window: this is 1.6 MB for one caller. */
export const MAX_LOG_ENTRIES = 100_000
/** The bucket's arithmetic is exact up to here: units × window in µs. */
export const MAX_BUCKET = 2 ** 52
const DEFAULT_DEADLINE_MS = 60_000

export type Fail = (key: 'limits' | OptionName, expected: string) => never

/** Reads limits of which one is by day, week, month or year; undefined if none is. */
export type ReadCalendarLimits = (options: AlgorithmOptions, fail: Fail) => readonly Limit[] | undefined

/**
 * Reads the limits of a policy, if it has any, ordered by window, and what its bucket holds.
 * @param readCalendarLimits without it, limits by day, week, month or year are refused
 */
export function readLimits(
  options: Omit<AlgorithmOptions, 'limits'> & { readonly name: string; readonly limits: string | undefined },
  fail: Fail,
  readCalendarLimits?: ReadCalendarLimits,
): Pick<Policy, 'limits' | 'burst'> {
  const { name, algorithm, limits, burst, slotTtl, allowLargeLog } = options
  const { hasBurst, isLog } = ALGORITHMS[algorithm]
  const isOfSlots = holdsSlots(options)
  if (burst !== undefined && !hasBurst) fail('burst', 'algorithm = "token-bucket" with it')
  if (slotTtl !== undefined && !isOfSlots) fail('slotTtl', 'algorithm = "concurrency" with it')
  if (limits === undefined) return { limits: [], burst: undefined }
  const byCalendar = readCalendarLimits?.({ ...options, limits }, fail)
  // Slots have no window in their name.
  if (isOfSlots) return { limits: [{ ...readSlots(limits, slotTtl, fail), name }], burst: undefined }
  const parsed = byCalendar ?? parseLimits(limits) ?? fail('limits', LIMITS_EXPECTED)
  const [rate, ...others] = parsed
  if (hasBurst) {
    if (!rate || others.length > 0) return fail('limits', 'one limit, the rate at which the bucket is refilled')
    const max = Math.floor(MAX_BUCKET / (rate.windowMs * 1000))
    if ((burst ?? rate.limit) > max) fail(burst ? 'burst' : 'limits', `at most ${max} units with this window`)
  }
  if (isLog && !allowLargeLog && parsed.some(({ limit }) => limit > MAX_LOG_ENTRIES)) {
    fail(
      'limits',
      `limits up to ${MAX_LOG_ENTRIES} (for more, a policy with algorithm = "quota", or one that allows a large log: allow_large_log, in code allowLargeLog)`,
    )
  }
  return {
    limits: parsed.map((limit) => ({
      ...limit,
      name: `${name}-${limit.calendar?.unit ?? formatWindow(limit.windowMs)}`,
    })),
    burst: hasBurst ? (burst ?? rate?.limit) : undefined,
  }
}

function readSlots(limits: string, slotTtl: string | undefined, fail: Fail): Limit {
  if (!/^[1-9]\d{0,5}$/.test(limits)) fail('limits', 'a number of requests at once from 1 to 999999, such as "20"')
  const windowMs = slotTtl === undefined ? DEFAULT_DEADLINE_MS : parseDuration(slotTtl)
  return { limit: Number(limits), windowMs: windowMs ?? fail('slotTtl', DURATION_EXPECTED) }
}

type PenaltyTable = PenaltyOptions & Pick<AlgorithmOptions, 'algorithm'>

export function readPenalty(table: PenaltyTable, limits: readonly Limit[], fail: Fail): PenaltySettings | undefined {
  const { penalty, penaltyAfter } = table
  if (penalty !== undefined) return readPenaltyOf(penalty, table, limits, fail)
  if (penaltyAfter !== undefined) fail('penaltyAfter', 'penalty, e.g. "10m", with it')
  return undefined
}

function readPenaltyOf(
  penalty: string,
  { algorithm, penaltyAfter }: PenaltyTable,
  limits: readonly Limit[],
  fail: Fail,
): PenaltySettings {
  // A slot may be released at any time: a refused caller has not made too many requests.
  if (holdsSlots({ algorithm })) fail('penalty', 'an algorithm other than "concurrency" with it')
  // Refusals that a sliding window counts are a millisecond apart, so later ones would lengthen the window.
  const longestMs = Math.max(...limits.map(({ windowMs }) => windowMs))
  if ((penaltyAfter ?? 1) > longestMs) {
    fail('penaltyAfter', `at most ${longestMs}, one refusal for each millisecond of the longest window`)
  }
  return { durationMs: parseDuration(penalty) ?? fail('penalty', DURATION_EXPECTED), after: penaltyAfter ?? 1 }
}
