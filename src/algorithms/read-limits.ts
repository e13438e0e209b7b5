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

/** What a policy says of its limits. */
export interface LimitOptions {
  readonly algorithm: AlgorithmName
  /** Such as `10/1s, 120/1m`; of `concurrency`, a number. */
  readonly limits: string
  /** `token-bucket`: units that the bucket holds, an integer from 1; its limit if left out. */
  readonly burst?: number | undefined
  /** `concurrency`: how long a slot is held at most unless it is renewed; a minute if left out. */
  readonly deadline?: string | undefined
  /** Whether an exact log may hold more than `MAX_LOG_ENTRIES`. */
  readonly exact?: boolean | undefined
}

/** Throws. @param key the option to fix */
export type Fail = (key: 'limits' | 'burst' | 'deadline', expected: string) => never

/** Calls `fail` for an option that another algorithm has. */
export function checkAlgorithmOptions({ algorithm, burst, deadline }: Omit<LimitOptions, 'limits'>, fail: Fail): void {
  const { holdsSlots, hasBurst } = ALGORITHMS[algorithm]
  if (burst !== undefined && !hasBurst) fail('burst', 'algorithm = "token-bucket" with it')
  if (deadline !== undefined && !holdsSlots) fail('deadline', 'algorithm = "concurrency" with it')
}

/** Reads the tiers of a policy, ordered by window. */
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
    const most = Math.floor(MAX_BUCKET / (tier.windowMs * 1000))
    if ((burst ?? tier.limit) > most) fail(burst ? 'burst' : 'limits', `at most ${most} units with this window`)
  }
  if (isLog && !exact && tiers.some(({ limit }) => limit > MAX_LOG_ENTRIES)) {
    fail('limits', `limits up to ${MAX_LOG_ENTRIES} (for more, algorithm = "quota", or exact = true)`)
  }
  return tiers
}

/** What a tier is called in fields and decisions, e.g. `default-1m`; slots have no window to be called by. */
export function formatLimitName(policy: string, algorithm: AlgorithmName, { windowMs }: Limit): string {
  return ALGORITHMS[algorithm].holdsSlots ? policy : `${policy}-${formatWindow(windowMs)}`
}

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

export function readPenalty(
  { algorithm, block, after }: PenaltyOptions,
  fail: (key: 'block' | 'after', expected: string) => never,
): PenaltySettings | undefined {
  if (block === undefined) {
    if (after !== undefined) fail('after', 'block, e.g. "10m", with it')
    return undefined
  }
  // A slot is free at any moment: who is refused one has done nothing too often.
  if (ALGORITHMS[algorithm].holdsSlots) fail('block', 'an algorithm other than "concurrency" with it')
  return { blockMs: parseDuration(block) ?? fail('block', DURATION_EXPECTED), after: after ?? 1 }
}
