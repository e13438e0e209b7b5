/** Same as `lua/sliding-window.lua` and `lua/sorted-set.lua`: exact logs of admissions. */
import type { StoreCharge } from '../model/charge.ts'
import type { Algorithm } from './algorithm.ts'
import { roundUpToSeconds, WindowLog } from './window-log.ts'

const EMPTY = new WindowLog()

export const slidingWindow: Algorithm<WindowLog> = {
  peek(log = EMPTY, { limits }, nowUs, wanted) {
    const nowMs = Math.floor(nowUs / 1000)
    const usage = limits.map((limit) => {
      const state = { remaining: 0, resetMs: 0, retryAfterMs: 0 }
      log.measure(limit, nowMs, wanted, state)
      return state
    })
    return { usage, penalty: log.penalty }
  },

  commit(log = new WindowLog(), charge, nowUs, units, leaseMs = 0, penalty) {
    // Rounded up, so that it stays its whole window.
    const dateMs = Math.ceil(nowUs / 1000) + leaseMs
    const ttlMs = log.charge(Math.floor(nowUs / 1000), dateMs, findLongestMs(charge), units, penalty)
    return ttlMs === undefined ? { state: log } : { state: log, ttlMs }
  },
}

/** Same as `lua/sorted-set.lua`, which decides like `sliding-window` and differs only in how Redis stores it. */
export const sortedSet: Algorithm<WindowLog> = {
  peek: slidingWindow.peek,

  commit(log = new WindowLog(), charge, nowUs, units, leaseMs, penalty = log.penalty) {
    const nowMs = Math.floor(nowUs / 1000)
    const keptMs = findLongestMs(charge)
    if (units > 0) {
      slidingWindow.commit(log, charge, nowUs, units, leaseMs)
      // Unlike a stream, a sorted set is trimmed at each admission.
      log.dropUntil(nowMs - keptMs)
    }
    // A member of its own, which stays until another replaces it or the key expires.
    log.penalty = penalty
    const endMs = Math.max(log.newestMs + keptMs, penalty?.untilMs ?? 0)
    return { state: log, ttlMs: roundUpToSeconds(endMs - nowMs) }
  },
}

export function findLongestMs({ limits }: Pick<StoreCharge, 'limits'>): number {
  let longestMs = 0
  for (const { windowMs } of limits) longestMs = Math.max(longestMs, windowMs)
  return longestMs
}
