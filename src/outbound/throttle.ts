import { CallScheduler, CallSchedulers } from './call-scheduler.ts'
import { systemClock } from './clock.ts'
import {
  checkLimiter,
  checkOptions,
  type OutboundLimiter,
  type PerCall,
  QUEUE_CHECKS,
  type QueueOptions,
  resolve,
  resolveCallSettings,
} from './options.ts'

/** How `throttle()` waits, and what for. */
export interface ThrottleOptions<Arguments extends readonly unknown[]> extends QueueOptions<Arguments> {
  /** Decides when a call may be made. */
  readonly limiter: OutboundLimiter
  /** Whose limits a call is charged to. */
  readonly identity: PerCall<string, Arguments>
  /** Ends a call's wait, which is then rejected with the signal's reason. What has begun is the function's own to end. */
  readonly signal?: PerCall<AbortSignal | undefined, Arguments>
}

/**
 * Makes a function wait for its turn: it is called exactly when the limiter allows it, in the order that `priority` and
 * `caller` say. The returned function rejects with `OutboundError` if a call cannot be made, with the reason of its
 * signal, with whatever the limiter throws, and as the function itself does.
 * @throws {OptionError} for a wrong option
 */
export function throttle<Arguments extends readonly unknown[], Result>(
  work: (...call: Arguments) => Result | Promise<Result>,
  options: ThrottleOptions<Arguments>,
): (...call: Arguments) => Promise<Result> {
  checkOptions('throttle', options, { ...QUEUE_CHECKS, signal: () => {} })
  checkLimiter('limiter', options.limiter)
  const { limiter, maxQueued = 1_000, clock = systemClock, random = Math.random } = options
  const schedulers = new CallSchedulers(
    (identity) => new CallScheduler({ identity, limiter, learned: undefined, maxQueued, maxPauseMs: 0, clock, random }),
  )
  return async function throttled(...call) {
    const settings = resolveCallSettings(options, options.identity, call)
    const signal = options.signal && resolve(options.signal, call)
    const dueMs = clock.now() + settings.atMostMs
    return schedulers.get(settings.identity).run({ ...settings, signal, dueMs }, () => work(...call))
  }
}
