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
const MAX_BUCKET = 2 ** 52
const DEFAULT_DEADLINE_MS = 60_000

/** Settings of a policy's limits. */
export interface LimitOptions {
  readonly algorithm: AlgorithmName
  /** Text such as `10/1s, 120/1m`; a number for `concurrency`. */
  readonly limits: string
  /** `token-bucket`: units that the bucket holds, an integer from 1; default: its limit. */
  readonly burst?: number | undefined
  /** `concurrency`: the longest time that a slot is held without renewal; default: a minute. */
  readonly deadline?: string | undefined
  /** True allows an exact log of more than `MAX_LOG_ENTRIES`. */
  readonly exact?: boolean | undefined
}

/** Throws an error about a setting. */
export type Fail = (key: 'limits' | 'burst' | 'deadline', expected: string) => never

/** Calls `fail` for a setting of another algorithm. */
export function checkAlgorithmOptions({ algorithm, burst, deadline }: Omit<LimitOptions, 'limits'>, fail: Fail): void {
  const { holdsSlots, hasBurst } = ALGORITHMS[algorithm]
  if (burst !== undefined && !hasBurst) fail('burst', 'algorithm = "token-bucket" with it')
  if (deadline !== undefined && !holdsSlots) fail('deadline', 'algorithm = "concurrency" with it')
}

/** Reads the limits of a policy, ordered by window. */
export function readLimits({ algorithm, limits, burst, deadline, exact }: LimitOptions, fail: Fail): readonly Limit[] {
  const { holdsSlots, hasBurst, isLog } = ALGORITHMS[algorithm]
  if (holdsSlots) {
    if (!/^[1-9]\d{0,5}$/.test(limits)) fail('limits', 'a number of requests at once from 1 to 999999, such as "20"')
    const windowMs = deadline === undefined ? DEFAULT_DEADLINE_MS : parseDuration(deadline)
    return [{ limit: Number(limits), windowMs: windowMs ?? fail('deadline', DURATION_EXPECTED) }]
  }
  const tiers = parseLimits(limits) ?? fail('limits', LIMITS_EXPECTED)
  if (hasBurst) {
    const [tier, ...others] = tiers
    if (!tier || others.length > 0) return fail('limits', 'one tier, the rate at which the bucket is refilled')
    const max = Math.floor(MAX_BUCKET / (tier.windowMs * 1000))
    if ((burst ?? tier.limit) > max) fail(burst ? 'burst' : 'limits', `at most ${max} units with this window`)
  }
  if (isLog && !exact && tiers.some(({ limit }) => limit > MAX_LOG_ENTRIES)) {
    fail('limits', `limits up to ${MAX_LOG_ENTRIES} (for more, algorithm = "quota", or exact = true)`)
  }
  return tiers
}

/** The name of a limit in headers and decisions, e.g. `default-1m`; slots have no window in their name. */
export function formatLimitName(policy: string, algorithm: AlgorithmName, { windowMs }: Limit): string {
  return ALGORITHMS[algorithm].holdsSlots ? policy : `${policy}-${formatWindow(windowMs)}`
}

/** `lua/sorted-set.lua` stores fewer refusals than this in a score. */
export const MAX_AFTER = 1_000

/** Settings of a policy's penalty. */
export interface PenaltyOptions {
  readonly algorithm: AlgorithmName
  /** Duration, for example `10m`. */
  readonly block?: string | undefined
  /** Refusals that lead to it, an integer from 1 to `MAX_AFTER`; default 1. */
  readonly after?: number | undefined
}

export function readPenalty(
  { algorithm, block, after }: PenaltyOptions,
  fail: (key: 'block' | 'after', expected: string) => never,
): PenaltySettings | undefined {
  if (block === undefined) {
    if (after !== undefined) fail('after', 'block, e.g. "10m", with it')
    return undefined
  }
  // A slot may be released at any time: a refused caller has not made too many requests.
  if (ALGORITHMS[algorithm].holdsSlots) fail('block', 'an algorithm other than "concurrency" with it')
  return { blockMs: parseDuration(block) ?? fail('block', DURATION_EXPECTED), after: after ?? 1 }
}
