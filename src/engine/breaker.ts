import { type Store, StoreError } from '../model/store.ts'
import type { Log } from '../runtime/log.ts'
import type { CircuitBreaker } from './circuit-breaker.ts'
import { PendingReleases } from './pending-releases.ts'
import { decorate, type Stage } from './stage.ts'

export interface BreakerOptions {
  /** Undefined: the store is asked however often it fails. */
  readonly breaker: CircuitBreaker | undefined
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
  readonly log: Log
}

/** Asks a store for no decisions while it keeps failing, and gives back slots as soon as the store can take them. */
export function withBreaker({ breaker, now, log }: BreakerOptions): Stage {
  return (store) => {
    const pending = new PendingReleases(store, now)
    const revoke: Store['revoke'] = (releases) => {
      pending.add(releases)
      return pending.keep()
    }

    return decorate(store, {
      async decide(request, context) {
        // The request that began may have no time left.
        if (pending.size > 0) context?.waitUntil(pending.keep())
        const end = breaker?.begin()
        if (breaker && !end)
          throw new StoreError('not asked for a moment, after it failed repeatedly', { mayHaveRun: false })
        let isSuccess = false
        try {
          const decided = store.decide(request, context)
          // Even if the client goes away first, slots that were taken for it must become known, to be released.
          if (request.rules.some(({ slot }) => slot !== undefined)) context?.waitUntil(decided.catch(() => {}))
          const decision = await decided
          isSuccess = true
          return decision
        } finally {
          const before = breaker?.circuit
          end?.(isSuccess)
          if (before !== breaker?.circuit && breaker?.circuit === 'closed') log('info', { event: 'store_recovered' })
        }
      },
      // Slots are released whether or not the store is well: nobody waits for it.
      async release(rules) {
        try {
          await store.release(rules)
        } catch (error) {
          if (!(error instanceof StoreError)) throw error
          await revoke(rules.map((rule) => ({ rule, isKnown: true })))
        }
      },
      revoke,
    })
  }
}
