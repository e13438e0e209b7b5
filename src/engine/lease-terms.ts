import { ALGORITHMS } from '../algorithms/algorithm-table.ts'
import type { DecisionRequest, StoreCharge } from '../model/charge.ts'
import type { Limit } from '../model/limits.ts'
import type { KnownStatus } from './status-cache.ts'
import { formatStatusName } from './status-cache.ts'

/** The time of a lease. */
export interface Span {
  /** Permits may not be used after this. */
  readonly termMs: number
  /** The part of the term for which permits are used. */
  readonly usableMs: number
}

/** Terms on which permits for a kind of request may be taken in advance. */
export interface LeaseTerms extends Span {
  /** Equal for all requests with the same charges. */
  readonly name: string
  /** Requests are counted over a span of this length. */
  readonly paceMs: number
  /** Permits of one lease at most. */
  readonly most: number
}

/** A longer lease makes fewer calls, but expired permits are lost for longer. */
export const MAX_TERM_MS = 6_000
/** Share of the shortest window: a lease lengthens windows in effect by its own length. */
const TERM_SHARE = 0.1
/** Share of the smallest limit, so that no isolate keeps the others from theirs. */
const MOST_SHARE = 0.1
/** Requests are counted over this many terms of a lease, if it is short. */
const PACE_TERMS = 2
/** A shorter lease ends before it can be used. */
export const MIN_TERM_MS = 20
/** The last part of a lease is not used, because an isolate's clock stands still between inputs and outputs. */
const MARGIN_SHARE = 0.1
const MAX_MARGIN_MS = 100
/**
 * Share of a limit: requests of a caller whose pace leads to more are decided one by one, so that no permit expires that
 * it needs.
 */
const PACE_SHARE = 0.85
/** A lease takes no larger share of the remaining units. */
const REMAINING_SHARE = 1 / 8

/** Leases are for callers who leave a bucket at least this full. */
const FULL_SHARE = 0.5

/**
 * @returns undefined if permits must be taken one by one: a slot is held by one request, a policy in shadow mode counts
 * each request, settling calls the store in any case, and no caller may use permits during a penalty
 */
export function computeLeaseTerms({ action, permits, charges }: DecisionRequest): LeaseTerms | undefined {
  if (action !== 'take' || permits !== 1 || !charges.every(isLeasable)) return undefined
  let name = ''
  let most = Number.POSITIVE_INFINITY
  let shortestMs = Number.POSITIVE_INFINITY
  for (const charge of charges) {
    const { cost, limits, burst } = charge
    // Most have only one charge, whose name need not be concatenated and hashed again.
    name = name === '' && cost === 1 ? formatStatusName(charge) : `${name} ${formatStatusName(charge)} ${cost}`
    for (const { limit, windowMs } of limits) {
      most = Math.min(most, Math.floor((Math.min(limit, burst ?? limit) * MOST_SHARE) / cost))
      // For a small bucket, the time that refills it.
      shortestMs = Math.min(shortestMs, windowMs, ((burst ?? limit) * windowMs) / limit)
    }
  }
  const termMs = Math.floor(Math.min(MAX_TERM_MS, shortestMs * TERM_SHARE))
  if (most < 2 || termMs < MIN_TERM_MS) return undefined
  return {
    name,
    termMs,
    usableMs: computeUsableMs(termMs),
    paceMs: computeUsableMs(Math.min(MAX_TERM_MS, PACE_TERMS * termMs)),
    most,
  }
}

export function computeUsableMs(termMs: number): number {
  return termMs - Math.min(termMs * MARGIN_SHARE, MAX_MARGIN_MS)
}

/**
 * The time for which permits taken at `nowMs` may be used: no longer than the windows last that they are counted in.
 * @param standings statuses of the charges, if known
 */
export function usableMs(
  { charges }: DecisionRequest,
  standings: readonly (Pick<KnownStatus, 'usage' | 'sentAtMs'> | undefined)[],
  { termMs, usableMs }: Span,
  nowMs: number,
): number {
  let spanMs = usableMs
  for (const [index, { algorithm }] of charges.entries()) {
    if (ALGORITHMS[algorithm].lease !== 'windowed') continue
    const { usage = [], sentAtMs = nowMs } = standings[index] ?? {}
    for (const { resetMs } of usage) spanMs = Math.min(spanMs, sentAtMs + resetMs - nowMs - (termMs - usableMs))
  }
  return Math.max(0, spanMs)
}

/**
 * Permits that can be taken in advance: none unless the caller is far from its limits.
 * @param standings statuses of the charges after a decision
 */
export function affordable(
  { charges }: DecisionRequest,
  standings: readonly (KnownStatus | undefined)[],
  terms: LeaseTerms,
  nowMs: number,
): number {
  let most = Number.POSITIVE_INFINITY
  for (const [index, charge] of charges.entries()) {
    const standing = standings[index]
    if (!standing || !isFarFromLimits(charge, standing, terms, nowMs)) return 0
    for (const at of charge.limits.keys()) {
      most = Math.min(most, Math.floor(((standing.usage[at]?.remaining ?? 0) * REMAINING_SHARE) / charge.cost))
    }
  }
  return most
}

export function isFarFromLimits(
  charge: StoreCharge,
  standing: KnownStatus,
  { termMs }: LeaseTerms,
  nowMs: number,
): boolean {
  return charge.limits.every((_, at) => isFarFromLimit(charge, at, standing, termMs, nowMs))
}

/** @param at index of the limit */
function isFarFromLimit(
  { algorithm, limits, burst }: StoreCharge,
  at: number,
  { usage, refusedAtMs }: KnownStatus,
  termMs: number,
  nowMs: number,
): boolean {
  const { limit, windowMs } = limits[at] as Limit
  const state = usage[at]
  if (!state) return false
  const { hasBurst, lease } = ALGORITHMS[algorithm]
  // A bucket does not show how fast it is emptied.
  if (hasBurst) return state.remaining >= FULL_SHARE * (burst ?? limit)
  // Expired permits free many units when they leave a log: a refused caller is at its limit nevertheless.
  if (lease === 'dated' && nowMs - (refusedAtMs[at] ?? Number.NEGATIVE_INFINITY) < windowMs) return false
  // Extrapolates the units used since the oldest that still counts. Leased permits may be dated ahead.
  const spanMs = Math.min(windowMs, Math.max(0, windowMs - state.resetMs)) + termMs
  return (limit - state.remaining) * windowMs <= PACE_SHARE * limit * spanMs
}

function isLeasable({
  algorithm,
  mode,
  reserved,
  penalty,
  needsSettlement,
  counts = 'requests',
}: StoreCharge): boolean {
  return (
    ALGORITHMS[algorithm].lease !== undefined &&
    mode === 'enforce' &&
    reserved === 0 &&
    !penalty &&
    !needsSettlement &&
    counts === 'requests'
  )
}
