import type { DecisionRequest } from '../store/store.ts'

/** On what terms permits for a kind of request may be taken in advance. */
export interface Terms {
  /** Same for all requests that ask the same of the same rules. */
  readonly name: string
  /** How long a lease lasts, in milliseconds. */
  readonly termMs: number
  /** Permits of one lease at most. */
  readonly most: number
}

/** A longer lease makes fewer calls, but what of it lapses is lost for longer. */
const MAX_TERM_MS = 1_000
/** Of the shortest window: as long as a lease lasts, windows are in effect longer. `lua/sliding-window.lua` relies on it. */
const TERM_SHARE = 0.1
/** Of the smallest limit, so that no isolate keeps the others from theirs. */
const MOST_SHARE = 0.1
/** Below this, a lease has ended before it can be spent. */
const MIN_TERM_MS = 20

/**
 * @returns undefined if permits must be taken one by one: leases are strict for exact logs only, and a shadow rule must
 * know of each request
 */
export function termsOf({ mode, permits, rules }: DecisionRequest): Terms | undefined {
  const isLeasable = rules.every(
    ({ algorithm, enforced, reserved, isForNewcomers }) =>
      algorithm === 'sliding-window' && enforced && reserved === 0 && !isForNewcomers,
  )
  if (mode !== 'all' || permits !== 1 || !isLeasable) return undefined
  let name = ''
  let most = Number.POSITIVE_INFINITY
  let shortestMs = Number.POSITIVE_INFINITY
  for (const { key, cost, tiers } of rules) {
    name += `${key} ${cost} `
    for (const { limit, windowMs } of tiers) {
      most = Math.min(most, Math.floor((limit * MOST_SHARE) / cost))
      shortestMs = Math.min(shortestMs, windowMs)
    }
  }
  const termMs = Math.floor(Math.min(MAX_TERM_MS, shortestMs * TERM_SHARE))
  return most < 2 || termMs < MIN_TERM_MS ? undefined : { name, termMs, most }
}
