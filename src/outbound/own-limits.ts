/** Limits of the caller's own, in this process's memory: what `createLimiter` does, without stores and policies. */
import { findLongestMs } from '../core/algorithms/sliding-window.ts'
import { WindowLog } from '../core/algorithms/window-log.ts'
import { LIMITS_EXPECTED, parseLimits } from '../core/model/limits.ts'
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
  const calls = states.open('')
  const numbers = limits.map(({ limit }) => limit)
  const [minLimit, maxLimit] = [Math.min(...numbers), Math.max(...numbers)]
  const longestMs = findLongestMs({ limits })
  const find = (identity: string, nowMs: number) => {
    states.advanceTo(Math.floor(nowMs))
    const entry = states.find(calls, identity)
    return { entry, log: (entry?.state ?? new WindowLog()) as WindowLog }
  }
  const charge = (identity: string, { entry, log }: ReturnType<typeof find>, nowMs: number, units: number) => {
    // Rounded up, so that it stays its whole window.
    const ttlMs = log.charge(Math.floor(nowMs), Math.ceil(nowMs), longestMs, units)
    if (entry) states.touch(entry, ttlMs)
    else states.add(calls, identity, log, ttlMs)
  }
  const takeNow = (identity: string, cost: number): LimiterDecision => {
    if (cost > minLimit) throw new OptionError('cost', `an integer from 1 to ${minLimit}`, cost)
    const nowMs = clock.now()
    const found = find(identity, nowMs)
    let retryAfterMs = 0
    for (const limit of limits) {
      const usage = { remaining: 0, resetMs: 0, retryAfterMs: 0 }
      found.log.measure(limit, Math.floor(nowMs), cost, usage)
      if (usage.remaining < cost) retryAfterMs = Math.max(1, retryAfterMs, usage.retryAfterMs)
    }
    const granted = retryAfterMs === 0
    if (granted) charge(identity, found, nowMs, cost)
    return { granted, retryAfterMs, limits: [], decidedAtMs: nowMs, charged: granted ? cost : 0 }
  }
  return {
    takeNow,
    take: async (identity, { cost = 1 } = {}) => takeNow(identity, cost),
    /** Works as `applyActualCosts()`: what was charged too much stays, and nothing costs more than the largest limit. */
    async settle(identity, { charged }, units) {
      const more = Math.min(units, maxLimit) - charged
      const nowMs = clock.now()
      if (more > 0) charge(identity, find(identity, nowMs), nowMs, more)
    },
  }
}
