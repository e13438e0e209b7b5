/** Same as `lua/counted-windows.lua`: windows that begin at a set time and count used units until they end. */
import type { Limit } from '../model/limits.ts'
import type { Algorithm } from './algorithm.ts'
import { createLimitState } from './algorithm.ts'

interface Count {
  readonly startMs: number
  /** Undefined if the window ends after its length. */
  readonly endMs?: number | undefined
  readonly used: number
}

/**
 * Counts by length of the window, also of an earlier configuration. Key 0 holds a penalty: its refusals, and its end as
 * `startMs`.
 */
export type CountedWindowsState = ReadonlyMap<number, Count>

/** @param begin the window of a limit that is first used now, in milliseconds since the Unix epoch */
function createCountedWindows(begin: (nowMs: number, limit: Limit) => Count): Algorithm<CountedWindowsState> {
  return {
    peek(state = new Map(), charge, nowUs, wanted) {
      const nowMs = Math.floor(nowUs / 1000)
      const usage = charge.limits.map((limit) => {
        const { windowMs } = limit
        const known = state.get(windowMs)
        // A window that has begun runs until its end by the clock, even if the clock steps back, or its calendar changes.
        const count = known && findEnd(known, windowMs) > nowMs ? known : begin(nowMs, limit)
        const endsInMs = findEnd(count, windowMs) - nowMs
        return createLimitState({ ...limit, used: count.used, resetMs: endsInMs, freedAfterMs: () => endsInMs }, wanted)
      })
      const penalty = state.get(0)
      return { usage, penalty: penalty && { refusals: penalty.used, untilMs: penalty.startMs } }
    },

    commit(state = new Map(), charge, nowUs, units, _leaseMs, penalty) {
      const nowMs = Math.floor(nowUs / 1000)
      const counts = keepRunning(state, nowMs)
      if (penalty) counts.set(0, { startMs: penalty.untilMs, used: penalty.refusals })
      for (const limit of penalty ? [] : charge.limits) {
        const count = counts.get(limit.windowMs) ?? begin(nowMs, limit)
        counts.set(limit.windowMs, { ...count, used: count.used + units })
      }
      return { state: counts, ttlMs: findTtlMs(counts, nowMs) }
    },

    settle(state = new Map(), charge, nowUs, chargedAtMs, units) {
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
      return isSettled ? { state: counts, ttlMs: findTtlMs(counts, nowMs) } : undefined
    },
  }
}

/** Same as `lua/fixed-window.lua`: windows aligned to the clock. */
export const fixedWindow = createCountedWindows((nowMs, { windowMs }) => ({
  startMs: nowMs - (nowMs % windowMs),
  used: 0,
}))

/**
 * Same as `lua/quota.lua`: windows that begin at their first use, and end after their length or with the calendar. The
 * isolate's clock may be slow, so that all ends are over: the window then lasts as long as one of the calendar can.
 */
export const quota = createCountedWindows((nowMs, { calendar, endsMs = calendar?.findEnds(nowMs) }) => ({
  startMs: nowMs,
  endMs: endsMs?.find((endMs) => endMs > nowMs),
  used: 0,
}))

function findEnd({ startMs, endMs }: Count, windowMs: number): number {
  return endMs ?? startMs + windowMs
}

function keepRunning(state: CountedWindowsState, nowMs: number): Map<number, Count> {
  return new Map([...state].filter(([windowMs, count]) => findEnd(count, windowMs) > nowMs))
}

/** Longer than until the last window ends: after a step back of the clock, that window must not seem unused. */
function findTtlMs(counts: CountedWindowsState, nowMs: number): number {
  return Math.max(...[...counts].map(([windowMs, count]) => Math.max(windowMs, findEnd(count, windowMs) - nowMs)))
}
