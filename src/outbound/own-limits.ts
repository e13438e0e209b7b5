/** Limits of the caller's own, in this process's memory: what `createLimiter` does, without stores and policies. */
import { LIMITS_EXPECTED, parseLimits } from '../core/model/limits.ts'
import { checkInteger } from '../core/options/check-options.ts'
import { OptionError } from '../core/options/option-error.ts'
import { ExpiringStates } from '../core/store/memory/expiring-states.ts'
import { MemoryStore } from '../core/store/memory/memory-store.ts'
import type { Clock } from './clock.ts'
import type { OutboundLimiter, OwnLimits } from './options.ts'

/** @throws {OptionError} for invalid limits, or if both options are given */
export function createOwnLimiter({ limiter, limits: text }: OwnLimits, clock: Clock): OutboundLimiter | undefined {
  if (text === undefined) return limiter
  if (limiter !== undefined) throw new OptionError('limits', 'either limits or limiter', text)
  const limits = parseLimits(text)
  if (!limits) throw new OptionError('limits', LIMITS_EXPECTED, text)
  const store = new MemoryStore(() => clock.now(), new ExpiringStates())
  const maxCost = Math.min(...limits.map(({ limit }) => limit))
  const createCharge = (key: string, cost: number) =>
    ({ key, algorithm: 'sliding-window', limits, cost, mode: 'enforce', reserved: 0 }) as const
  return {
    async take(identity, { cost = 1 } = {}) {
      checkInteger('cost', cost, 1, maxCost)
      const charge = createCharge(identity, cost)
      const { granted, usage } = store.decideNow({ action: 'take', permits: 1, charges: [charge] })
      const waits = usage.flat().map(({ retryAfterMs }) => retryAfterMs)
      const retryAfterMs = granted > 0 ? 0 : Math.max(1, ...waits)
      return { granted: granted > 0, retryAfterMs, limits: [], decidedAtMs: clock.now(), charged: granted * cost }
    },
    /** As `applyActualCosts()`: what was charged too much stays, and nothing costs more than the largest limit. */
    async settle(identity, { charged }, units) {
      const more = Math.min(units, Math.max(...limits.map(({ limit }) => limit))) - charged
      if (more > 0) store.decideNow({ action: 'record', permits: 1, charges: [createCharge(identity, more)] })
    },
  }
}
