/**
 * Twin of `lua/counted-windows.lua`: windows that each begin at a moment and count what is used until they end.
 */
import type { Algorithm } from './algorithm.ts'
import { createLimitState, toPeek } from './algorithm.ts'

interface Count {
  readonly startMs: number
  readonly used: number
}

/**
 * By length of the window: the rule's, and those of a configuration before it. Under 0, a penalty: its refusals, and
 * when it ends.
 */
export type CountedWindowsState = ReadonlyMap<number, Count>

/** @param startOf when a window of this length begins if it is first used now, in milliseconds since the Unix epoch */
export function countedWindows(startOf: (nowMs: number, windowMs: number) => number): Algorithm<CountedWindowsState> {
  /** A window that has begun runs its whole length by the clock, even if the clock steps back. */
  const countOf = (state: CountedWindowsState, windowMs: number, nowMs: number): Count => {
    const count = state.get(windowMs)
    const isRunning = count && count.startMs + windowMs > nowMs
    return isRunning ? count : { startMs: startOf(nowMs, windowMs), used: 0 }
  }

  return {
    peek(state = new Map(), rule, nowUs, wanted) {
      const nowMs = Math.floor(nowUs / 1000)
      const tiers = rule.tiers.map((tier) => {
        const { startMs, used } = countOf(state, tier.windowMs, nowMs)
        const endsInMs = startMs + tier.windowMs - nowMs
        return createLimitState({ ...tier, used, resetMs: endsInMs, freedAfterMs: () => endsInMs }, wanted)
      })
      const penalty = state.get(0)
      return toPeek(tiers, penalty && { refusals: penalty.used, untilMs: penalty.startMs })
    },

    commit(state = new Map(), rule, nowUs, units, _leaseMs, penalty) {
      const nowMs = Math.floor(nowUs / 1000)
      const counts = running(state, nowMs)
      if (penalty) {
        counts.set(0, { startMs: penalty.untilMs, used: penalty.refusals })
        return { state: counts, ttlMs: computeTtlMs(counts, nowMs) }
      }
      for (const { windowMs } of rule.tiers) {
        const { startMs, used } = countOf(state, windowMs, nowMs)
        counts.set(windowMs, { startMs, used: used + units })
      }
      return { state: counts, ttlMs: computeTtlMs(counts, nowMs) }
    },

    settle(state, rule, nowUs, chargedAtMs, units) {
      const nowMs = Math.floor(nowUs / 1000)
      const counts = running(state, nowMs)
      let isSettled = false
      for (const { windowMs } of rule.tiers) {
        const count = counts.get(windowMs)
        // A window that began later knows nothing of the charge.
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

/** Twin of `lua/quota.lua`: budgets whose windows begin at their first use. */
export const quota = countedWindows((nowMs) => nowMs)

function running(state: CountedWindowsState, nowMs: number): Map<number, Count> {
  return new Map([...state].filter(([windowMs, { startMs }]) => startMs + windowMs > nowMs))
}

/** Longer than until the last window ends: a clock that steps back over that would find it unused. */
function computeTtlMs(counts: CountedWindowsState, nowMs: number): number {
  return Math.max(...[...counts].map(([windowMs, { startMs }]) => Math.max(windowMs, startMs + windowMs - nowMs)))
}
