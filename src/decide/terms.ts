import { ALGORITHMS } from '../limit/algorithm-table.ts'
import type { DecisionRequest } from '../limit/rule.ts'
import type { Standing } from './standing.ts'
import { nameOf } from './standings.ts'

/** On what terms permits for a kind of request may be taken in advance. */
export interface Terms {
  /** Same for all requests that ask the same of the same rules. */
  readonly name: string
  /** How long a lease lasts, in milliseconds. */
  readonly termMs: number
  /** How much of that it may be spent for. */
  readonly usableMs: number
  /** Permits of one lease at most. */
  readonly most: number
}

/** A longer lease makes fewer calls, but what lapses is lost for longer. */
const MAX_TERM_MS = 6_000
/**
 * Share of the shortest window: windows are in effect longer by as long as a lease lasts. `lua/sliding-window.lua`
 * relies on it.
 */
const TERM_SHARE = 0.1
/** Share of the smallest limit, so that no isolate keeps the others from theirs. */
const MOST_SHARE = 0.1
/** Below this, a lease has ended before it can be spent. */
const MIN_TERM_MS = 20
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

/**
 * @returns undefined if permits must be taken one by one: leases are strict for exact logs only, a shadow rule must know
 * of each request, and nobody may spend permits while it is blocked
 */
export function termsOf({ mode, permits, rules }: DecisionRequest): Terms | undefined {
  const isLeasable = rules.every(
    ({ algorithm, enforced, reserved, block, counts = 'requests' }) =>
      ALGORITHMS[algorithm].isLeasable && enforced && reserved === 0 && !block && counts === 'requests',
  )
  if (mode !== 'all' || permits !== 1 || !isLeasable) return undefined
  let name = ''
  let most = Number.POSITIVE_INFINITY
  let shortestMs = Number.POSITIVE_INFINITY
  for (const rule of rules) {
    const { cost, tiers } = rule
    name += `${nameOf(rule)} ${cost} `
    for (const { limit, windowMs } of tiers) {
      most = Math.min(most, Math.floor((limit * MOST_SHARE) / cost))
      shortestMs = Math.min(shortestMs, windowMs)
    }
  }
  const termMs = Math.floor(Math.min(MAX_TERM_MS, shortestMs * TERM_SHARE))
  if (most < 2 || termMs < MIN_TERM_MS) return undefined
  return { name, termMs, usableMs: termMs - Math.min(termMs * MARGIN_SHARE, MAX_MARGIN_MS), most }
}

/**
 * Permits that can be taken in advance of how the rules stand: none unless their callers are far from their limits.
 * @param standings of the rules, after a decision
 */
export function affordable(
  { rules }: DecisionRequest,
  standings: readonly (Standing | undefined)[],
  { termMs }: Terms,
  nowMs: number,
): number {
  let most = Number.POSITIVE_INFINITY
  for (const [index, { cost, tiers }] of rules.entries()) {
    const standing = standings[index]
    for (const [at, { limit, windowMs }] of tiers.entries()) {
      const tier = standing?.usage[at]
      if (!tier) return 0
      // Who was refused is at its limit, even if what was leased and not spent leaves much free when it goes.
      if (nowMs - (standing?.refusedAtMs[at] ?? Number.NEGATIVE_INFINITY) < windowMs) return 0
      // What was used since the oldest that still counts, as if it went on like that. Leased permits are dated ahead.
      const spanMs = Math.min(windowMs, Math.max(0, windowMs - tier.resetMs)) + termMs
      if ((limit - tier.remaining) * windowMs > PACE_SHARE * limit * spanMs) return 0
      most = Math.min(most, Math.floor((tier.remaining * REMAINING_SHARE) / cost))
    }
  }
  return most
}
