import { checkFunction, checkInteger, checkNames, checkOneOf, OptionError } from '../library/option-error.ts'
import { PRIORITIES, type Priority } from '../model/policy.ts'
import type { Clock } from './clock.ts'

/** What the calling side needs of a limiter: `createLimiter()` makes one. */
export interface OutboundLimiter {
  /**
   * Charges `cost` units, or nothing.
   * @param options.cost units, an integer from 1; default 1
   */
  take(identity: string, options?: { readonly cost?: number }): Promise<OutboundDecision>
}

export interface OutboundDecision {
  readonly granted: boolean
  /** Milliseconds after which the same call is granted if nobody else is before it; 0 if it was granted. */
  readonly retryAfterMs: number
}

/** A value, or how to tell it of each call. */
export type PerCall<T, Arguments extends readonly unknown[]> = T | ((...call: Arguments) => T)

/** How calls wait for their turn. */
export interface QueueOptions<Arguments extends readonly unknown[]> {
  /** Units of a call, an integer from 1; 1 if left out. */
  readonly cost?: PerCall<number, Arguments>
  /** The more important go first; if too many wait, the least important are rejected. `default` if left out. */
  readonly priority?: PerCall<Priority, Arguments>
  /** On whose behalf a call is made: of the same priority, callers take turns. All are one if left out. */
  readonly caller?: PerCall<string, Arguments>
  /**
   * Milliseconds that a call may wait in all, repetitions included, 0 or more; `Infinity` for no bound. As soon as it is
   * known that it would take longer, the call is refused. 60,000 if left out.
   */
  readonly atMostMs?: PerCall<number, Arguments>
  /** Calls of an identity that may wait at once, an integer from 1 to 1,000,000; 1,000 if left out. */
  readonly maxQueued?: number
  /** For tests; the system's if left out. */
  readonly clock?: Clock
  /** For tests: from 0 to below 1. `Math.random` if left out. */
  readonly random?: () => number
}

/** The options of one call. */
export interface CallSettings {
  readonly identity: string
  readonly cost: number
  readonly priority: Priority
  readonly caller: string
  readonly atMostMs: number
}

/** More than any limit allows in a window. */
const MAX_COST = 1_000_000_000
const MAX_QUEUED = 1_000_000

/** Throws `OptionError` for a wrong value. */
type Check = (option: string, value: unknown) => void

const CALL_CHECKS: Readonly<Record<keyof CallSettings, Check>> = {
  identity: checkString,
  cost: (option, value) => checkInteger(option, value, 1, MAX_COST),
  priority: (option, value) => checkOneOf(option, value, PRIORITIES),
  caller: checkString,
  atMostMs: checkDuration,
}

/** Checks of the options that `outbound()` and `throttle()` share, by name. */
export const QUEUE_CHECKS = {
  cost: perCall(CALL_CHECKS.cost),
  priority: perCall(CALL_CHECKS.priority),
  caller: perCall(CALL_CHECKS.caller),
  atMostMs: perCall(CALL_CHECKS.atMostMs),
  maxQueued: (option, value) => checkInteger(option, value, 1, MAX_QUEUED),
  clock: () => {},
  random: checkFunction,
  limiter: checkLimiter,
  identity: perCall(CALL_CHECKS.identity),
} satisfies Readonly<Record<keyof QueueOptions<[]> | 'limiter' | 'identity', Check>>

/**
 * Checks what does not depend on the call, so that a mistake is not found by the first one.
 * @param checks the check of each option
 * @throws {OptionError}
 */
export function checkOptions(name: string, options: object, checks: Readonly<Record<string, Check>>): void {
  checkNames(name, options, Object.keys(checks))
  for (const [option, value] of Object.entries(options)) if (value !== undefined) checks[option]?.(option, value)
}

/** @throws {OptionError} if one of them is not as described */
export function resolveCallSettings<Arguments extends readonly unknown[]>(
  options: QueueOptions<Arguments>,
  identity: PerCall<string, Arguments>,
  call: Arguments,
): CallSettings {
  const settings = {
    identity: resolve(identity, call),
    cost: resolve(options.cost ?? 1, call),
    priority: resolve(options.priority ?? 'default', call),
    caller: resolve(options.caller ?? '', call),
    atMostMs: resolve(options.atMostMs ?? 60_000, call),
  }
  for (const [option, value] of Object.entries(settings)) CALL_CHECKS[option as keyof CallSettings](option, value)
  return settings
}

/** @returns the value for this call */
export function resolve<T, Arguments extends readonly unknown[]>(value: PerCall<T, Arguments>, call: Arguments): T {
  return typeof value === 'function' ? (value as (...call: Arguments) => T)(...call) : value
}

/** What a function returns is checked at each call. */
function perCall(check: Check): Check {
  return (option, value) => typeof value === 'function' || check(option, value)
}

/** @throws {OptionError} */
export function checkLimiter(option: string, limiter: unknown): void {
  if (typeof (limiter as OutboundLimiter | null | undefined)?.take !== 'function') {
    throw new OptionError(option, 'what createLimiter() makes', typeof limiter)
  }
}

/** @throws {OptionError} */
export function checkDuration(option: string, value: unknown): void {
  if (!(typeof value === 'number' && value >= 0)) throw new OptionError(option, 'milliseconds from 0', value)
}

function checkString(option: string, value: unknown): void {
  if (typeof value !== 'string') throw new OptionError(option, 'a string', value)
}
