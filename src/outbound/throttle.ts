import { checkNames } from '../library/check-options.ts'
import { systemClock } from './clock.ts'
import type { OutboundLimiter } from './limiter.ts'
import {
  checkLimiter,
  checkQueueOptions,
  ofCall,
  type PerCall,
  QUEUE_OPTIONS,
  type QueueOptions,
  termsOf,
} from './options.ts'
import { Partition } from './partition.ts'
import { Partitions } from './partitions.ts'

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
  const { limiter, maxQueued = 1_000, clock = systemClock, random = Math.random } = options
  checkNames('throttle', options, [...QUEUE_OPTIONS, 'limiter', 'identity', 'signal'])
  checkLimiter(limiter)
  checkQueueOptions(options)
  const partitions = new Partitions(
    (identity) => new Partition({ identity, limiter, learned: undefined, maxQueued, maxPauseMs: 0, clock, random }),
  )
  return async function throttled(...call) {
    const { identity, atMostMs, ...place } = termsOf(options, options.identity, call)
    const signal = options.signal && ofCall(options.signal, call)
    const permit = await partitions.of(identity).enter({ ...place, signal, dueMs: clock.now() + atMostMs })
    try {
      return await work(...call)
    } finally {
      await permit.ended(undefined)
    }
  }
}
