/**
 * How many permits an isolate takes in advance, and for how long: pure functions of what is known of the limits and of the
 * pace of an identity. Each constant was measured by `npm run bench:leases`; without any of them, one of its rows fails.
 */
import { ALGORITHMS } from '../../algorithms/algorithm-table.ts'
import type { StoreCharge } from '../../model/charge.ts'
import type { StatusCache } from '../refusals/status-cache.ts'

/** Windows are in effect longer by a lease, so it lasts no larger share of the shortest one. */
const MAX_TERM_SHARE = 0.3
/** A longer lease would lose more with its isolate. Slow callers use a dozen permits within this time. */
const MAX_TERM_MS = 12_000
/** The last part of a lease is not used, because clocks of isolates run unevenly. */
const MARGIN_SHARE = 0.05
/** A busy caller takes what it needs for this time: few calls, and little expires when a burst ends. */
const HORIZON_MS = 100
/** It also takes what it needs for so many round trips, and takes more when no more than that is left. */
const ROUND_TRIPS = 2
/** Others take so many permits that a call is worth it, if they last no longer than a lease may. */
const MIN_PERMITS = 32
/** A lease takes at most this share of the remaining units, and no more requests wait: near a limit, each is decided alone. */
const LEFT_SHARE = 1 / 32
/** The unused and expired permits of all isolates are at most this share of the remaining units: others need those. */
const UNUSED_SHARE = 0.18
/** No more permits are unused for each that was used, so that a burst that stops counts little more than it was. */
const UNUSED_PER_USED = 0.65
/** All isolates together aim at so many calls a second for an identity. They are uneven, and an object serves 1,000. */
const MAX_CALLS_PER_SECOND = 150
/** A refusal of a crowded identity is repeated for no longer, because there may be room before. */
const MAX_PAUSE_MS = 1_000
/** An object serves 1,000 calls a second, and is called twice by a decision that it makes with others. */
const MAX_SHARED_DECISIONS_PER_SECOND = 500

type Statuses = Pick<StatusCache, 'get'>

/** The times that the windows of a charge allow. */
export interface LeaseTerms {
  readonly maxLeaseMs: number
  readonly longestWindowMs: number
}

/** How much the limits of a charge leave, in permits. */
export interface LeaseRoom {
  readonly left: number
  readonly leftPerUsed: number
  /** Permits that an isolate needs between two calls, if all isolates make as many as an identity may; 0 if unknown. */
  readonly crowdPermits: number
}

/** How an identity uses its permits. */
export interface LeaseUse {
  /** Requests a millisecond to count on. */
  readonly pace: number
  /** Permits used, and permits that expired, in about a longest window. */
  readonly used: number
  readonly expired: number
  /** Permits that are left, or on their way. */
  readonly unused: number
}

/** A small bucket has no window as short as the time in which it is filled. */
export function findTerms({
  limits,
  burst,
}: Pick<StoreCharge, 'limits'> & { readonly burst?: number | undefined }): LeaseTerms {
  let [shortestMs, longestWindowMs] = [Number.POSITIVE_INFINITY, 0]
  for (const { limit, windowMs } of limits) {
    shortestMs = Math.min(shortestMs, windowMs, ((burst ?? limit) * windowMs) / limit)
    longestWindowMs = Math.max(longestWindowMs, windowMs)
  }
  return { maxLeaseMs: Math.floor(Math.min(MAX_TERM_MS, shortestMs * MAX_TERM_SHARE)), longestWindowMs }
}

export function findRoom(charge: StoreCharge, statuses: Statuses): LeaseRoom {
  const { algorithm, burst, cost, limits } = charge
  const usage = statuses.get(charge)?.usage
  let left = Number.POSITIVE_INFINITY
  let leftPerUsed = Number.POSITIVE_INFINITY
  let crowdPermits = 0
  for (const [at, { limit: units, windowMs }] of limits.entries()) {
    const limit = (burst ?? units) / cost
    const permits = (usage?.[at]?.remaining ?? burst ?? units) / cost
    left = Math.min(left, permits)
    leftPerUsed = Math.min(leftPerUsed, permits / Math.max(1, limit - permits))
    // A bucket does not show how fast it is emptied.
    if (!usage || ALGORITHMS[algorithm].hasBurst) continue
    const callsPerSecond = ((limit - permits) * 1_000) / windowMs
    crowdPermits = Math.max(crowdPermits, callsPerSecond / MAX_CALLS_PER_SECOND)
  }
  return { left, leftPerUsed, crowdPermits }
}

/**
 * @returns true if an identity is so busy that its permits are taken apart from those of others, or if that is unknown and
 * its limits are as high: isolates that all begin at once would otherwise ask its object too much to learn of it
 */
export function isHot(charge: StoreCharge, statuses: Statuses): boolean {
  const { algorithm, cost, limits } = charge
  if (statuses.get(charge)?.usage.length) return findRoom(charge, statuses).crowdPermits >= 1
  const maxPerMs = (cost * MAX_SHARED_DECISIONS_PER_SECOND) / 1_000
  return !ALGORITHMS[algorithm].hasBurst && limits.every(({ limit, windowMs }) => limit > windowMs * maxPerMs)
}

/** Finds the time that permits must last, until a call for more has been answered. */
export function findAheadMs(roundTripMs: number): number {
  return ROUND_TRIPS * Math.max(1, roundTripMs)
}

/** @param unusedThen permits that will be left or on their way when a call for more is answered */
export function isShort(pace: number, aheadMs: number, unusedThen: number): boolean {
  const needed = Math.round(pace * aheadMs)
  return needed > 0 && unusedThen <= needed
}

/**
 * Counts the permits to take for requests to come.
 * @param usableMs time for which they may be used
 * @param maxPermits the most at once, that of the request itself included
 */
export function countPermits(
  { left, leftPerUsed, crowdPermits }: LeaseRoom,
  { pace, used, expired, unused }: LeaseUse,
  usableMs: number,
  roundTripMs: number,
  maxPermits: number,
): number {
  const expected = pace * (usableMs - roundTripMs)
  const soon = Math.max(pace * HORIZON_MS, MIN_PERMITS)
  const wanted = Math.min(
    soon + pace * findAheadMs(roundTripMs),
    expected,
    LEFT_SHARE * left,
    UNUSED_SHARE * leftPerUsed * (used + expired) - expired,
    UNUSED_PER_USED * used,
  )
  const total = Math.min(maxPermits - 1, Math.max(wanted, Math.min(expected, crowdPermits)))
  const permits = Math.floor(total - unused)
  return permits >= Math.min(2, maxPermits - 1) ? permits : 0
}

/**
 * Finds the time in which permits, and those taken before them, are used almost certainly.
 * @param total of all of them; 0 if there is only one, which is used when others have decided
 * @param keepMs time for which each must last when it is taken, and by which its call may be late
 */
export function findLeaseMs(
  total: number,
  pace: number,
  roundTripMs: number,
  keepMs: number,
  { maxLeaseMs }: LeaseTerms,
): number {
  const lastsMs = total > 0 ? (total + Math.sqrt(total)) / pace + findAheadMs(roundTripMs) : 0
  return Math.ceil(Math.min(maxLeaseMs, (Math.max(lastsMs, keepMs) + keepMs) / (1 - MARGIN_SHARE)))
}

/** Finds the time for which permits taken now may be used: no longer than the windows last that they are counted in. */
export function findUsableMs(charge: StoreCharge, statuses: Statuses, leaseMs: number, nowMs: number): number {
  let endMs = nowMs + leaseMs
  if (ALGORITHMS[charge.algorithm].lease === 'windowed') {
    const { usage = [], sentAtMs = nowMs } = statuses.get(charge) ?? {}
    for (const { resetMs } of usage) endMs = Math.min(endMs, sentAtMs + resetMs)
  }
  return endMs - nowMs - leaseMs * MARGIN_SHARE
}

/** Near a limit, waiting would let units lie unused; a crowded identity accepts that, to share calls. */
export function countMaxWaiting({ left, crowdPermits }: LeaseRoom): number {
  return Math.floor(Math.max(LEFT_SHARE * left, crowdPermits))
}

/** Finds how long an outcome is repeated while the next call is on its way: as a pause, no longer than a refusal may tell. */
export function findRepeatMs(roundTripMs: number): number {
  return Math.min(MAX_PAUSE_MS, findAheadMs(roundTripMs))
}

/** Finds the time until an isolate would call again for a crowded identity, if all made as many calls; 0 for others. */
export function findPauseMs({ crowdPermits }: LeaseRoom, pace: number, { maxLeaseMs }: LeaseTerms): number {
  return crowdPermits < 1 ? 0 : Math.min(maxLeaseMs / 2, MAX_PAUSE_MS, crowdPermits / pace)
}
