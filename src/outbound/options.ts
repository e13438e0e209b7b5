import { OptionError } from '../config/option-error.ts'
import { checkFunction, checkInteger, checkOneOf } from '../library/check-options.ts'
import { PRIORITIES, type Priority } from '../model/policy.ts'
import type { Clock } from './clock.ts'
import type { OutboundLimiter } from './limiter.ts'

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

export const QUEUE_OPTIONS: readonly (keyof QueueOptions<[]>)[] = [
  'cost',
  'priority',
  'caller',
  'atMostMs',
  'maxQueued',
  'clock',
  'random',
]

/** More than any limit allows in a window. */
const MAX_COST = 1_000_000_000
const MAX_QUEUED = 1_000_000

/** One call's own. */
export interface CallTerms {
  readonly identity: string
  readonly cost: number
  readonly priority: Priority
  readonly caller: string
  readonly atMostMs: number
}

const DEFAULT_TERMS = { cost: 1, priority: 'default', caller: '', atMostMs: 60_000 } as const

/** @throws {OptionError} if one of them is not as described */
export function termsOf<Arguments extends readonly unknown[]>(
  options: QueueOptions<Arguments>,
  identity: PerCall<string, Arguments>,
  call: Arguments,
): CallTerms {
  const terms = {
    identity: ofCall(identity, call),
    cost: ofCall(options.cost ?? DEFAULT_TERMS.cost, call),
    priority: ofCall(options.priority ?? DEFAULT_TERMS.priority, call),
    caller: ofCall(options.caller ?? DEFAULT_TERMS.caller, call),
    atMostMs: ofCall(options.atMostMs ?? DEFAULT_TERMS.atMostMs, call),
  }
  checkTerms(terms)
  return terms
}

/**
 * Checks what does not depend on the call, so that a mistake is not found by the first one.
 * @throws {OptionError}
 */
export function checkQueueOptions<Arguments extends readonly unknown[]>(options: QueueOptions<Arguments>): void {
  const fixed = Object.entries(options).filter(([, value]) => value !== undefined && typeof value !== 'function')
  checkTerms({ identity: '', ...DEFAULT_TERMS, ...Object.fromEntries(fixed) })
  if (options.maxQueued !== undefined) checkInteger('maxQueued', options.maxQueued, 1, MAX_QUEUED)
  checkFunction('random', options.random)
}

function checkTerms({ identity, cost, priority, caller, atMostMs }: CallTerms): void {
  checkText('identity', identity)
  checkInteger('cost', cost, 1, MAX_COST)
  checkOneOf('priority', priority, PRIORITIES)
  checkText('caller', caller)
  checkDuration('atMostMs', atMostMs)
}

/** @throws {OptionError} */
export function checkLimiter(limiter: OutboundLimiter | undefined): void {
  if (typeof limiter?.take !== 'function')
    throw new OptionError('limiter', 'what createLimiter() makes', typeof limiter)
}

/** @throws {OptionError} */
export function checkDuration(option: string, value: unknown): void {
  if (!(typeof value === 'number' && value >= 0)) throw new OptionError(option, 'milliseconds from 0', value)
}

function checkText(option: string, value: unknown): void {
  if (typeof value !== 'string') throw new OptionError(option, 'a string', value)
}

/** @returns the value for this call */
export function ofCall<T, Arguments extends readonly unknown[]>(value: PerCall<T, Arguments>, call: Arguments): T {
  return typeof value === 'function' ? (value as (...call: Arguments) => T)(...call) : value
}
