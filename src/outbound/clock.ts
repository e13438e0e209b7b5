/** The clock of outbound calls. */
import { MAX_EARLY_MS, MAX_TIMER_MS } from '../core/runtime/sleep.ts'

/** The time of `outbound()` and `throttle()`. */
export interface Clock {
  /** Milliseconds since the Unix epoch. Never goes back; may have a fraction. */
  now(): number
  /** Calls `wake` after `ms` milliseconds, and never before. @returns a function that cancels it */
  after(ms: number, wake: () => void): () => void
}

let aheadMs = 0

const readMs = () => performance.now() + aheadMs

export const systemClock: Clock = {
  now: () => performance.timeOrigin + readMs(),

  after(ms, wake) {
    const dueMs = readMs() + ms
    let timer: ReturnType<typeof setTimeout>
    const arm = () => {
      const delayMs = Math.min(Math.max(0, Math.ceil(dueMs - readMs())), MAX_TIMER_MS)
      const firesMs = readMs() + delayMs
      timer = setTimeout(() => {
        const earlyMs = firesMs - readMs()
        if (earlyMs > MAX_EARLY_MS) aheadMs += earlyMs
        if (readMs() < dueMs) arm()
        else wake()
      }, delayMs)
    }
    arm()
    return () => clearTimeout(timer)
  },
}
