/** The options of outbound calls, and their checks. */
import { PRIORITIES, type Priority } from '../core/model/policy.ts'
import * as v from '../core/options/readers.ts'
import { listNames, mapNames } from '../core/runtime/lists.ts'
import type { LimiterDecision } from '../library/decision.ts'
import type { Clock } from './clock.ts'
import type { WaitReason } from './gate.ts'
import type { ServerLimit } from './read-limits.ts'

/** The part of a limiter that outbound calls need: `createLimiter()` makes one. */
export interface OutboundLimiter {
  /** Charges `cost` units, an integer from 1, or nothing; one unit if left out. */
  take(identity: string, options?: { readonly cost?: number }): Promise<OutboundDecision>
  /** Corrects what a decision has charged to so many units, an integer from 0; needed for `actualCost`. */
  settle?(identity: string, decision: LimiterDecision, units: number): Promise<void>
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
   * Calls of a resource that may wait at once, an integer from 1 to 1,000,000.
   * @default 1_000
   * @example 100
   */
  readonly maxQueued?: number | undefined
  /**
   * Calls of a resource under way at once, an integer from 1: until the response, not its body.
   * @default unbounded
   * @example 20
   */
  readonly concurrency?: number | undefined
  /**
   * Ends a call's wait, which is then rejected with the signal's reason. What has begun is the function's own to end.
   * @default none
   * @example AbortSignal.timeout(5_000)
   */
  readonly signal?: PerCall<AbortSignal | undefined, Arguments>
  /**
   * Called when calls begin to wait for a second or longer.
   * @default none
   * @example ({ resource, reason, waitMs }) => console.log(`${resource}: ${waitMs} ms (${reason})`)
   */
  readonly onWait?: ((wait: OutboundWait) => void) | undefined
  /**
   * Called at the end of each wait, also of one that took no time. What it throws is logged, and changes nothing.
   * @default none
   * @example ({ outcome, durationMs }) => histogram.record(durationMs, { outcome })
   */
  readonly onDecision?: ((decision: ObservedCall) => void) | undefined
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

/** Limits to keep whatever the server says: either `limiter` or `limits`. */
export interface OwnLimits {
  /**
   * Decides when a call may be made. It charges the resource.
   * @default none
   * @example createLimiter({ limits: '300/1m', store: redisStore(redis) })
   */
  readonly limiter?: OutboundLimiter | undefined
  /**
   * Limits of this process, as for `createLimiter`.
   * @default none
   * @example '10/1s, 300/1m'
   */
  readonly limits?: string | undefined
}

/** A call before it is made. */
export interface OutboundCall {
  readonly url: URL
  /** Uppercase. */
  readonly method: string
  readonly headers: Headers
}

/** Calls of a resource begin to wait. */
export interface OutboundWait {
  readonly resource: string
  /** The limiter, a refusal, or what the server reported. */
  readonly reason: WaitReason
  /** Milliseconds until the next call, as far as is known. */
  readonly waitMs: number
  /** Calls that wait. */
  readonly waiting: number
}

/**
 * - `WAIT_TOO_LONG`: the call cannot be made before its deadline, as far as is known now.
 * - `QUEUE_FULL`: too many calls wait, and none of them is less important than this one.
 */
export type OutboundErrorCode = 'WAIT_TOO_LONG' | 'QUEUE_FULL'

/** The end of a call's wait, as `onDecision` gets it. */
export interface ObservedCall {
  readonly resource: string
  /** `started`, the code of its `OutboundError`, or `failed`: its signal was aborted, or the limiter has thrown. */
  readonly outcome: 'started' | OutboundErrorCode | 'failed'
  readonly cost: number
  /** The same as that of `OutboundError`. */
  readonly retryAfterMs: number | undefined
  /** Milliseconds that it has waited. */
  readonly durationMs: number
}

/** Repetitions of refused calls. */
export interface RetryOptions {
  /**
   * Methods that are repeated. Any is, if the call has an `Idempotency-Key`.
   * @default the idempotent ones: GET, HEAD, OPTIONS, TRACE, PUT, DELETE
   * @example ['GET', 'POST']
   */
  readonly methods?: readonly string[] | undefined
  /**
   * Times that a call is made at most, an integer from 1 to 100.
   * @default 3
   * @example 1
   */
  readonly attempts?: number | undefined
  /**
   * Recognizes refusals besides 429, 503 with `Retry-After`, and 403 with `Retry-After` or with nothing remaining. It
   * gets a clone of the response.
   * @default none
   * @example ({ status }) => status === 529
   */
  readonly isRefusal?: ((response: Response) => boolean | Promise<boolean>) | undefined
}

/** Options of `outbound()`. */
export interface OutboundOptions extends QueueOptions<[OutboundCall]>, OwnLimits {
  /**
   * The same for all calls that share limits at the server.
   * @default the URL's origin; what GitHub, Discord and GitLab name in their answers is told apart in any case
   * @example ({ url }) => url.pathname
   */
  readonly resource?: PerCall<string, [OutboundCall]> | undefined
  /**
   * Which refused calls are repeated, and how often.
   * @default idempotent ones, twice
   * @example { attempts: 1 }
   */
  readonly retry?: RetryOptions | undefined
  /**
   * Reads limits that the server reports in a way of its own. It gets a clone of the response.
   * @default none
   * @example ({ headers }) => [{ limit: 40, remaining: Number(headers.get('X-Left')), refillPerS: 2 }]
   */
  readonly readLimits?: ((response: Response) => readonly ServerLimit[] | Promise<readonly ServerLimit[]>) | undefined
  /**
   * Reads from a clone of a response what the call has really cost, a number from 0, to which the limiter's charge is
   * corrected when it resolves. Undefined, or an error, leaves the charge at `cost`.
   * @default none
   * @example async (response) => (await response.json()).usage?.total_tokens
   */
  readonly actualCost?: ((response: Response) => number | undefined | Promise<number | undefined>) | undefined
  /**
   * Milliseconds for which calls pause after a refusal that names no time, 0 or more; each further one in a row doubles
   * it, up to 60 times as much.
   * @default 1_000
   * @example 30_000
   */
  readonly pauseMs?: number | undefined
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
export interface ThrottleOptions<Arguments extends readonly unknown[]> extends QueueOptions<Arguments>, OwnLimits {
  /**
   * The identity that a call is charged to.
   * @default one for all
   * @example (mail) => mail.domain
   */
  readonly identity?: PerCall<string, Arguments> | undefined
}

export interface CallSettings {
  readonly resource: string
  readonly cost: number
  readonly priority: Priority
  readonly tenant: string
  readonly signal: AbortSignal | undefined
  readonly maxWaitMs: number
}

const CALL_READERS = {
  resource: v.anyText(),
  cost: v.integer(1, v.MAX_COST),
  priority: v.oneOf(...PRIORITIES),
  tenant: v.anyText(),
  signal: v.SIGNAL,
  maxWaitMs: v.DURATION_MS,
} satisfies Readonly<Record<keyof CallSettings, v.Reader>>

/** The result of a function in place of a value is read at each call instead. */
const { resource: RESOURCE, ...PER_CALL } = mapNames(listNames(CALL_READERS), (name) => {
  return v.either(v.FUNCTION, CALL_READERS[name] as v.Reader, CALL_READERS[name].expected)
})

const QUEUE_READERS = {
  ...PER_CALL,
  maxQueued: v.integer(1, 1_000_000),
  concurrency: v.integer(1, 1_000_000),
  onWait: v.FUNCTION,
  onDecision: v.FUNCTION,
  clock: v.having(['now', 'after'], 'functions now and after'),
  random: v.FUNCTION,
  limiter: v.having(['take'], 'what createLimiter() makes'),
  limits: v.anyText('limits such as 300/1m'),
}

export const THROTTLE_READERS = {
  ...QUEUE_READERS,
  identity: RESOURCE,
} satisfies Readonly<Record<keyof ThrottleOptions<[]>, v.Reader>>

const RETRY_READERS = {
  methods: v.list(v.anyText(), 'a list of methods'),
  attempts: v.integer(1, 100),
  isRefusal: v.FUNCTION,
} satisfies Readonly<Record<keyof RetryOptions, v.Reader>>

export const OUTBOUND_READERS = {
  ...QUEUE_READERS,
  resource: RESOURCE,
  retry: v.table(RETRY_READERS, 'an object'),
  readLimits: v.FUNCTION,
  actualCost: v.FUNCTION,
  pauseMs: v.DURATION_MS,
  maxPauseMs: v.DURATION_MS,
} satisfies Readonly<Record<keyof OutboundOptions, v.Reader>>

/** @throws {OptionError} for what a function in place of a value returns: values themselves were checked before */
export function resolveCallSettings<Arguments extends readonly unknown[]>(
  options: QueueOptions<Arguments>,
  resource: PerCall<string, Arguments>,
  call: Arguments,
): CallSettings {
  const resolve = <T>(option: keyof CallSettings, value: PerCall<T, Arguments>): T => {
    if (typeof value !== 'function') return value
    const result = (value as (...call: Arguments) => T)(...call)
    if (result !== undefined || option !== 'signal') v.read<unknown>(CALL_READERS[option], result, option)
    return result
  }
  return {
    resource: resolve('resource', resource),
    cost: resolve('cost', options.cost ?? 1),
    priority: resolve('priority', options.priority ?? 'default'),
    tenant: resolve('tenant', options.tenant ?? ''),
    signal: resolve('signal', options.signal),
    maxWaitMs: resolve('maxWaitMs', options.maxWaitMs ?? 60_000),
  }
}
