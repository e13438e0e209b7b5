import type { LimitState, StoreCharge } from '../model/charge.ts'
import type { Limit } from '../model/limits.ts'

/** What a rule would allow now. */
export interface Peek {
  /** Units that could be spent now, all tiers considered. */
  readonly available: number
  /** Made for this peek: a charge that follows is subtracted in place. */
  readonly usage: readonly MutableLimitState[]
  /** What the state holds of refusals; it may have ended. */
  readonly penalty?: PenaltyState | undefined
}

/** Refusals that are remembered with a state. */
export interface PenaltyState {
  /** How many; 0 once they have led to a block. */
  readonly refusals: number
  /** When the block ends, or when the refusals are forgotten: milliseconds since the Unix epoch. */
  readonly untilMs: number
}

/** What an algorithm says of one of its tiers, before any charge. */
export interface MutableLimitState extends LimitState {
  remaining: number
}

/**
 * A limiting algorithm and its state: the twin, step by step, of the Lua module of the same name. A missing state means
 * a caller never seen.
 */
export interface Algorithm<State> {
  /** Pure. `wanted` is the number of units that `retryAfterMs` is about. */
  peek(state: State | undefined, rule: StoreCharge, nowUs: number, wanted: number): Peek
  /**
   * Charges `units`, which `peek` has found available. The state is the caller's own and may be changed in place.
   * `leaseMs`: how long the units may still be spent, if leases are `dated`. `ttlMs` is there if the state gets a new time to
   * live. With a penalty, nothing is charged (0 units), and nothing else of the state changes; without, one that has
   * not ended stays.
   */
  commit(
    state: State | undefined,
    rule: StoreCharge,
    nowUs: number,
    units: number,
    leaseMs?: number,
    penalty?: PenaltyState,
  ): Commit<State>
  /**
   * Corrects a charge made at `chargedAtMs` by a difference in units, below 0 to give back. Missing if the state cannot
   * be corrected; returns undefined if nothing of the charge is left.
   */
  settle?(state: State, rule: StoreCharge, nowUs: number, chargedAtMs: number, units: number): Commit<State> | undefined
}

export interface Commit<State> {
  readonly state: State
  readonly ttlMs?: number
  /** Units charged besides those asked for, because they may be spent later. */
  readonly forfeited?: number
}

/**
 * Twin of `lua/tier-usage.lua`: what a decision says of one tier, shared by the algorithms.
 */

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
