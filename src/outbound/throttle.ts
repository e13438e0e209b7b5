import { systemClock } from './clock.ts'
import type { OutboundLimiter } from './limiter.ts'
import { checked, checkLimiter, checkWaitOptions, ofCall, type PerCall, termsOf, type WaitOptions } from './options.ts'
import { Partition } from './partition.ts'
import { Partitions } from './partitions.ts'

export interface ThrottleOptions<Arguments extends readonly unknown[]> extends WaitOptions<Arguments> {
  /** Decides when a call may be made. */
  readonly limiter: OutboundLimiter
  /** Whose limits a call is charged to. */
  readonly identity: PerCall<string, Arguments>
  /** Ends a call's wait, which is then rejected with the signal's reason. What has begun is the function's own to end. */
  readonly signal?: PerCall<AbortSignal | undefined, Arguments>
}

/**
 * Makes a function wait for its turn: it is called exactly when the limiter allows it, in the order that `priority` and
 * `caller` say.
 * @throws {TypeError} for an option that is not as described. The function that is returned rejects with `OutboundError`
 * if a call cannot be made, with the reason of its signal, and with whatever the limiter throws.
 */
export function throttle<Arguments extends readonly unknown[], Result>(
  work: (...call: Arguments) => Result | Promise<Result>,
  options: ThrottleOptions<Arguments>,
): (...call: Arguments) => Promise<Result> {
  const { limiter, maxQueued = 1_000, clock = systemClock, random = Math.random } = options
  checkLimiter(limiter)
  checkWaitOptions(options)
  const partitions = new Partitions(
    (identity) => new Partition({ identity, limiter, learned: undefined, maxQueued, clock, random }),
  )
  return async function throttled(...call) {
    const identity = checked(
      'identity',
      ofCall(options.identity, call),
      (value) => typeof value === 'string',
      'a string',
    )
    const { atMostMs, ...terms } = termsOf(options, call)
    const signal = options.signal && ofCall(options.signal, call)
    const permit = await partitions.of(identity).enter({ ...terms, signal, dueMs: clock.now() + atMostMs })
    try {
      return await work(...call)
    } finally {
      await permit.ended(undefined)
    }
  }
}
