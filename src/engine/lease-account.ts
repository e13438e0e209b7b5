import type { Decision, DecisionRequest, LimitState, StoreCharge } from '../model/charge.ts'
import type { StoreError } from '../model/store.ts'
import { mapList } from '../runtime/map-list.ts'
import type { LeaseTerms } from './lease-terms.ts'
import type { KnownStatus } from './status-cache.ts'

/** A busy caller's permits are taken for about this much of its traffic. */
const HORIZON_MS = 200
/** A lease of fewer permits is not worth those that may expire. */
const FEWEST = 6
/** This many may be taken for a whole term, however long it is. */
const FEW = 32
/** More permits are requested this many round trips before they run out. */
const AHEAD = 4
/** Where calls are scarce: more are requested so many round trips ahead, if so many requests are expected meanwhile. */
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
const MAX_STRETCH = 3

/** Estimates the load of a store by the duration of calls. */
class LoadEstimate {
  /** Factor by which leases should last longer; 1 without load. */
  stretch = 1
  #shortestMs = Number.POSITIVE_INFINITY

  /** Records a call that was answered. */
  hear(elapsedMs: number): void {
    this.#shortestMs = Math.min(this.#shortestMs, elapsedMs)
    const isWaiting = elapsedMs - this.#shortestMs > WAIT_MS
    this.stretch = isWaiting ? Math.min(MAX_STRETCH, this.stretch * GROWTH) : Math.max(1, this.stretch * DECAY)
  }

  /** Records a call that failed. */
  fail(): void {
    this.stretch = Math.min(MAX_STRETCH, this.stretch * GROWTH_BY_FAILURE)
  }
}

/** Permits that were taken together. */
export interface Lease {
  permits: number
  /** The isolate's clock. */
  readonly expiresAtMs: number
  /** The store's clock. */
  readonly chargedAtMs: number
}

/** The last outcome of a hot identity that was exhausted, or for which the store failed. */
export interface RecentOutcome {
  readonly outcome: Decision | StoreError
  readonly sentAtMs: number
  /** Until then no call is made. */
  readonly untilMs: number
}

/** The leases of a caller and its pace. Plain data, because all requests of an isolate share it. */
export class LeaseAccount {
  /** Until then, a call that brings more permits is under way. */
  replenishedUntilMs = 0
  /** Kept until a call brings permits. */
  held: RecentOutcome | undefined
  /** The most permits a second that all isolates took recently, and when that was reported. */
  pace: { readonly perSecond: number; readonly atMs: number } = { perSecond: 0, atMs: 0 }
  /** Load of the store, as calls for this caller show it. */
  readonly strain = new LoadEstimate()
  /** Statuses of the charges, in order. */
  standings: readonly KnownStatus[] = []
  /** Oldest first. */
  #leases: Lease[] = []
  #tick = { startMs: 0, seen: 0 }
  #seenBefore = 0

  /** Records a request. */
  see(nowMs: number, { paceMs }: LeaseTerms): void {
    const elapsedMs = nowMs - this.#tick.startMs
    if (elapsedMs < 0 || elapsedMs >= paceMs) {
      // Counts from before a pause mean nothing.
      this.#seenBefore = elapsedMs >= 0 && elapsedMs < 2 * paceMs ? this.#tick.seen : 0
      this.#tick = { startMs: nowMs, seen: 0 }
    }
    this.#tick.seen++
  }

  /** Requests to expect within a span of this length. */
  expected(spanMs: number, { paceMs }: LeaseTerms): number {
    return (Math.max(this.#seenBefore, this.#tick.seen) * spanMs) / paceMs
  }

  /**
   * Permits to take for the requests expected within a span, and as many more as chance may bring; if these are many, for
   * the horizon only.
   */
  wanted(spanMs: number, terms: LeaseTerms): number {
    const forTerm = this.expected(spanMs, terms)
    if (forTerm < FEWEST) return 1
    const most = Math.max(FEW, this.expected(Math.min(spanMs, HORIZON_MS), terms))
    return Math.floor(Math.min(forTerm + CHANCE * Math.sqrt(forTerm), most))
  }

  /** @returns true if permits may have run out, or expired, before a call sent now brings others */
  isShort(nowMs: number, roundTripMs: number, terms: LeaseTerms): boolean {
    const spanMs = AHEAD * Math.max(1, roundTripMs)
    return this.left(nowMs + spanMs) <= this.expected(spanMs, terms)
  }

  /** Like `isShort`, where calls are scarce: only if a request will come meanwhile that finds no permits. */
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

  /** Uses a permit. @returns its lease; undefined if there is none */
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
 * The decision for a request that is admitted without a call.
 * @param left permits that remain
 */
export function admission(
  { charges }: DecisionRequest,
  standings: readonly KnownStatus[],
  { chargedAtMs }: Lease,
  left: number,
  nowMs: number,
): Decision {
  const usage = mapList(standings, ({ usage, sentAtMs }, index) => {
    const units = left * (charges[index] as StoreCharge).cost
    const elapsedMs = Math.max(0, nowMs - sentAtMs)
    return mapList(usage, ({ remaining, resetMs }) => {
      return { remaining: remaining + units, resetMs: Math.max(0, resetMs - elapsedMs), retryAfterMs: 0 }
    })
  })
  return { granted: 1, nowMs: chargedAtMs, usage }
}

/** @throws {StoreError} if that was the outcome */
export function replayOutcome({ outcome, sentAtMs, untilMs }: RecentOutcome, nowMs: number): Decision {
  if ('message' in outcome) throw outcome
  const elapsedMs = Math.max(0, nowMs - sentAtMs)
  const aged = ({ retryAfterMs, ...limit }: LimitState): LimitState => ({
    ...limit,
    resetMs: Math.max(0, limit.resetMs - elapsedMs),
    retryAfterMs: retryAfterMs === 0 ? 0 : Math.max(1, retryAfterMs - elapsedMs, untilMs - nowMs),
  })
  return { ...outcome, nowMs: outcome.nowMs + elapsedMs, usage: outcome.usage.map((limits) => limits.map(aged)) }
}

/** Adds leased units that are not used: they remain too. */
export function withLeft(usage: readonly LimitState[], units: number): LimitState[] {
  return usage.map((limit) => ({ ...limit, remaining: limit.remaining + units }))
}
