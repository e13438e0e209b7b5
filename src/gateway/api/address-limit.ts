/** A limit on the requests from an address that each isolate counts by itself. */
import type { Limit } from '../../core/model/limits.ts'
import { toWholeMs, type WholeMs } from '../../core/model/verdict.ts'
import { MemoryStore } from '../../core/store/memory/memory-store.ts'

/** @returns a function that counts a request, unless it only peeks, and returns how long it has to wait if it is too many */
export function createAddressLimit(limit: Limit, now: () => number) {
  const store = new MemoryStore(now)
  const charge = { algorithm: 'sliding-window', limits: [limit], cost: 1, mode: 'enforce', reserved: 0 } as const
  return function findWaitMs(address: string, action: 'take' | 'peek' = 'take'): WholeMs | undefined {
    const { granted, usage } = store.decideNow({ action, permits: 1, charges: [{ ...charge, key: address }] })
    return granted > 0 ? undefined : toWholeMs(usage[0]?.[0]?.retryAfterMs ?? limit.windowMs)
  }
}
