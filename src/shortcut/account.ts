import type { DecisionRequest, StoreDecision, TierUsage } from '../store/store.ts'

/** A caller's permits are taken for about so much of its traffic. */
const HORIZON_MS = 200
/** Part of a lease's time in which it is spent: an isolate's clock stands still between its inputs and outputs. */
const USABLE = 0.9

interface Lease {
  permits: number
  readonly expiresAtMs: number
}

/** What a caller has left of its leases, and how fast it spends. Plain data: all requests of an isolate share it. */
export class Account {
  /** Until then, a call that brings more permits is under way. */
  replenishedUntilMs = 0
  /** In the order in which they were taken, and end. */
  #leases: Lease[] = []
  #costs: readonly number[] = []
  #latest: StoreDecision | undefined
  #latestSentAtMs = 0
  #tick = { startMs: 0, seen: 0 }
  #seenBefore = 0

  /** A request has come. */
  see(nowMs: number): void {
    const elapsedMs = nowMs - this.#tick.startMs
    if (elapsedMs < 0 || elapsedMs >= HORIZON_MS) {
      // After a pause, what was seen before it says nothing.
      this.#seenBefore = elapsedMs >= 0 && elapsedMs < 2 * HORIZON_MS ? this.#tick.seen : 0
      this.#tick = { startMs: nowMs, seen: 0 }
    }
    this.#tick.seen++
  }

  /** Requests to come within the horizon, or within half of a lease if that is shorter; at least 1. */
  expected(termMs: number): number {
    const seen = Math.max(this.#seenBefore, this.#tick.seen)
    return Math.max(1, Math.floor(seen * Math.min(1, (termMs * USABLE) / 2 / HORIZON_MS)))
  }

  left(nowMs: number): number {
    return this.#leases.reduce((sum, { permits, expiresAtMs }) => sum + (nowMs < expiresAtMs ? permits : 0), 0)
  }

  /** @param sentAtMs when the call was sent: the script counts from then or later */
  add({ rules }: DecisionRequest, decision: StoreDecision, sentAtMs: number, termMs: number): void {
    this.#leases.push({ permits: decision.granted, expiresAtMs: sentAtMs + termMs * USABLE })
    this.#costs = rules.map(({ cost }) => cost)
    this.#latest = decision
    this.#latestSentAtMs = sentAtMs
  }

  /** Spends a permit of the lease that was just taken; the request that took it was admitted by the script itself. */
  spendOwn(decision: StoreDecision): StoreDecision {
    const lease = this.#leases.at(-1)
    if (decision.granted === 0 || !lease) return decision
    lease.permits--
    return { ...decision, granted: 1, usage: this.#usage(decision, lease.permits, 0) }
  }

  /** @returns undefined if nothing is left */
  spend(nowMs: number): StoreDecision | undefined {
    while (this.#leases[0] && (this.#leases[0].permits === 0 || nowMs >= this.#leases[0].expiresAtMs)) {
      this.#leases.shift()
    }
    const [lease] = this.#leases
    const elapsedMs = nowMs - this.#latestSentAtMs
    if (!lease || !this.#latest || elapsedMs < 0) return undefined
    lease.permits--
    const usage = this.#usage(this.#latest, this.left(nowMs), elapsedMs)
    return { granted: 1, nowMs: this.#latest.nowMs + elapsedMs, usage }
  }

  /** How the tiers stand: what is leased and not spent is left as well. */
  #usage({ usage }: StoreDecision, left: number, elapsedMs: number): TierUsage[][] {
    return usage.map((tiers, index) =>
      tiers.map(({ remaining, resetMs }) => ({
        remaining: remaining + left * (this.#costs[index] ?? 1),
        resetMs: Math.max(0, resetMs - elapsedMs),
        retryAfterMs: 0,
      })),
    )
  }
}
