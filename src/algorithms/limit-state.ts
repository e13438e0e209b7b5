/**
 * Twin of `lua/limit-state.lua`: what a decision says of one tier, shared by the algorithms.
 */

import type { StoreCharge } from '../model/charge.ts'
import type { Limit } from '../model/limits.ts'
import type { MutableLimitState, Peek, PenaltyState } from './algorithm.ts'

interface WindowState extends Limit {
  /** May exceed a limit that was lowered. */
  readonly used: number
  readonly resetMs: number
  /** Milliseconds until this many of the used units are given back. */
  readonly freedAfterMs: (units: number) => number
}

export function createLimitState(
  { limit, windowMs, used, resetMs, freedAfterMs }: WindowState,
  wanted: number,
): MutableLimitState {
  const remaining = Math.max(limit - used, 0)
  // It will never fit; configuration refuses such a cost.
  if (wanted > limit) return { remaining, resetMs, retryAfterMs: windowMs }
  return { remaining, resetMs, retryAfterMs: remaining < wanted ? freedAfterMs(used + wanted - limit) : 0 }
}

export function toPeek(usage: readonly MutableLimitState[], penalty?: PenaltyState): Peek {
  let available = Number.POSITIVE_INFINITY
  for (const { remaining } of usage) available = Math.min(available, remaining)
  return { available, usage, penalty }
}

/** The tier of a rule whose algorithm takes only one. */
export function onlyTier({ algorithm, tiers }: StoreCharge): Limit {
  const [tier] = tiers
  if (!tier || tiers.length > 1) throw new Error(`${algorithm} has one tier, not ${tiers.length}`)
  return tier
}
