/**
 * Twin of `lua/sorted-set.lua`, which decides as `sliding-window` does and differs only in how Redis keeps it.
 */
import type { Algorithm } from './algorithm.ts'
import {
  emptyLog,
  findNewestMs,
  longestWindowMs,
  type SlidingWindowState,
  slidingWindow,
  trim,
  wholeSeconds,
} from './sliding-window.ts'

export const sortedSet: Algorithm<SlidingWindowState> = {
  peek: slidingWindow.peek,

  commit(log = emptyLog(), rule, nowUs, units, leaseMs, penalty = log.penalty) {
    const now = Math.floor(nowUs / 1000)
    const keptMs = longestWindowMs(rule)
    const state = units > 0 ? slidingWindow.commit(log, rule, nowUs, units, leaseMs).state : log
    // Each admission does so here, and not only those that a stream waits for.
    if (units > 0) trim(state, now - keptMs)
    // A member of its own, which stays until another takes its place or the key expires.
    state.penalty = penalty
    const endMs = Math.max(findNewestMs(state) + keptMs, penalty?.untilMs ?? 0)
    return { state, ttlMs: wholeSeconds(endMs - now) }
  },
}
