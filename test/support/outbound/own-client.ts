/** `outbound()` as a client of the models of servers. */
import type { DecisionRequest } from '../../../src/core/model/charge.ts'
import type { Store } from '../../../src/core/model/store.ts'
import { createLimiter, type LimiterStore, memoryStore } from '../../../src/index.ts'
import { type OutboundOptions, outbound } from '../../../src/outbound.ts'
import type { VirtualClock } from '../virtual-clock.ts'
import type { CreateClient } from './run-load.ts'

/** The stores that the processes of a run share. */
const stores = new WeakMap<VirtualClock, LimiterStore>()

export const createOwnClient: CreateClient = ({ provider, clock, fetch, random, isDead }) => {
  const { aheadMs = 0, options = {}, processes = 1, store: storeKind } = provider
  const { limits = '', ...others } = options
  const now = () => clock.now()
  const store = stores.get(clock) ?? memoryStore({ now })
  stores.set(clock, store)
  const lostAtMs = storeKind === 'lost' ? clock.now() + provider.horizonMs / 2 : Number.POSITIVE_INFINITY
  const limiter = createLimiter({
    limits: limits || '1/1s',
    now,
    store: loseStore(store, () => now() >= lostAtMs),
    localShare: 1 / processes,
    circuitBreaker: false,
    log: () => {},
  })
  const take: typeof limiter.take = (...call) => (isDead() ? new Promise(() => {}) : limiter.take(...call))
  const own: OutboundOptions = storeKind ? { limiter: { take }, ...others } : options
  const ahead = {
    now: () => clock.now() + aheadMs,
    after: (ms: number, wake: () => void) => clock.after(ms, wake),
  }
  return outbound(fetch, { clock: ahead, random, maxWaitMs: Number.POSITIVE_INFINITY, ...own })
}

/** A store that gives no answer from some time on. */
function loseStore(store: LimiterStore, isLost: () => boolean): LimiterStore {
  const open: LimiterStore['open'] = (algorithms) => {
    const opened = store.open(algorithms)
    const decide = async (request: DecisionRequest) => {
      if (isLost()) throw new Error('connection refused')
      return opened.decide(request)
    }
    return Object.assign(Object.create(opened) as Store, { decide })
  }
  return { isRemote: false, timeoutMs: Number.POSITIVE_INFINITY, open }
}
