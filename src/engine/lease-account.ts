import type { Decision, DecisionRequest, LimitState, StoreCharge } from '../model/charge.ts'
import type { StoreError } from '../model/store.ts'
import { mapList } from '../runtime/map-list.ts'
import type { LeaseTerms } from './lease-terms.ts'
import type { KnownStatus } from './status-cache.ts'

/** A busy caller's permits are taken for about this much of its traffic. */
const HORIZON_MS = 200
/** For fewer, a lease is not worth what may lapse of it. */
const FEWEST = 6
/** This many may be taken for a whole term, however long it is. */
const FEW = 32
/** More permits are asked for this many round trips before they run out. */
const AHEAD = 4
/** Where calls are scarce: round trips ahead of running out, and requests expected meanwhile, from which more are asked for. */
const BARELY_AHEAD = 1.5
const LIKELY = 0.5
/** Permits for requests that chance may bring on top of those expected, in standard deviations of their number. */
const CHANCE = 1.25
/** Leases that run at the same time at most: each is spent before the next, so there are seldom more than two. */
const MAX_LEASES = 4

/** A call that takes longer than the shortest one by more than this has waited for others. */
const WAIT_MS = 30
const GROWTH = 1.25
const GROWTH_BY_FAILURE = 1.5
const DECAY = 0.98
const MOST = 3

/** How loaded a store is, as far as an isolate can tell by how long its calls take. */
export class LoadEstimate {
  /** How much longer leases should last because of it; 1 if there is none. */
  stretch = 1
  #shortestMs = Number.POSITIVE_INFINITY

  /** A call was answered after this long. */
  hear(elapsedMs: number): void {
    this.#shortestMs = Math.min(this.#shortestMs, elapsedMs)
    const isWaiting = elapsedMs - this.#shortestMs > WAIT_MS
    this.stretch = isWaiting ? Math.min(MOST, this.stretch * GROWTH) : Math.max(1, this.stretch * DECAY)
  }

  /** A call has failed. */
  fail(): void {
    this.stretch = Math.min(MOST, this.stretch * GROWTH_BY_FAILURE)
  }
}

/** Permits that were taken together. */
export interface Lease {
  permits: number
  /** By the isolate's clock. */
  readonly expiresAtMs: number
  /** When they were charged, by the store's clock. */
  readonly chargedAtMs: number
}

/** What was heard last of a hot identity that had nothing left, or that the store did not answer for. */
export interface RecentOutcome {
  readonly outcome: Decision | StoreError
  readonly sentAtMs: number
  /** Until then it is not asked for again. */
  readonly untilMs: number
}

/** What a caller has left of its leases, and how fast it spends. Plain data: all requests of an isolate share it. */
export class LeaseAccount {
  /** Until then, a call that brings more permits is under way. */
  replenishedUntilMs = 0
  /** Until a call has brought permits. */
  held: RecentOutcome | undefined
  /** Permits a second that all isolates took of late, at most, and when it was told. */
  pace: { readonly perSecond: number; readonly atMs: number } = { perSecond: 0, atMs: 0 }
  /** That of the store, for this caller. */
  readonly strain = new LoadEstimate()
  /** Those of the rules, in order. */
  standings: readonly KnownStatus[] = []
  /** In the order in which they were taken. */
  #leases: Lease[] = []
  #tick = { startMs: 0, seen: 0 }
  #seenBefore = 0

  /** A request has come. */
  see(nowMs: number, { paceMs }: LeaseTerms): void {
    const elapsedMs = nowMs - this.#tick.startMs
    if (elapsedMs < 0 || elapsedMs >= paceMs) {
      // After a pause, what was seen before it says nothing.
      this.#seenBefore = elapsedMs >= 0 && elapsedMs < 2 * paceMs ? this.#tick.seen : 0
      this.#tick = { startMs: nowMs, seen: 0 }
    }
    this.#tick.seen++
  }

  /** Requests to expect within this much of a lease's time. */
  expected(spanMs: number, { paceMs }: LeaseTerms): number {
    return (Math.max(this.#seenBefore, this.#tick.seen) * spanMs) / paceMs
  }

  /**
   * Permits to take for what is expected within this much time, and as many more as chance may bring; if these are many,
   * for the horizon only.
   */
  wanted(spanMs: number, terms: LeaseTerms): number {
    const forTerm = this.expected(spanMs, terms)
    if (forTerm < FEWEST) return 1
    const most = Math.max(FEW, this.expected(Math.min(spanMs, HORIZON_MS), terms))
    return Math.floor(Math.min(forTerm + CHANCE * Math.sqrt(forTerm), most))
  }

  /** Whether the permits may have run out, or ended, when a call that is sent now has brought others. */
  isShort(nowMs: number, roundTripMs: number, terms: LeaseTerms): boolean {
    const spanMs = AHEAD * Math.max(1, roundTripMs)
    return this.left(nowMs + spanMs) <= this.expected(spanMs, terms)
  }

  /** As `isShort`, where calls are scarce: only if a request will come meanwhile that finds nothing. */
  isNearlyOut(nowMs: number, roundTripMs: number, terms: LeaseTerms): boolean {
    const spanMs = BARELY_AHEAD * Math.max(1, roundTripMs)
    const expected = this.expected(spanMs, terms)
    return expected >= LIKELY && this.left(nowMs + spanMs) <= expected
  }

  left(nowMs: number): number {
    let left = 0
    for (const { permits, expiresAtMs } of this.#leases) left += nowMs < expiresAtMs ? permits : 0
    return left
  }

  add(lease: Lease): void {
    if (this.#leases.length === MAX_LEASES) this.#leases.shift()
    this.#leases.push(lease)
  }

  /** @returns the lease whose permit was spent; undefined if there was none */
  spend(nowMs: number): Lease | undefined {
    while (this.#leases[0] && (this.#leases[0].permits === 0 || nowMs >= this.#leases[0].expiresAtMs)) {
      this.#leases.shift()
    }
    const [lease] = this.#leases
    if (lease) lease.permits--
    return lease
  }
}

/**
 * How the tiers stand for a request that is let through without asking.
 * @param left permits that are
 */
export function admission(
  { rules }: DecisionRequest,
  standings: readonly KnownStatus[],
  { chargedAtMs }: Lease,
  left: number,
  nowMs: number,
): Decision {
  const usage = mapList(standings, ({ usage, sentAtMs }, index) => {
    const units = left * (rules[index] as StoreCharge).cost
    const elapsedMs = Math.max(0, nowMs - sentAtMs)
    return mapList(usage, ({ remaining, resetMs }) => {
      return { remaining: remaining + units, resetMs: Math.max(0, resetMs - elapsedMs), retryAfterMs: 0 }
    })
  })
  return { granted: 1, nowMs: chargedAtMs, usage }
}

/** @throws {StoreError} if that is what was heard */
export function replayOutcome({ outcome, sentAtMs, untilMs }: RecentOutcome, nowMs: number): Decision {
  if ('message' in outcome) throw outcome
  const elapsedMs = Math.max(0, nowMs - sentAtMs)
  const aged = ({ retryAfterMs, ...tier }: LimitState): LimitState => ({
    ...tier,
    resetMs: Math.max(0, tier.resetMs - elapsedMs),
    retryAfterMs: retryAfterMs === 0 ? 0 : Math.max(1, retryAfterMs - elapsedMs, untilMs - nowMs),
  })
  return { ...outcome, nowMs: outcome.nowMs + elapsedMs, usage: outcome.usage.map((tiers) => tiers.map(aged)) }
}

/** What is leased and not spent is left too. */
export function withLeft(usage: readonly LimitState[], units: number): LimitState[] {
  return usage.map((tier) => ({ ...tier, remaining: tier.remaining + units }))
}
