import { subtract } from '../../algorithms/decide.ts'
import { findLongestMs } from '../../algorithms/sliding-window.ts'
import { WindowLog } from '../../algorithms/window-log.ts'
import type { Charge } from '../../model/charge.ts'
import type { PolicyLimit } from '../../model/policy.ts'
import { ExpiringStates, type Space, type StatePlace } from './expiring-states.ts'
import { MemoryStore } from './memory-store.ts'

/** Entries whose keys hold an identity as it is, after a "=", are found by that identity alone. */
class IdentityStates extends ExpiringStates {
  readonly #spaces = new Map<string, Space>()

  /** @param prefix of keys, up to their first "=" */
  open(prefix: string): Space {
    const known = this.#spaces.get(prefix)
    if (known) return known
    const space: Space = new Map()
    this.#spaces.set(prefix, space)
    return space
  }

  protected override locate(key: string): StatePlace {
    const end = key.indexOf('=') + 1
    return end === 0 ? super.locate(key) : { space: this.open(key.slice(0, end)), name: key.slice(end) }
  }
}

/** Counts of a process that has no other store, with a shorter way to decide by one sliding window. */
export class WindowStore extends MemoryStore<IdentityStates> {
  /** @param maxKeys by default, as many as an isolate can hold */
  constructor(now: () => number, maxKeys?: number) {
    super(now, new IdentityStates(maxKeys))
  }

  /**
   * Opens a sliding window for charges of one permit.
   * @param prefix of its keys; after it come the identities
   * @returns a function that decides as `decide` does, and makes nothing but the answer
   */
  openWindow(prefix: string, { policy, mode }: Pick<Charge, 'policy' | 'mode'>) {
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
      } else if (mode === 'enforce')
        return { granted: false, limits: statuses, retryAfterMs, decidedAtMs: nowMs, charged: 0 }
      return { granted: true, limits: statuses, retryAfterMs: 0, decidedAtMs: nowMs, charged: cost }
    }
  }
}
