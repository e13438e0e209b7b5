import {
  type AlgorithmName,
  DURATION_EXPECTED,
  formatWindow,
  LIMITS_EXPECTED,
  type Limit,
  type PenaltySettings,
  parseDuration,
  parseLimits,
} from '../model/limits.ts'
import { ALGORITHMS } from './algorithm-table.ts'

/** An exact log holds 16 bytes for each admission in its longest window: this is 1.6 MB for one caller. */
export const MAX_LOG_ENTRIES = 100_000
/** The bucket's arithmetic is exact up to here: units × window in µs. */
export const MAX_BUCKET = 2 ** 52
const DEFAULT_DEADLINE_MS = 60_000

/** Settings of a policy's limits. */
export interface LimitSettings {
  readonly algorithm: AlgorithmName
  /** Text such as `10/1s, 120/1m`; a number for `concurrency`. */
  readonly limits: string
  /** `token-bucket`: units that the bucket holds, an integer from 1; default: its limit. */
  readonly burst?: number | undefined
  /** `concurrency`: the longest time that a slot is held without renewal; default: a minute. */
  readonly slotTtl?: string | undefined
  /** True allows an exact log of more than `MAX_LOG_ENTRIES`. */
  readonly allowLargeLog?: boolean | undefined
  /** `quota` by day, week, month or year: IANA name of their time zone; default: UTC. */
  readonly timeZone?: string | undefined
  /** `quota` by month: day on which months begin, 1 to 31, or the last one of a shorter month; default: 1. */
  readonly starts?: number | undefined
}

/** Throws an error about a setting. */
export type Fail = (key: 'limits' | 'burst' | 'slotTtl' | 'timeZone' | 'starts', expected: string) => never

/** Reads limits of which one is by day, week, month or year; undefined if none is. */
export type ReadCalendarLimits = (options: LimitSettings, fail: Fail) => readonly Limit[] | undefined

/** Calls `fail` for a setting of another algorithm. */
export function checkAlgorithmOptions({ algorithm, burst, slotTtl }: Omit<LimitSettings, 'limits'>, fail: Fail): void {
  const { holdsSlots, hasBurst } = ALGORITHMS[algorithm]
  if (burst !== undefined && !hasBurst) fail('burst', 'algorithm = "token-bucket" with it')
  if (slotTtl !== undefined && !holdsSlots) fail('slotTtl', 'algorithm = "concurrency" with it')
}

/**
 * Reads the limits of a policy, ordered by window.
 * @param readCalendarLimits without it, limits by day, week, month or year are refused
 */
export function readLimits(
  options: LimitSettings,
  fail: Fail,
  readCalendarLimits?: ReadCalendarLimits,
): readonly Limit[] {
  const byCalendar = readCalendarLimits?.(options, fail)
  const { algorithm, limits, burst, slotTtl, allowLargeLog } = options
  const { holdsSlots, hasBurst, isLog } = ALGORITHMS[algorithm]
  if (holdsSlots) {
    if (!/^[1-9]\d{0,5}$/.test(limits)) fail('limits', 'a number of requests at once from 1 to 999999, such as "20"')
    const windowMs = slotTtl === undefined ? DEFAULT_DEADLINE_MS : parseDuration(slotTtl)
    return [{ limit: Number(limits), windowMs: windowMs ?? fail('slotTtl', DURATION_EXPECTED) }]
  }
  const parsed = byCalendar ?? parseLimits(limits) ?? fail('limits', LIMITS_EXPECTED)
  if (hasBurst) {
    const [rate, ...others] = parsed
    if (!rate || others.length > 0) return fail('limits', 'one limit, the rate at which the bucket is refilled')
    const max = Math.floor(MAX_BUCKET / (rate.windowMs * 1000))
    if ((burst ?? rate.limit) > max) fail(burst ? 'burst' : 'limits', `at most ${max} units with this window`)
  }
  if (isLog && !allowLargeLog && parsed.some(({ limit }) => limit > MAX_LOG_ENTRIES)) {
    fail('limits', `limits up to ${MAX_LOG_ENTRIES} (for more, algorithm = "quota", or allow a large log)`)
  }
  return parsed
}

/** The name of a limit in headers and decisions, e.g. `default-1m`; slots have no window in their name. */
export function formatLimitName(policy: string, algorithm: AlgorithmName, { windowMs, calendar }: Limit): string {
  return ALGORITHMS[algorithm].holdsSlots ? policy : `${policy}-${calendar?.unit ?? formatWindow(windowMs)}`
}

/** `lua/sorted-set.lua` stores fewer refusals than this in a score. */
export const MAX_AFTER = 1_000

/** Settings of a policy's penalty. */
export interface PenaltyOptions {
  readonly algorithm: AlgorithmName
  /** Duration, for example `10m`. */
  readonly penalty?: string | undefined
  /** Refusals that lead to it, an integer from 1 to `MAX_AFTER`; default 1. */
  readonly penaltyAfter?: number | undefined
}

export function readPenalty(
  { algorithm, penalty, penaltyAfter }: PenaltyOptions,
  limits: readonly Limit[],
  fail: (key: 'penalty' | 'penaltyAfter', expected: string) => never,
): PenaltySettings | undefined {
  if (penalty === undefined) {
    if (penaltyAfter !== undefined) fail('penaltyAfter', 'penalty, e.g. "10m", with it')
    return undefined
  }
  // A slot may be released at any time: a refused caller has not made too many requests.
  if (ALGORITHMS[algorithm].holdsSlots) fail('penalty', 'an algorithm other than "concurrency" with it')
  // Refusals that a sliding window counts are a millisecond apart, so later ones would lengthen the window.
  const longestMs = Math.max(...limits.map(({ windowMs }) => windowMs))
  if ((penaltyAfter ?? 1) > longestMs) {
    fail('penaltyAfter', `at most ${longestMs}, one refusal for each millisecond of the longest window`)
  }
  return { durationMs: parseDuration(penalty) ?? fail('penalty', DURATION_EXPECTED), after: penaltyAfter ?? 1 }
}
