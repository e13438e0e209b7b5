/**
 * Twin of `lua/sorted-set.lua`, which decides as `sliding-window` does and differs only in how Redis keeps it.
 */
import type { Algorithm } from '../algorithm.ts'
import {
  emptyLog,
  longestWindowMs,
  newestMsOf,
  type SlidingWindowState,
  slidingWindow,
  wholeSeconds,
} from './sliding-window.ts'

export const sortedSet: Algorithm<SlidingWindowState> = {
  peek: slidingWindow.peek,

  commit(log = emptyLog(), rule, nowUs, units, leaseMs, penalty = log.penalty) {
    const state = units > 0 ? slidingWindow.commit(log, rule, nowUs, units, leaseMs).state : log
    // A member of its own, which stays until another takes its place or the key expires.
    state.penalty = penalty
    const endMs = Math.max(newestMsOf(state) + longestWindowMs(rule), penalty?.untilMs ?? 0)
    return { state, ttlMs: wholeSeconds(endMs - Math.floor(nowUs / 1000)) }
  },
}
