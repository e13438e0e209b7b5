/** The options of outbound calls, and their checks. */
import { PRIORITIES, type Priority } from '../core/model/policy.ts'
import {
  type Check,
  checkFunction,
  checkInteger,
  checkMethods,
  checkNames,
  checkOneOf,
  checkSignal,
  checkString,
  checkText,
} from '../core/options/check-options.ts'
import { KEY_PREFIX, MAX_COST, OptionError } from '../core/options/option-error.ts'
import type { LimiterStore } from '../library/stores.ts'
import type { Clock } from './clock.ts'

/** The part of a limiter that outbound calls need: `createLimiter()` makes one. */
export interface OutboundLimiter {
  /** Charges `cost` units, an integer from 1, or nothing; one unit if left out. */
  take(identity: string, options?: { readonly cost?: number }): Promise<OutboundDecision>
}

export interface OutboundDecision {
  readonly granted: boolean
  /** Milliseconds after which the same call is granted if nobody else is before it; 0 if it was granted. */
  readonly retryAfterMs: number
}

/** A value, or a function that returns it for each call. */
export type PerCall<T, Arguments extends readonly unknown[]> = T | ((...call: Arguments) => T)

/** Options of the queue in which calls wait. */
export interface QueueOptions<Arguments extends readonly unknown[]> {
  /**
   * Units of a call, an integer from 1.
   * @default 1
   * @example ({ method }) => (method === 'GET' ? 1 : 5)
   */
  readonly cost?: PerCall<number, Arguments> | undefined
  /**
   * The more important go first; if too many wait, the least important are rejected.
   * @default 'default'
   * @example 'critical'
   */
  readonly priority?: PerCall<Priority, Arguments> | undefined
  /**
   * The tenant on whose behalf a call is made: of the same priority, tenants take turns.
   * @default one for all
   * @example ({ headers }) => headers.get('X-Tenant') ?? ''
   */
  readonly tenant?: PerCall<string, Arguments> | undefined
  /**
   * Milliseconds that a call may wait in all, repetitions included, 0 or more or `Infinity`.
   * @default 60_000
   * @example 5_000
   */
  readonly maxWaitMs?: PerCall<number, Arguments> | undefined
  /**
   * Calls of an identity that may wait at once, an integer from 1 to 1,000,000.
   * @default 1_000
   * @example 100
   */
  readonly maxQueued?: number | undefined
  /**
   * A clock for tests.
   * @default the system's
   * @example virtualClock
   */
  readonly clock?: Clock | undefined
  /**
   * Random numbers for tests, from 0 to below 1.
   * @default Math.random
   * @example () => 0.5
   */
  readonly random?: (() => number) | undefined
}

/** A call before it is made. */
export interface OutboundCall {
  readonly url: URL
  /** Uppercase. */
  readonly method: string
  readonly headers: Headers
}

/**
 * Shares what a server reported between processes. Any Redis client will do, e.g. with `@redis/client`:
 *
 *     { read: (key) => redis.get(key), write: (key, text, ttlMs) => redis.set(key, text, { PX: ttlMs }) }
 */
export interface Notes {
  /** @returns the text written last; anything but a string if there is none */
  read(key: string): Promise<unknown>
  /** @param ttlMs milliseconds for which it is kept, an integer from 1 */
  write(key: string, text: string, ttlMs: number): Promise<unknown>
}

/** Shared memory of what servers report, so that several processes obey it together. */
export interface SharedLimits {
  /** Counts the calls of all processes; made by `redisStore()`. */
  readonly store: LimiterStore
  /** Shares what a server reported. */
  readonly notes: Notes
  /**
   * First part of every key.
   * @default 'sluice'
   * @example 'partners'
   */
  readonly keyPrefix?: string | undefined
}

/** Options of `outbound()`. */
export interface OutboundOptions extends QueueOptions<[OutboundCall]> {
  /**
   * Limits to keep whatever the server says.
   * @default only those that the server reports
   * @example createLimiter({ limits: '300/1m' })
   */
  readonly limiter?: OutboundLimiter | undefined
  /**
   * The same for all calls that share limits at the server.
   * @default the URL's origin
   * @example 'partner'
   */
  readonly identity?: PerCall<string, [OutboundCall]> | undefined
  /**
   * Shares what the server reports with other processes.
   * @default this process's memory
   * @example { store, notes }
   */
  readonly shared?: SharedLimits | undefined
  /**
   * Milliseconds within which the server counts a call that was sent, 0 or more.
   * @default until its answer
   * @example 500
   */
  readonly countedWithinMs?: number | undefined
  /**
   * Repetitions after a 429 or 503, from 0 to 100, if method and body allow that.
   * @default 2
   * @example 0
   */
  readonly retries?: number | undefined
  /**
   * Milliseconds after which one call probes a server or a limit that stops all, 0 or more.
   * @default 3_600_000
   * @example 86_400_000
   */
  readonly maxPauseMs?: number | undefined
}

/** Options with a value, theirs or the default. */
export type ResolvedOptions = {
  readonly [Option in keyof OutboundOptions]-?: Exclude<OutboundOptions[Option], undefined>
}

/** Options of `throttle()`. */
export interface ThrottleOptions<Arguments extends readonly unknown[]> extends QueueOptions<Arguments> {
  /**
   * Decides when a call may be made.
   * @example createLimiter({ limits: '10/1s' })
   */
  readonly limiter: OutboundLimiter
  /**
   * The identity that a call is charged to.
   * @example (mail) => mail.domain
   */
  readonly identity: PerCall<string, Arguments>
  /**
   * Ends a call's wait, which is then rejected with the signal's reason. What has begun is the function's own to end.
   * @default none
   * @example AbortSignal.timeout(5_000)
   */
  readonly signal?: PerCall<AbortSignal | undefined, Arguments>
}

export type CallSettings = Readonly<ReturnType<typeof resolveCallSettings>>

const CALL_CHECKS: Readonly<Record<keyof CallSettings, Check>> = {
  identity: checkString,
  cost: (option, value) => checkInteger(option, value, 1, MAX_COST),
  priority: (option, value) => checkOneOf(option, value, PRIORITIES),
  tenant: checkString,
  maxWaitMs: checkDuration,
}

/** The result of a function in place of a value is checked at each call instead. */
const QUEUE_CHECKS = {
  cost: allowFunction(CALL_CHECKS.cost),
  priority: allowFunction(CALL_CHECKS.priority),
  tenant: allowFunction(CALL_CHECKS.tenant),
  maxWaitMs: allowFunction(CALL_CHECKS.maxWaitMs),
  maxQueued: (option: string, value: unknown) => checkInteger(option, value, 1, 1_000_000),
  clock: (option: string, value: unknown) => checkMethods(option, value, ['now', 'after'], 'functions now and after'),
  random: checkFunction,
  limiter: (option: string, value: unknown) => checkMethods(option, value, ['take'], 'what createLimiter() makes'),
  identity: allowFunction(CALL_CHECKS.identity),
}

export const THROTTLE_CHECKS: Readonly<Record<keyof ThrottleOptions<[]>, Check>> = {
  ...QUEUE_CHECKS,
  signal: allowFunction(checkSignal),
}

export const OUTBOUND_CHECKS: Readonly<Record<keyof OutboundOptions, Check>> = {
  ...QUEUE_CHECKS,
  shared: checkShared,
  countedWithinMs: checkDuration,
  retries: (option, value) => checkInteger(option, value, 0, 100),
  maxPauseMs: checkDuration,
}

export function resolveCallSettings<Arguments extends readonly unknown[]>(
  options: QueueOptions<Arguments>,
  identity: PerCall<string, Arguments>,
  call: Arguments,
) {
  const settings = {
    identity: resolve(identity, call),
    cost: resolve(options.cost ?? 1, call),
    priority: resolve(options.priority ?? 'default', call),
    tenant: resolve(options.tenant ?? '', call),
    maxWaitMs: resolve(options.maxWaitMs ?? 60_000, call),
  }
  for (const [option, value] of Object.entries(settings)) CALL_CHECKS[option as keyof CallSettings](option, value)
  return settings
}

export function resolve<T, Arguments extends readonly unknown[]>(value: PerCall<T, Arguments>, call: Arguments): T {
  return typeof value === 'function' ? (value as (...call: Arguments) => T)(...call) : value
}

function allowFunction(check: Check): Check {
  return (option, value) => typeof value === 'function' || check(option, value)
}

function checkShared(option: string, shared: unknown): void {
  checkNames(option, shared, ['store', 'notes', 'keyPrefix'])
  const { store, notes, keyPrefix } = shared as Partial<SharedLimits>
  if (keyPrefix !== undefined) checkText('shared.keyPrefix', keyPrefix, KEY_PREFIX)
  checkMethods('shared.store', store, ['open'], 'what redisStore() makes')
  checkMethods('shared.notes', notes, ['read', 'write'], 'functions read and write')
}

function checkDuration(option: string, value: unknown): void {
  if (!(typeof value === 'number' && value >= 0)) throw new OptionError(option, 'milliseconds from 0', value)
}
