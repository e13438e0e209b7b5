/**
 * Twin of `lua/sorted-set.lua`, which decides as `sliding-window` does and differs only in how Redis keeps it.
 */
import type { Algorithm } from '../algorithm.ts'
import { longestWindowMs, newestMsOf, type SlidingWindowState, slidingWindow, wholeSeconds } from './sliding-window.ts'

export const sortedSet: Algorithm<SlidingWindowState> = {
  peek: slidingWindow.peek,

  commit(log, rule, nowUs, units) {
    const { state } = slidingWindow.commit(log, rule, nowUs, units)
    return { state, ttlMs: wholeSeconds(newestMsOf(state) + longestWindowMs(rule) - Math.floor(nowUs / 1000)) }
  },
}
