import type { Tier } from '../../src/limit/rule.ts'
import type { OutboundLimiter } from '../../src/outbound/limiter.ts'
import type { LearnedStore } from '../../src/outbound.ts'
import type { Store } from '../../src/store/store.ts'

/** A limiter by a sliding window over a store. */
export function storeLimiter(store: Store, tiers: readonly Tier[], prefix = 'test'): OutboundLimiter {
  return {
    async take(identity, { cost = 1 } = {}) {
      const key = `${prefix}:w:{${identity}}`
      const rule = { key, algorithm: 'sliding-window', tiers, cost, enforced: true, reserved: 0 } as const
      const { granted, usage } = await store.decide({ mode: 'all', permits: 1, rules: [rule] })
      return { granted: granted > 0, retryAfterMs: Math.max(...usage.flat().map((tier) => tier.retryAfterMs)) }
    },
  }
}

/** A store that is open already. */
export function opened(store: Store): LearnedStore {
  return { open: () => store }
}
