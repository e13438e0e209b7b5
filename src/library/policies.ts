import { ALGORITHM_NAMES, DURATION_EXPECTED, LIMITS_EXPECTED } from '../core/model/limits.ts'
import { ON_STORE_ERROR, type OnStoreError, POLICY_MODES, type Policy, type PolicyMode } from '../core/model/policy.ts'
import { readCalendarLimits } from '../core/options/calendar.ts'
import { checkInteger, checkNames, checkOneOf, checkString, checkText } from '../core/options/check-options.ts'
import { MAX_COST, NAME, OptionError } from '../core/options/option-error.ts'
import {
  type AlgorithmOptions,
  type Fail,
  MAX_AFTER,
  type PenaltyOptions,
  readLimits,
  readPenalty,
} from '../core/options/read-limits.ts'

/** A set of limits that a limiter holds each identity to. */
export interface PolicyOptions extends AlgorithmOptions, PenaltyOptions {
  /**
   * Up to 64 letters, digits, "-" or "_"; unique among the policies, and part of Redis keys.
   * @example 'login'
   */
  readonly name: string
  /**
   * `shadow`: it is charged where it can be, and reports what it would refuse, but refuses nothing.
   * @default 'enforce'
   * @example 'shadow'
   */
  readonly mode?: PolicyMode | undefined
  /**
   * What decides while the store gives no answer.
   * @default that of the limiter
   * @example 'closed'
   */
  readonly onStoreError?: OnStoreError | undefined
}

/**
 * Limits exactly: no window of that length ever holds more than its limit. Any number of limits.
 * @example slidingWindow('10/1s, 120/1m')
 * @throws {OptionError} for anything but limits
 */
export function slidingWindow(limits: string, options: Pick<AlgorithmOptions, 'allowLargeLog'> = {}): AlgorithmOptions {
  return defineAlgorithm('slidingWindow', { algorithm: 'sliding-window', limits }, options, ['allowLargeLog'])
}

/**
 * The same as `slidingWindow`, kept as a sorted set: for Redis before 6.2, which lacks `XADD … MINID`, at eight times the memory.
 * @example sortedSet('10/1s')
 * @throws {OptionError} for anything but limits
 */
export function sortedSet(limits: string, options: Pick<AlgorithmOptions, 'allowLargeLog'> = {}): AlgorithmOptions {
  return defineAlgorithm('sortedSet', { algorithm: 'sorted-set', limits }, options, ['allowLargeLog'])
}

/**
 * A bucket that is refilled continuously, at the rate of its one limit.
 * @param burst units that it holds; its limit if left out
 * @example tokenBucket('10/1s', { burst: 50 })
 * @throws {OptionError} for anything but one limit, or more units than its arithmetic is exact for
 */
export function tokenBucket(limits: string, options: Pick<AlgorithmOptions, 'burst'> = {}): AlgorithmOptions {
  return defineAlgorithm('tokenBucket', { algorithm: 'token-bucket', limits }, options, ['burst'])
}

/**
 * Windows aligned to the clock, such as each whole minute. Around their boundaries, up to twice the limit passes.
 * @example fixedWindow('100/1m')
 * @throws {OptionError} for anything but limits
 */
export function fixedWindow(limits: string): AlgorithmOptions {
  return defineAlgorithm('fixedWindow', { algorithm: 'fixed-window', limits })
}

/**
 * Budgets for long windows, each of which begins at its first use: of a length, such as `30d`, or a `day`, `week` (from
 * Monday), `month` or `year` of the calendar.
 * @param timeZone IANA name of the time zone of the calendar; UTC if left out
 * @param starts day on which months begin, 1 to 31, or the last one of a shorter month; 1 if left out
 * @example quota('1000/day, 10000/month', { timeZone: 'Europe/Berlin' })
 * @throws {OptionError} for anything but limits, and for an unknown time zone
 */
export function quota(limits: string, options: Pick<AlgorithmOptions, 'timeZone' | 'starts'> = {}): AlgorithmOptions {
  return defineAlgorithm('quota', { algorithm: 'quota', limits }, options, ['timeZone', 'starts'])
}

/**
 * Admits this many at once: `hold` takes a slot, until it is released.
 * @param slotTtl time after which a slot that nobody renews is free, e.g. `30s`; a minute if left out
 * @example concurrency(20, { slotTtl: '30s' })
 * @throws {OptionError} for anything but an integer from 1 to 999,999
 */
export function concurrency(slots: number, options: Pick<AlgorithmOptions, 'slotTtl'> = {}): AlgorithmOptions {
  // In JSON, a text has quotes, with which it is no number.
  return defineAlgorithm('concurrency', { algorithm: 'concurrency', limits: JSON.stringify(slots) }, options, [
    'slotTtl',
  ])
}

/** @param known names of options that the function takes beside the limits */
function defineAlgorithm(
  name: string,
  algorithm: AlgorithmOptions,
  options: Partial<AlgorithmOptions> = {},
  known: readonly string[] = [],
): AlgorithmOptions {
  checkNames(name, options, known)
  const defined = { ...algorithm, ...options }
  parseAlgorithmLimits(`${name}.`, defined)
  return defined
}

const ALGORITHM_OPTIONS = ['algorithm', 'limits', 'burst', 'slotTtl', 'allowLargeLog', 'timeZone', 'starts']
const OPTIONS = ['name', ...ALGORITHM_OPTIONS, 'mode', 'onStoreError', 'penalty', 'penaltyAfter']

/** @throws {OptionError} naming the option to fix */
export function readPolicies(options: readonly PolicyOptions[], onStoreError: OnStoreError): readonly Policy[] {
  if (!Array.isArray(options) || options.length === 0) throw new OptionError('policies', 'a list of policies', options)
  const policies = options.map((policy, index) => readPolicy(policy, `policies[${index}]`, onStoreError))
  policies.forEach(({ name }, index) => {
    if (policies.findIndex((other) => other.name === name) < index) {
      throw new OptionError(`policies[${index}].name`, 'a name used once', name)
    }
  })
  return policies
}

/** @throws {OptionError} naming the option to fix, below `path` */
export function readPolicy(options: PolicyOptions, path: string, onStoreErrorOfAll: OnStoreError): Policy {
  checkNames(path, options, OPTIONS)
  const { name, algorithm, mode = 'enforce', onStoreError = onStoreErrorOfAll, penalty, penaltyAfter } = options
  checkText(`${path}.name`, name, NAME)
  checkOneOf(`${path}.mode`, mode, POLICY_MODES)
  checkOneOf(`${path}.onStoreError`, onStoreError, ON_STORE_ERROR)
  if (penalty !== undefined) checkString(`${path}.penalty`, penalty, DURATION_EXPECTED)
  if (penaltyAfter !== undefined) checkInteger(`${path}.penaltyAfter`, penaltyAfter, 1, MAX_AFTER)
  const { limits, burst } = parseAlgorithmLimits(`${path}.`, options)
  return {
    name,
    algorithm,
    limits,
    burst,
    penalty: readPenalty(options, limits, (key, expected) => {
      throw new OptionError(`${path}.${key}`, expected, options[key])
    }),
    mode,
    onStoreError,
  }
}

/** @returns units that one decision over all of these policies may cost at most */
export function findMaxCost(policies: readonly Policy[]): number {
  return Math.min(...policies.flatMap(({ limits, burst }) => [...limits.map(({ limit }) => limit), burst ?? Infinity]))
}

/**
 * @param prefix precedes the name of an option in errors
 * @throws {OptionError} naming the option to fix
 */
export function parseAlgorithmLimits(prefix: string, options: AlgorithmOptions & { readonly name?: string }) {
  const { algorithm, limits, burst, allowLargeLog = false, timeZone, starts } = options
  checkOneOf(`${prefix}algorithm`, algorithm, ALGORITHM_NAMES)
  checkString(`${prefix}limits`, limits, LIMITS_EXPECTED)
  if (burst !== undefined) checkInteger(`${prefix}burst`, burst, 1, MAX_COST)
  checkOneOf(`${prefix}allowLargeLog`, allowLargeLog, [true, false])
  if (timeZone !== undefined) checkString(`${prefix}timeZone`, timeZone, 'the name of a time zone')
  if (starts !== undefined) checkInteger(`${prefix}starts`, starts, 1, 31)
  const fail: Fail = (key, expected) => {
    throw new OptionError(`${prefix}${key}`, expected, options[key])
  }
  return readLimits({ name: '', ...options }, fail, readCalendarLimits)
}
