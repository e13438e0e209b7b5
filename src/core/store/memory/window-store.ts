/** Decides by one sliding window in memory with as little work as possible. */
import { subtract } from '../../algorithms/decide.ts'
import { findLongestMs } from '../../algorithms/sliding-window.ts'
import { WindowLog } from '../../algorithms/window-log.ts'
import type { Charge } from '../../model/charge.ts'
import { isEnforced, type PolicyLimit } from '../../model/policy.ts'
import { MemoryStore } from './memory-store.ts'

/** Counts of a process that has no other store, with a shorter way to decide by one sliding window. */
export class WindowStore extends MemoryStore {
  /**
   * Opens a sliding window for charges of one permit.
   * @param prefix of its keys; after it come the identities
   * @returns a function that decides as `decide` does, and makes nothing but the answer
   */
  openWindow(prefix: string, charge: Pick<Charge, 'policy' | 'mode'>) {
    const { policy } = charge
    const refuses = isEnforced(charge)
    const keptMs = findLongestMs(policy)
    const states = this.states
    const space = states.open(prefix)
    const limits = policy.limits as readonly [PolicyLimit, ...PolicyLimit[]]
    const measure = (log: WindowLog, { name, limit, windowMs }: PolicyLimit, nowMs: number, cost: number) => {
      const status = { policy: policy.name, name, limit, windowMs, remaining: 0, resetMs: 0, retryAfterMs: 0 }
      log.measure(status, nowMs, cost, status)
      return status
    }
    return (identity: string, cost: number) => {
      const clockMs = this.now()
      const nowMs = Math.floor(clockMs)
      states.advanceTo(nowMs)
      const entry = states.find(space, identity)
      const log = entry === undefined ? new WindowLog() : (entry.state as WindowLog)
      const first = measure(log, limits[0], nowMs, cost)
      let { retryAfterMs } = first
      const statuses = [first]
      for (let at = 1; at < limits.length; at++) {
        const status = measure(log, limits[at] as PolicyLimit, nowMs, cost)
        retryAfterMs = Math.max(retryAfterMs, status.retryAfterMs)
        statuses.push(status)
      }
      if (retryAfterMs === 0) {
        const ttlMs = log.charge(nowMs, Math.ceil(clockMs), keptMs, cost)
        if (entry === undefined) states.add(space, identity, log, ttlMs)
        else states.touch(entry, ttlMs)
        subtract(statuses, cost)
      } else if (refuses) return { granted: false, limits: statuses, retryAfterMs, decidedAtMs: nowMs, charged: 0 }
      return { granted: true, limits: statuses, retryAfterMs: 0, decidedAtMs: nowMs, charged: cost }
    }
  }
}
