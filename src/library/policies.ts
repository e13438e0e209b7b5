/** Policies of a limiter, and a function for each algorithm. */
import type { StoreCharge } from '../core/model/charge.ts'
import { ALGORITHM_NAMES, type AlgorithmName, type CalendarUnit, LIMITS_EXPECTED } from '../core/model/limits.ts'
import type { OnStoreError, Policy, PolicyLimit, PolicyMode } from '../core/model/policy.ts'
import { readCalendarLimits } from '../core/options/calendar.ts'
import type { CheckedText } from '../core/options/checked-text.ts'
import { OptionError } from '../core/options/option-error.ts'
import { type AlgorithmOptions, OPTIONS, type OptionName, type PenaltyOptions } from '../core/options/policy-options.ts'
import { type Fail, readLimits, readPenalty } from '../core/options/read-limits.ts'
import * as v from '../core/options/readers.ts'

/** A set of limits that a limiter holds each identity to. */
export interface PolicyOptions extends AlgorithmOptions, PenaltyOptions {
  /**
   * Up to 64 letters, digits, "-" or "_"; unique among the policies, and part of Redis keys.
   * @example 'login'
   */
  readonly name: string
  /**
   * Limits of plans, which calls name, over the same windows; without a plan, `limits`. What was used counts whatever the
   * plan.
   * @default none
   * @example { pro: '100/1s, 5000/1m' }
   */
  readonly plans?: Readonly<Record<string, string>> | undefined
  /**
   * `shadow`: it is charged where it can be, and reports what it would refuse, but refuses nothing.
   * @default 'enforce'
   * @example 'shadow'
   */
  readonly mode?: PolicyMode | undefined
  /**
   * Decides while the store gives no answer.
   * @default that of the limiter
   * @example 'closed'
   */
  readonly onStoreError?: OnStoreError | undefined
}

/**
 * Limits exactly: no window of that length ever holds more than its limit. Any number of limits.
 * - Pro: it holds at every moment, and a refusal says to the millisecond when the same succeeds.
 * - Con: it keeps an entry for each admission in the longest window, so a limit above 100,000 needs `allowLargeLog`.
 * @example slidingWindow('10/1s, 120/1m')
 * @throws {OptionError} for anything but limits
 */
export function slidingWindow<LimitsText extends string>(
  limits: CheckedText<LimitsText>,
  options: Pick<AlgorithmOptions, 'allowLargeLog'> = {},
): AlgorithmOptions {
  return defineAlgorithm('slidingWindow', { algorithm: 'sliding-window', limits }, options)
}

/**
 * The same as `slidingWindow`, kept as a sorted set.
 * - Pro: it works with Redis before 6.2, which lacks `XADD … MINID`.
 * - Con: it takes eight times the memory, and more billed commands.
 * @example sortedSet('10/1s')
 * @throws {OptionError} for anything but limits
 */
export function sortedSet<LimitsText extends string>(
  limits: CheckedText<LimitsText>,
  options: Pick<AlgorithmOptions, 'allowLargeLog'> = {},
): AlgorithmOptions {
  return defineAlgorithm('sortedSet', { algorithm: 'sorted-set', limits }, options)
}

/**
 * A bucket that is refilled continuously, at the rate of its one limit.
 * - Pro: it slows callers down in place of stopping them, allows bursts of a chosen size, and keeps one small state.
 * - Con: one limit only; after a pause, a window may hold the burst and what is refilled meanwhile.
 * @param burst units that it holds; its limit if left out
 * @example tokenBucket('10/1s', { burst: 50 })
 * @throws {OptionError} for anything but one limit, or more units than its arithmetic is exact for
 */
export function tokenBucket<LimitsText extends string>(
  limits: CheckedText<LimitsText>,
  options: Pick<AlgorithmOptions, 'burst'> = {},
): AlgorithmOptions {
  return defineAlgorithm('tokenBucket', { algorithm: 'token-bucket', limits }, options)
}

/**
 * Windows aligned to the clock, such as each whole minute.
 * - Pro: it is what contracts per calendar minute say, and keeps one small state, whatever the limit.
 * - Con: around a boundary, up to twice the limit passes; days are those of UTC.
 * @example fixedWindow('100/1m')
 * @throws {OptionError} for anything but limits
 */
export function fixedWindow<LimitsText extends string>(limits: CheckedText<LimitsText>): AlgorithmOptions {
  return defineAlgorithm('fixedWindow', { algorithm: 'fixed-window', limits })
}

/**
 * Budgets for long windows, each of which begins at its first use: of a length, such as `30d`, or a `day`, `week` (from
 * Monday), `month` or `year` of the calendar.
 * - Pro: it keeps one small state for all of its windows, whatever the limits.
 * - Con: around the end of a window, up to twice the limit passes, and who has used a budget waits for its end.
 * @param timeZone IANA name of the time zone of the calendar; UTC if left out
 * @param starts day on which months begin, 1 to 31, or the last one of a shorter month; 1 if left out
 * @example quota('1000/day, 10000/month', { timeZone: 'Europe/Berlin' })
 * @throws {OptionError} for anything but limits, and for an unknown time zone
 */
export function quota<LimitsText extends string>(
  limits: CheckedText<LimitsText, CalendarUnit>,
  options: Pick<AlgorithmOptions, 'timeZone' | 'starts'> = {},
): AlgorithmOptions {
  return defineAlgorithm('quota', { algorithm: 'quota', limits }, options)
}

/**
 * Admits this many at once: `hold` takes a slot, until it is released.
 * - Pro: it limits slow work, such as uploads and model calls, which a number of requests in a window does not.
 * - Con: each release is a call of its own, and a slot that a crash leaves behind is taken until `slotTtl` is over.
 * @param slotTtl time after which a slot that nobody renews is free, e.g. `30s`; a minute if left out
 * @example concurrency(20, { slotTtl: '30s' })
 * @throws {OptionError} for anything but an integer from 1 to 999,999
 */
export function concurrency(slots: number, options: Pick<AlgorithmOptions, 'slotTtl'> = {}): AlgorithmOptions {
  // In JSON, a text has quotes, with which it is no number.
  return defineAlgorithm('concurrency', { algorithm: 'concurrency', limits: JSON.stringify(slots) }, options)
}

/** The options that the function of an algorithm takes besides the limits. */
const ALGORITHM_OPTIONS: Readonly<Record<AlgorithmName, readonly OptionName[]>> = {
  'sliding-window': ['allowLargeLog'],
  'token-bucket': ['burst'],
  'fixed-window': [],
  quota: ['timeZone', 'starts'],
  'sorted-set': ['allowLargeLog'],
  concurrency: ['slotTtl'],
}

function defineAlgorithm(
  name: string,
  algorithm: AlgorithmOptions,
  options: Partial<AlgorithmOptions> = {},
): AlgorithmOptions {
  v.checkNames(name, options, ALGORITHM_OPTIONS[algorithm.algorithm])
  const defined = { ...algorithm, ...options }
  v.readValues(ALGORITHM_READERS, defined, name)
  readLimits({ name: '', ...defined }, createFail(name, defined), readCalendarLimits)
  return defined
}

const LIMITS = v.anyText(LIMITS_EXPECTED)

const ALGORITHM_READERS = {
  algorithm: v.required(v.oneOf(...ALGORITHM_NAMES)),
  limits: v.required(LIMITS),
  ...OPTIONS,
}

const READERS = {
  name: v.required(v.NAME),
  mode: v.withDefault(v.MODE, 'enforce'),
  onStoreError: v.STORE_ERROR_FALLBACK,
  ...ALGORITHM_READERS,
  plans: v.record(v.NAME, LIMITS, 'limits by plan'),
} satisfies Readonly<Record<keyof PolicyOptions, v.Reader>>

function createFail(where: string, options: AlgorithmOptions & PenaltyOptions): Fail {
  return (key, expected) => {
    throw new OptionError(`${where}.${key}`, expected, options[key])
  }
}

/** A policy of a limiter. */
export interface LimiterPolicy extends Policy {
  /** Each plan changes these terms of a charge. */
  readonly termsByPlan?: ReadonlyMap<string, PlanTerms> | undefined
  /** Reads other limits over the same windows. @param option where they stand @throws {OptionError} */
  readonly readOther?: (option: string, text: string) => Pick<Policy, 'limits' | 'burst'>
}

export type PlanTerms = Pick<StoreCharge, 'limits' | 'burst' | 'plan'>

/** @throws {OptionError} naming the option to fix */
export function readPolicies(
  options: readonly PolicyOptions[],
  onStoreError: OnStoreError,
  toPath = (index: number) => `policies[${index}]`,
): readonly LimiterPolicy[] {
  if (!Array.isArray(options) || options.length === 0) throw new OptionError('policies', 'a list of policies', options)
  const policies = options.map((policy, index) => readPolicy(policy, toPath(index), onStoreError))
  policies.forEach(({ name }, index) => {
    if (policies.findIndex((other) => other.name === name) < index) {
      throw new OptionError(`policies[${index}].name`, 'a name used once', name)
    }
  })
  return policies
}

/** @throws {OptionError} naming the option to fix, below `path` */
export function readPolicy(options: PolicyOptions, path: string, onStoreErrorOfAll: OnStoreError): LimiterPolicy {
  const values = v.readOptions(path, options, READERS, path)
  const { name, algorithm, plans, mode, onStoreError = onStoreErrorOfAll } = values
  const fail = createFail(path, options)
  const { limits, burst } = readLimits(options, fail, readCalendarLimits)
  const readOther = createOtherReader(options, limits)
  const terms = Object.entries(plans ?? {}).map(([plan, text]) => {
    return [plan, toTerms(readOther(`${path}.plans.${plan}`, text), plan)] as const
  })
  return {
    name,
    algorithm,
    limits,
    burst,
    termsByPlan: plans && new Map(terms),
    readOther,
    penalty: readPenalty(options, limits, fail),
    mode,
    onStoreError,
  }
}

/** All limits of a policy have the same windows: a count then means the same in each, also for a caller that changes plans. */
function createOtherReader(options: PolicyOptions, base: readonly PolicyLimit[]) {
  const formatWindows = (limits: readonly PolicyLimit[]) => limits.map(({ name }) => name).join()
  return (option: string, text: string) => {
    const fail = (expected: string): never => {
      throw new OptionError(option, expected, text)
    }
    const own = { ...options, limits: v.read(LIMITS, text, option) }
    const { limits, burst } = readLimits(own, (_, expected) => fail(expected), readCalendarLimits)
    if (formatWindows(limits) !== formatWindows(base)) fail('the same windows in every plan')
    return { limits, burst }
  }
}

/** @param plan names these limits */
export function toTerms({ limits, burst }: Pick<Policy, 'limits' | 'burst'>, plan: string): PlanTerms {
  return { limits, ...(burst !== undefined && { burst }), plan }
}

/** @returns units that one decision over all of these policies may cost at most, in any plan */
export function findMaxCost(policies: readonly LimiterPolicy[]): number {
  const all = policies.flatMap((policy) => [policy, ...(policy.termsByPlan?.values() ?? [])])
  return Math.min(...all.flatMap(({ limits, burst }) => [...limits.map(({ limit }) => limit), burst ?? Infinity]))
}
