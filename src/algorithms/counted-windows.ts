/** Twin of `lua/counted-windows.lua`: windows that begin at a set time and count used units until they end. */
import type { Algorithm } from './algorithm.ts'
import { createLimitState, toPeek } from './algorithm.ts'

interface Count {
  readonly startMs: number
  readonly used: number
}

/**
 * Counts by length of the window, also of an earlier configuration. Key 0 holds a penalty: its refusals, and its end as
 * `startMs`.
 */
export type CountedWindowsState = ReadonlyMap<number, Count>

/** @param findStartMs when a window of this length begins if it is first used now, in milliseconds since the Unix epoch */
function countedWindows(findStartMs: (nowMs: number, windowMs: number) => number): Algorithm<CountedWindowsState> {
  /** A window that has begun runs its whole length by the clock, even if the clock steps back. */
  const findCount = (state: CountedWindowsState, windowMs: number, nowMs: number): Count => {
    const count = state.get(windowMs)
    const isRunning = count && count.startMs + windowMs > nowMs
    return isRunning ? count : { startMs: findStartMs(nowMs, windowMs), used: 0 }
  }

  return {
    peek(state = new Map(), charge, nowUs, wanted) {
      const nowMs = Math.floor(nowUs / 1000)
      const limits = charge.limits.map((limit) => {
        const { startMs, used } = findCount(state, limit.windowMs, nowMs)
        const endsInMs = startMs + limit.windowMs - nowMs
        return createLimitState({ ...limit, used, resetMs: endsInMs, freedAfterMs: () => endsInMs }, wanted)
      })
      const penalty = state.get(0)
      return toPeek(limits, penalty && { refusals: penalty.used, untilMs: penalty.startMs })
    },

    commit(state = new Map(), charge, nowUs, units, _leaseMs, penalty) {
      const nowMs = Math.floor(nowUs / 1000)
      const counts = keepRunning(state, nowMs)
      if (penalty) counts.set(0, { startMs: penalty.untilMs, used: penalty.refusals })
      for (const { windowMs } of penalty ? [] : charge.limits) {
        const { startMs, used } = findCount(state, windowMs, nowMs)
        counts.set(windowMs, { startMs, used: used + units })
      }
      return { state: counts, ttlMs: computeTtlMs(counts, nowMs) }
    },

    settle(state, charge, nowUs, chargedAtMs, units) {
      const nowMs = Math.floor(nowUs / 1000)
      const counts = keepRunning(state, nowMs)
      let isSettled = false
      for (const { windowMs } of charge.limits) {
        const count = counts.get(windowMs)
        // A window that began later does not hold the charge.
        if (!count || count.startMs > chargedAtMs) continue
        counts.set(windowMs, { ...count, used: Math.max(0, count.used + units) })
        isSettled = true
      }
      return isSettled ? { state: counts, ttlMs: computeTtlMs(counts, nowMs) } : undefined
    },
  }
}

/** Twin of `lua/fixed-window.lua`: windows aligned to the clock. */
export const fixedWindow = countedWindows((nowMs, windowMs) => nowMs - (nowMs % windowMs))

/** Twin of `lua/quota.lua`: windows that begin at their first use. */
export const quota = countedWindows((nowMs) => nowMs)

function keepRunning(state: CountedWindowsState, nowMs: number): Map<number, Count> {
  return new Map([...state].filter(([windowMs, { startMs }]) => startMs + windowMs > nowMs))
}

/** Longer than until the last window ends: after a step back of the clock, that window must not seem unused. */
function computeTtlMs(counts: CountedWindowsState, nowMs: number): number {
  return Math.max(...[...counts].map(([windowMs, { startMs }]) => Math.max(windowMs, startMs + windowMs - nowMs)))
}
