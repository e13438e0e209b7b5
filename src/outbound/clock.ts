/** The clock of outbound calls. */
import { MAX_TIMER_MS } from '../core/runtime/sleep.ts'

/** The time of `outbound()` and `throttle()`. */
export interface Clock {
  /** Milliseconds since the Unix epoch. Never goes back; may have a fraction. */
  now(): number
  /** Calls `wake` after `ms` milliseconds, and never before. @returns a function that cancels it */
  after(ms: number, wake: () => void): () => void
}

export const systemClock: Clock = {
  now: () => performance.timeOrigin + performance.now(),

  after(ms, wake) {
    const dueMs = performance.now() + ms
    let timer: ReturnType<typeof setTimeout>
    const arm = () => {
      timer = setTimeout(
        // A timer may fire a fraction of a millisecond early.
        () => (performance.now() < dueMs ? arm() : wake()),
        Math.min(Math.ceil(dueMs - performance.now()), MAX_TIMER_MS),
      )
    }
    arm()
    return () => clearTimeout(timer)
  },
}
