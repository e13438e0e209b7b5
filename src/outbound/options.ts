import { PRIORITIES, type Priority } from '../request/policy/priority.ts'
import type { Clock } from './clock.ts'
import type { OutboundLimiter } from './limiter.ts'

/** A value, or how to tell it of each call. */
export type PerCall<T, Arguments extends readonly unknown[]> = T | ((...call: Arguments) => T)

/** How calls wait for their turn. */
export interface WaitOptions<Arguments extends readonly unknown[]> {
  /** Units of a call, an integer from 1. Default: 1. */
  readonly cost?: PerCall<number, Arguments>
  /** The more important go first; if too many wait, the least important are rejected. Default: `default`. */
  readonly priority?: PerCall<Priority, Arguments>
  /** On whose behalf a call is made: of the same priority, callers take turns. Default: all are one. */
  readonly caller?: PerCall<string, Arguments>
  /**
   * Milliseconds that a call may wait in all, repetitions included, 0 or more; `Infinity` for no bound. As soon as it is
   * known that it would take longer, the call is refused. Default: 60,000.
   */
  readonly atMostMs?: PerCall<number, Arguments>
  /** Calls of an identity that may wait at once, an integer from 1. Default: 1,000. */
  readonly maxQueued?: number
  /** For tests. Default: the system's. */
  readonly clock?: Clock
  /** For tests: from 0 to below 1. Default: `Math.random`. */
  readonly random?: () => number
}

/** One call's own. */
export interface CallTerms {
  readonly cost: number
  readonly priority: Priority
  readonly caller: string
  readonly atMostMs: number
}

/** @throws {TypeError} if one of them is not as described */
export function termsOf<Arguments extends readonly unknown[]>(
  { cost = 1, priority = 'default', caller = '', atMostMs = 60_000 }: WaitOptions<Arguments>,
  call: Arguments,
): CallTerms {
  return {
    cost: checkCount('cost', ofCall(cost, call)),
    priority: checked('priority', ofCall(priority, call), isPriority, PRIORITIES.join(', ')),
    caller: ofCall(caller, call),
    atMostMs: checked('atMostMs', ofCall(atMostMs, call), isDuration, 'milliseconds, 0 or more'),
  }
}

/**
 * Checks what does not depend on the call, so that a mistake is not found by the first one.
 * @throws {TypeError}
 */
export function checkWaitOptions<Arguments extends readonly unknown[]>(options: WaitOptions<Arguments>): void {
  const { cost, priority, atMostMs, maxQueued } = options
  if (cost !== undefined && typeof cost !== 'function') checkCount('cost', cost)
  if (priority !== undefined && typeof priority !== 'function') termsOf({ priority }, [])
  if (atMostMs !== undefined && typeof atMostMs !== 'function') termsOf({ atMostMs }, [])
  if (maxQueued !== undefined) checkCount('maxQueued', maxQueued)
}

/** @throws {TypeError} */
export function checkLimiter(limiter: OutboundLimiter | undefined): void {
  checked('limiter', limiter, (value) => typeof value?.take === 'function', 'a limiter, with a function `take`')
}

/** @throws {TypeError} */
export function checkCount(name: string, value: number, least = 1): number {
  return checked(name, value, (count) => Number.isSafeInteger(count) && count >= least, `an integer from ${least}`)
}

/** @throws {TypeError} */
export function checked<T>(name: string, value: T, isExpected: (value: T) => boolean, expected: string): T {
  if (isExpected(value)) return value
  const shown = typeof value === 'object' ? typeof value : String(value)
  throw new TypeError(`${name}: expected ${expected}, got ${shown.slice(0, 100)}`)
}

/** @returns the value for this call */
export function ofCall<T, Arguments extends readonly unknown[]>(value: PerCall<T, Arguments>, call: Arguments): T {
  return typeof value === 'function' ? (value as (...call: Arguments) => T)(...call) : value
}

export function isDuration(value: unknown): boolean {
  return typeof value === 'number' && value >= 0
}

function isPriority(value: Priority): boolean {
  return PRIORITIES.includes(value)
}
