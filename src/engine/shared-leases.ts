import { ALGORITHMS } from '../algorithms/algorithm-table.ts'
import type { LimitState, StoreCharge } from '../model/charge.ts'
import type { LeaseAccount } from './lease-account.ts'
import { computeUsableMs, type LeaseTerms, MAX_TERM_MS, MIN_TERM_MS, type Span } from './lease-terms.ts'

/**
 * An identity is hot beyond so many permits a second, of all isolates together. Leases of a hot one aim at as many calls a
 * second.
 */
export const HOT_PER_SECOND = 200
/** Calls a second that one object serves. */
export const SERVED_PER_SECOND = 1_000
/**
 * Beyond this, permits are leased even to callers near their limit, whose expired permits others lack. Below, only while
 * calls fail or wait.
 */
export const CROWDED_PER_SECOND = 2 * SERVED_PER_SECOND

/** Up to so many isolates, each knows by its own pace how much to lease. */
const FEW_ISOLATES = 20

/** A lease takes permits for no more than this much traffic, however few calls that saves. */
const HORIZON_MS = 200
/** Share of a window added to the span of its units, because leased permits may be dated ahead. */
const UNCERTAIN_SHARE = 0.2
/** Round trips for which a lease lasts beyond the traffic that it is for. */
const AHEAD = 4
/** Standard deviations by which requests may fall short of expectation before a permit expires. */
const CHANCE = 0.5
/** Leases last longer by this for an identity that is too hot for a call each time. */
const CROWD_STRETCH = 2

/**
 * Permits a second that all isolates together take of a charge: units used within a window, or within the part of it that
 * has passed. A bucket does not show it.
 */
export function permitsPerSecond({ algorithm, limits, cost }: StoreCharge, usage: readonly LimitState[]): number {
  if (ALGORITHMS[algorithm].hasBurst) return 0
  const paces = usage.map(({ remaining, resetMs }, at) => {
    const { limit, windowMs } = limits[at] ?? { limit: 0, windowMs: 1 }
    const spanMs = Math.min(windowMs, Math.max(0, windowMs - resetMs)) + windowMs * UNCERTAIN_SHARE
    return ((limit - remaining) * 1_000) / spanMs / cost
  })
  return Math.max(0, ...paces)
}

/** @returns true if this isolate takes only a small share of an identity's permits */
export function isSharedByMany(account: LeaseAccount, terms: LeaseTerms, perSecond: number): boolean {
  return perSecond > FEW_ISOLATES * account.expected(1_000, terms)
}

/** Requests of the isolate's own traffic that a lease of a hot identity covers, if they come before it ends. */
function countEnough(account: LeaseAccount, terms: LeaseTerms, perSecond: number): number {
  return Math.max(perSecond / HOT_PER_SECOND, account.expected(HORIZON_MS, terms))
}

/**
 * The time of a lease of a hot identity: no longer than it takes to use it, but longer while the store is loaded.
 * @param perSecond permits of all isolates together
 */
export function hotSpan(account: LeaseAccount, terms: LeaseTerms, perSecond: number, roundTripMs: number): Span {
  const stretch = Math.max(account.strain.stretch, perSecond > SERVED_PER_SECOND ? CROWD_STRETCH : 1)
  const longestMs = Math.min(MAX_TERM_MS, terms.termMs * stretch)
  const neededMs = countEnough(account, terms, perSecond) / account.expected(1, terms) + AHEAD * roundTripMs
  const termMs = Math.floor(Math.max(MIN_TERM_MS, Math.min(longestMs, neededMs)))
  return { termMs, usableMs: computeUsableMs(termMs) }
}

/**
 * Permits that save calls and that the isolate needs almost certainly within a span: others lack those that expire.
 */
export function hotPermits(account: LeaseAccount, terms: LeaseTerms, perSecond: number, spanMs: number): number {
  const expected = Math.max(0, account.expected(spanMs, terms))
  const certain = 1 + Math.max(0, expected - CHANCE * Math.sqrt(expected))
  return Math.floor(Math.min(certain, countEnough(account, terms, perSecond)))
}
