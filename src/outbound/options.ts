import { OptionError } from '../config/option-error.ts'
import { checkFunction, checkInteger, checkNames, checkOneOf } from '../library/check-options.ts'
import type { LimiterStore } from '../library/stores.ts'
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

/** What is known of a call before it is made. */
export interface OutboundCall {
  readonly url: URL
  /** In capital letters. */
  readonly method: string
  readonly headers: Headers
}

/**
 * Where processes tell each other what a server said. Any Redis client will do, e.g. with `@redis/client`:
 *
 *     { read: (key) => redis.get(key), write: (key, text, ttlMs) => redis.set(key, text, { PX: ttlMs }) }
 */
export interface Notes {
  /** @returns the text written last; anything but a string if there is none */
  read(key: string): Promise<unknown>
  /** @param ttlMs milliseconds for which it is kept, an integer from 1 */
  write(key: string, text: string, ttlMs: number): Promise<unknown>
}

/** Where what servers say is kept, so that several processes obey it together. */
export interface Learned {
  /** What `redisStore()` makes: where the calls of all processes are counted. */
  readonly store: LimiterStore
  /** Where processes tell each other what a server said. */
  readonly notes: Notes
  /** First part of every key; `sluice` if left out. */
  readonly prefix?: string
}

/** How `outbound()` waits, what for, and what it learns. */
export interface OutboundOptions extends QueueOptions<[OutboundCall]> {
  /** Limits to keep whatever the server says. Default: only those that the server reports. */
  readonly limiter?: OutboundLimiter
  /**
   * Whose limits a call is charged to: the same for all calls that share a budget at the server. The URL's origin if
   * left out.
   */
  readonly identity?: PerCall<string, [OutboundCall]>
  /** Where what the server says is kept; this process's memory if left out. */
  readonly learned?: Learned
  /**
   * How many milliseconds after its sending the server has counted a call at the latest, 0 or more. If left out, that may be
   * as late as its answer, which makes calls to a server that takes long to answer fewer than it allows.
   */
  readonly countedWithinMs?: number
  /**
   * How often a call is made again after a 429 or 503, an integer from 0 to 100, if its method is idempotent and its
   * body can be sent again. 2 if left out.
   */
  readonly retries?: number
  /**
   * The longest pause in milliseconds that a server can impose, 0 or more, or `Infinity`: then one call finds out
   * whether it still refuses. The same holds for limits with longer windows. An hour if left out.
   */
  readonly maxPauseMs?: number
}

/** How `throttle()` waits, and what for. */
export interface ThrottleOptions<Arguments extends readonly unknown[]> extends QueueOptions<Arguments> {
  /** Decides when a call may be made. */
  readonly limiter: OutboundLimiter
  /** Whose limits a call is charged to. */
  readonly identity: PerCall<string, Arguments>
  /** Ends a call's wait, which is then rejected with the signal's reason. What has begun is the function's own to end. */
  readonly signal?: PerCall<AbortSignal | undefined, Arguments>
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

/** The result of a function is checked at each call instead. */
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
