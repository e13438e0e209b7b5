import { ALGORITHMS } from '../algorithms/algorithm-table.ts'
import type { DecisionRequest, StoreCharge } from '../model/charge.ts'
import type { Limit } from '../model/limits.ts'
import type { KnownStatus } from './status-cache.ts'
import { formatStatusName } from './status-cache.ts'

/** How long a lease lasts, in milliseconds. */
export interface Span {
  /** Until permits may be spent no more. */
  readonly termMs: number
  /** How much of that they are spent for. */
  readonly usableMs: number
}

/** On what terms permits for a kind of request may be taken in advance. */
export interface LeaseTerms extends Span {
  /** Same for all requests that ask the same of the same rules. */
  readonly name: string
  /** Over how long requests are counted, in milliseconds. */
  readonly paceMs: number
  /** Permits of one lease at most. */
  readonly most: number
}

/** A longer lease makes fewer calls, but what lapses is lost for longer. */
export const MAX_TERM_MS = 6_000
/** Share of the shortest window: windows are in effect longer by as long as a lease lasts. */
const TERM_SHARE = 0.1
/** Share of the smallest limit, so that no isolate keeps the others from theirs. */
const MOST_SHARE = 0.1
/** Requests are counted over this many terms of a lease, if it is short. */
const PACE_TERMS = 2
/** Below this, a lease has ended before it can be spent. */
export const MIN_TERM_MS = 20
/** Left of a lease unspent, as a share of it and at most: an isolate's clock stands still between inputs and outputs. */
const MARGIN_SHARE = 0.1
const MAX_MARGIN_MS = 100
/**
 * Share of a limit: for a caller whose pace leads to more, requests are asked for one by one, so that nothing lapses
 * that it needs.
 */
const PACE_SHARE = 0.85
/** Share of what is left, at most. */
const REMAINING_SHARE = 1 / 8

/** Of what a bucket holds: leases are for callers who leave it as full as this. */
const FULL_SHARE = 0.5

/**
 * @returns undefined if permits must be taken one by one: slots are held by one request, a shadow rule must know of each,
 * what is settled is told the store in any case, and nobody may spend permits while it is blocked
 */
export function computeLeaseTerms({ mode, permits, rules }: DecisionRequest): LeaseTerms | undefined {
  if (mode !== 'all' || permits !== 1 || !rules.every(isLeasable)) return undefined
  let name = ''
  let most = Number.POSITIVE_INFINITY
  let shortestMs = Number.POSITIVE_INFINITY
  for (const rule of rules) {
    const { cost, tiers, burst } = rule
    // The name of most is that of their only rule, which need not be put together and hashed again.
    name = name === '' && cost === 1 ? formatStatusName(rule) : `${name} ${formatStatusName(rule)} ${cost}`
    for (const { limit, windowMs } of tiers) {
      most = Math.min(most, Math.floor((Math.min(limit, burst ?? limit) * MOST_SHARE) / cost))
      // Of a small bucket, the time in which it is filled.
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
 * How much longer permits may be spent at most that were, or are, taken at `nowMs`: no longer than the windows last that
 * they are counted in.
 * @param standings of the rules; of what is not known, nothing is expected
 */
export function usableMs(
  { rules }: DecisionRequest,
  standings: readonly (Pick<KnownStatus, 'usage' | 'sentAtMs'> | undefined)[],
  { termMs, usableMs }: Span,
  nowMs: number,
): number {
  let spanMs = usableMs
  for (const [index, { algorithm }] of rules.entries()) {
    if (ALGORITHMS[algorithm].lease !== 'windowed') continue
    const { usage = [], sentAtMs = nowMs } = standings[index] ?? {}
    for (const { resetMs } of usage) spanMs = Math.min(spanMs, sentAtMs + resetMs - nowMs - (termMs - usableMs))
  }
  return Math.max(0, spanMs)
}

/**
 * Permits that can be taken in advance of how the rules stand: none unless their callers are far from their limits.
 * @param standings of the rules, after a decision
 */
export function affordable(
  { rules }: DecisionRequest,
  standings: readonly (KnownStatus | undefined)[],
  terms: LeaseTerms,
  nowMs: number,
): number {
  let most = Number.POSITIVE_INFINITY
  for (const [index, rule] of rules.entries()) {
    const standing = standings[index]
    if (!standing || !isFarFromLimits(rule, standing, terms, nowMs)) return 0
    for (const at of rule.tiers.keys()) {
      most = Math.min(most, Math.floor(((standing.usage[at]?.remaining ?? 0) * REMAINING_SHARE) / rule.cost))
    }
  }
  return most
}

export function isFarFromLimits(
  rule: StoreCharge,
  standing: KnownStatus,
  { termMs }: LeaseTerms,
  nowMs: number,
): boolean {
  return rule.tiers.every((_, at) => isFarFromLimit(rule, at, standing, termMs, nowMs))
}

/** @param at which of its tiers */
function isFarFromLimit(
  { algorithm, tiers, burst }: StoreCharge,
  at: number,
  { usage, refusedAtMs }: KnownStatus,
  termMs: number,
  nowMs: number,
): boolean {
  const { limit, windowMs } = tiers[at] as Limit
  const tier = usage[at]
  if (!tier) return false
  const { hasBurst, lease } = ALGORITHMS[algorithm]
  // A bucket says nothing of how fast it is emptied.
  if (hasBurst) return tier.remaining >= FULL_SHARE * (burst ?? limit)
  // What was leased and not spent leaves much free when it goes from a log: who was refused is at its limit nevertheless.
  if (lease === 'dated' && nowMs - (refusedAtMs[at] ?? Number.NEGATIVE_INFINITY) < windowMs) return false
  // What was used since the oldest that still counts, as if it went on like that. Leased permits may be dated ahead.
  const spanMs = Math.min(windowMs, Math.max(0, windowMs - tier.resetMs)) + termMs
  return (limit - tier.remaining) * windowMs <= PACE_SHARE * limit * spanMs
}

function isLeasable({ algorithm, enforced, reserved, block, isSettled, counts = 'requests' }: StoreCharge): boolean {
  return (
    ALGORITHMS[algorithm].lease !== undefined &&
    enforced &&
    reserved === 0 &&
    !block &&
    !isSettled &&
    counts === 'requests'
  )
}
