import type { Decision } from '../../model/charge.ts'
import type { StoreError } from '../../model/store.ts'
import { waitAtMost } from '../../runtime/sleep.ts'

/** A pace is a mean of about so many gaps between requests: fewer vary by chance, more hide a change. */
const PACE_GAPS = 64
/** A clock that stands still between inputs shows many requests at once, so they are spread over this time at least. */
const MIN_PACE_MS = 10

/** A request waits for a call of others to begin for this share of the deadline, and then makes one. */
const PATIENCE_SHARE = 1 / 3

/** Permits that were taken together. */
export interface Lease {
  permits: number
  /** The isolate's clock. */
  readonly expiresAtMs: number
  /** The store's clock. */
  readonly chargedAtMs: number
}

interface Waiter {
  /** @param decision undefined: the request makes the next call */
  resolve(decision: Decision | undefined): void
  reject(error: unknown): void
}

/** The leases of a caller, how it uses them, and requests that wait for a call. All requests of an isolate share it. */
export class LeaseAccount {
  /** An account of an earlier generation has no permits any more; requests may still wait in it. */
  readonly generation: number
  /** Permits that calls under way ask for. */
  pending = 0
  /** The deadline of the latest call. Then it counts as lost: the request that made it may have been cancelled. */
  pendingUntilMs = 0
  /** Permits used, and permits that expired, in about a longest window: older ones fade away. */
  used = 0
  expired = 0
  /** The requests for which the latest call is made, while it is on its way. */
  call: readonly Waiter[] | undefined
  /** Requests that wait for a call of another. */
  readonly waiting: Waiter[] = []
  /** An outcome that is repeated until then, without a call. */
  held: { readonly outcome: Decision | StoreError; readonly sentAtMs: number; untilMs: number } | undefined
  readonly #leases: Lease[] = []
  #seenAtMs = Number.NEGATIVE_INFINITY
  /** How many gaps the mean is of so far. */
  #gaps = 0
  #gapMs = 0

  constructor(generation: number) {
    this.generation = generation
  }

  /** Records a request. After a pause that is longer than any lease, the pace is measured anew. */
  see(nowMs: number, maxLeaseMs: number, longestWindowMs: number): void {
    const elapsedMs = nowMs - this.#seenAtMs
    this.#seenAtMs = nowMs
    const kept = Math.exp(-elapsedMs / longestWindowMs)
    this.used *= kept
    this.expired *= kept
    if (nowMs >= this.pendingUntilMs) this.pending = 0
    this.#gaps = elapsedMs > maxLeaseMs ? 0 : Math.min(this.#gaps + 1, PACE_GAPS)
    if (this.#gaps === 0) return
    const burstMs = Math.min(elapsedMs, PACE_GAPS * Math.max(1, this.#gapMs))
    this.#gapMs += (burstMs - this.#gapMs) / this.#gaps
  }

  /** Requests a millisecond to count on: a standard deviation fewer than were seen. */
  get pace(): number {
    const gaps = this.#gaps
    return (gaps - Math.sqrt(gaps)) / Math.max(MIN_PACE_MS, gaps * this.#gapMs)
  }

  countLeft(atMs: number): number {
    let left = 0
    for (const { permits, expiresAtMs } of this.#leases) left += atMs < expiresAtMs ? permits : 0
    return left
  }

  /**
   * Waits for the decision that a call of another request brings.
   * @param timeoutMs deadline of a call
   * @returns undefined if this request has to make a call itself: it is its turn, or it has waited for too long
   * @throws {StoreError} if the call for it has failed
   */
  async wait(timeoutMs: number): Promise<Decision | undefined> {
    const waiting = this.waiting
    let waiter: Waiter | undefined
    const decided = new Promise<Decision | undefined>((resolve, reject) => {
      waiter = { resolve, reject }
      waiting.push(waiter)
    })
    for (const patienceMs of [PATIENCE_SHARE * timeoutMs, timeoutMs]) {
      const decision = await waitAtMost(decided, patienceMs)
      if (decision) return decision
      const at = waiting.indexOf(waiter as Waiter)
      if (at >= 0) {
        waiting.splice(at, 1)
        return undefined
      }
      // A call for it is on its way, or it is its turn.
    }
    return undefined
  }

  add(lease: Lease): void {
    this.#leases.push(lease)
  }

  /** Uses a permit. @returns its lease; undefined if there is none */
  take(nowMs: number): Lease | undefined {
    for (let [lease] = this.#leases; lease; [lease] = this.#leases) {
      if (lease.permits > 0 && nowMs < lease.expiresAtMs) {
        lease.permits--
        this.used++
        return lease
      }
      this.expired += lease.permits
      this.#leases.shift()
    }
    return undefined
  }
}
