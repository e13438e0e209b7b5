/** An algorithm: pure functions of a state, a charge and a time. */
import type { LimitState, StoreCharge } from '../model/charge.ts'
import type { Limit } from '../model/limits.ts'

/** The limits of a charge before it is charged. */
export interface Peek {
  /** Created for this peek: a charge that follows is subtracted in place. */
  readonly usage: readonly MutableLimitState[]
  /** It may have ended. */
  readonly penalty?: PenaltyState | undefined
}

/** Refusals, stored with the state of a charge. */
export interface PenaltyState {
  /** 0 once they have led to a penalty. */
  readonly refusals: number
  /** End of the penalty, or of the span that refusals count in: milliseconds since the Unix epoch. */
  readonly untilMs: number
}

export type MutableLimitState = { -readonly [Name in keyof LimitState]: LimitState[Name] }

/**
 * A limiting algorithm and its state: step by step the same as the Lua module of the same name. A new caller has no
 * state.
 */
export interface Algorithm<State> {
  /** Pure. `wanted` is the number of units that `retryAfterMs` is about. */
  peek(state: State | undefined, charge: StoreCharge, nowUs: number, wanted: number): Peek
  /**
   * Charges `units`, which `peek` has found available. The state may be changed in place. The units may be used for
   * `leaseMs`, if leases are `dated`. `ttlMs` is set if the state gets a new time to live. With a penalty, nothing is
   * charged (0 units), and nothing else of the state changes; without, one that has not ended stays.
   */
  commit(
    state: State | undefined,
    charge: StoreCharge,
    nowUs: number,
    units: number,
    leaseMs?: number,
    penalty?: PenaltyState,
  ): Commit<State>
  /**
   * Corrects a charge of `charge.cost` units made at `chargedAtMs` by a difference in units, below 0 to refund. Missing
   * if the state cannot be corrected; returns undefined if the charge no longer counts.
   */
  settle?(
    state: State | undefined,
    charge: StoreCharge,
    nowUs: number,
    chargedAtMs: number,
    units: number,
  ): Commit<State> | undefined
  /** Set if units are held in slots. */
  readonly slots?: Slots<State>
}

/** Changes to slots that a charge may have taken. Each returns undefined if nothing changes. */
export interface Slots<State> {
  release(state: State | undefined, slot: number): Commit<State> | undefined
  /** Releases a slot even if the call that takes it arrives later. */
  revoke(state: State | undefined, slot: number, nowMs: number): Commit<State>
  /** Extends the deadline of a slot that is still held. */
  renew(state: State | undefined, slot: number, nowMs: number, windowMs: number): Commit<State> | undefined
}

export interface Commit<State> {
  readonly state: State
  readonly ttlMs?: number
  /** Units charged in addition, because leased ones may be used later. */
  readonly forfeited?: number
}

interface WindowState extends Limit {
  /** May exceed a limit that was lowered. */
  readonly used: number
  /** Milliseconds until the first of them is free again; of an unused window, its length. */
  readonly resetMs: number
  /** Milliseconds until this many of the used units are free again. */
  readonly freedAfterMs: (units: number) => number
}

/** Same as `lua/limit-state.lua`. */
export function createLimitState(
  { limit, windowMs, used, resetMs: firstFreeMs, freedAfterMs }: WindowState,
  wanted: number,
): MutableLimitState {
  const remaining = Math.max(limit - used, 0)
  const resetMs = used > limit ? freedAfterMs(used - limit + 1) : firstFreeMs
  // Such a cost never fits, and configuration refuses it.
  if (wanted > limit) return { remaining, resetMs, retryAfterMs: windowMs }
  return { remaining, resetMs, retryAfterMs: remaining < wanted ? freedAfterMs(used + wanted - limit) : 0 }
}

/** The limit of a charge whose algorithm takes only one. */
export function getOnlyLimit({ algorithm, limits }: StoreCharge): Limit {
  const [limit] = limits
  if (!limit || limits.length > 1) throw new Error(`${algorithm} has one limit, not ${limits.length}`)
  return limit
}
