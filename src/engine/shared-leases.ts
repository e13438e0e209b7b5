import { ALGORITHMS } from '../algorithms/algorithm-table.ts'
import type { LimitState, StoreCharge } from '../model/charge.ts'
import type { LeaseAccount } from './lease-account.ts'
import { computeUsableMs, type LeaseTerms, MAX_TERM_MS, MIN_TERM_MS, type Span } from './lease-terms.ts'

/**
 * Permits a second, of all isolates together, beyond which an identity is hot; and calls a second that leases of a hot
 * one aim at.
 */
export const HOT_PER_SECOND = 200
/** As many calls as one object serves. */
export const SERVED_PER_SECOND = 1_000
/**
 * Beyond this, permits are leased even to those who are near their limit, whose leases cost others what lapses of them.
 * Below, only while calls fail or wait, which shows in time.
 */
export const CROWDED_PER_SECOND = 2 * SERVED_PER_SECOND

/** So many isolates know by their own pace what to lease. */
const FEW_ISOLATES = 20

/** Permits that a lease takes of traffic that lasts no longer than this, however few calls that would spare. */
const HORIZON_MS = 200
/** Share of a window for which nothing is made of what was used in it: leased permits may be dated ahead. */
const UNCERTAIN_SHARE = 0.2
/** Round trips for which a lease lasts on top of the traffic that it is for. */
const AHEAD = 4
/** Of requests expected, so many standard deviations may stay away before a permit lapses. */
const CHANCE = 0.5
/** By how much leases last longer of an identity that no store can be asked for each time. */
const CROWD_STRETCH = 2

/**
 * Permits a second that all isolates together take of a rule, as far as a reply tells: what was used within a window, or
 * within that part of it that has passed. Nobody can tell that of a bucket.
 */
export function permitsPerSecond({ algorithm, tiers, cost }: StoreCharge, usage: readonly LimitState[]): number {
  if (ALGORITHMS[algorithm].hasBurst) return 0
  const paces = usage.map(({ remaining, resetMs }, at) => {
    const { limit, windowMs } = tiers[at] ?? { limit: 0, windowMs: 1 }
    const spanMs = Math.min(windowMs, Math.max(0, windowMs - resetMs)) + windowMs * UNCERTAIN_SHARE
    return ((limit - remaining) * 1_000) / spanMs / cost
  })
  return Math.max(0, ...paces)
}

/** Whether many isolates share what is taken of an identity. */
export function isSharedByMany(account: LeaseAccount, terms: LeaseTerms, perSecond: number): boolean {
  return perSecond > FEW_ISOLATES * account.expected(1_000, terms)
}

/** Requests of the isolate's own traffic that a lease of a hot identity is for, if they come before it ends. */
function countEnough(account: LeaseAccount, terms: LeaseTerms, perSecond: number): number {
  return Math.max(perSecond / HOT_PER_SECOND, account.expected(HORIZON_MS, terms))
}

/**
 * How long a lease of a hot identity lasts: no longer than it takes to spend it, but longer while the store is loaded.
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
 * As many permits as spare calls, of those that the isolate needs nearly for certain within this much time: what lapses
 * of a hot identity is what others lack.
 */
export function hotPermits(account: LeaseAccount, terms: LeaseTerms, perSecond: number, spanMs: number): number {
  const expected = Math.max(0, account.expected(spanMs, terms))
  const certain = 1 + Math.max(0, expected - CHANCE * Math.sqrt(expected))
  return Math.floor(Math.min(certain, countEnough(account, terms, perSecond)))
}
