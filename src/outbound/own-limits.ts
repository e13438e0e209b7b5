/** Limits of the caller's own, in this process's memory: what `createLimiter` does, without stores and policies. */
import { findMinRemaining } from '../core/algorithms/decide.ts'
import { slidingWindow } from '../core/algorithms/sliding-window.ts'
import type { WindowLog } from '../core/algorithms/window-log.ts'
import { LIMITS_EXPECTED, parseLimits } from '../core/model/limits.ts'
import { checkInteger } from '../core/options/check-options.ts'
import { OptionError } from '../core/options/option-error.ts'
import { ExpiringStates } from '../core/store/memory/expiring-states.ts'
import type { LimiterDecision } from '../library/decision.ts'
import type { Clock } from './clock.ts'
import type { OutboundLimiter, OwnLimits } from './options.ts'

export interface OwnLimiter extends OutboundLimiter {
  /** Takes as `take` does, without a wait. @throws {OptionError} if the cost exceeds a limit */
  takeNow?(identity: string, cost: number): LimiterDecision
}

/** @throws {OptionError} for invalid limits, or if both options are given */
export function createOwnLimiter({ limiter, limits: text }: OwnLimits, clock: Clock): OwnLimiter | undefined {
  if (text === undefined) return limiter
  if (limiter !== undefined) throw new OptionError('limits', 'either limits or limiter', text)
  const limits = parseLimits(text)
  if (!limits) throw new OptionError('limits', LIMITS_EXPECTED, text)
  const states = new ExpiringStates()
  const numbers = limits.map(({ limit }) => limit)
  const [minLimit, maxLimit] = [Math.min(...numbers), Math.max(...numbers)]
  const terms = { key: '', algorithm: 'sliding-window', limits, cost: 1, mode: 'enforce', reserved: 0 } as const
  // What follows a "=" is one key, whatever it is.
  const read = (identity: string, nowMs: number) =>
    states.advanceTo(Math.floor(nowMs)).read(`=${identity}`) as WindowLog | undefined
  const charge = (identity: string, log: WindowLog | undefined, nowMs: number, units: number) => {
    const { state, ttlMs } = slidingWindow.commit(log, terms, nowMs * 1_000, units)
    states.write(`=${identity}`, state, ttlMs)
  }
  const takeNow = (identity: string, cost: number): LimiterDecision => {
    checkInteger('cost', cost, 1, minLimit)
    const nowMs = clock.now()
    const log = read(identity, nowMs)
    const { usage } = slidingWindow.peek(log, terms, nowMs * 1_000, cost)
    const granted = findMinRemaining(usage) >= cost
    if (granted) charge(identity, log, nowMs, cost)
    const retryAfterMs = granted ? 0 : Math.max(1, ...usage.map((each) => each.retryAfterMs))
    return { granted, retryAfterMs, limits: [], decidedAtMs: nowMs, charged: granted ? cost : 0 }
  }
  return {
    takeNow,
    take: async (identity, { cost = 1 } = {}) => takeNow(identity, cost),
    /** Works as `applyActualCosts()`: what was charged too much stays, and nothing costs more than the largest limit. */
    async settle(identity, { charged }, units) {
      const more = Math.min(units, maxLimit) - charged
      const nowMs = clock.now()
      if (more > 0) charge(identity, read(identity, nowMs), nowMs, more)
    },
  }
}
