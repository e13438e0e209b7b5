import type { LimitState, StoreCharge } from '../model/charge.ts'
import type { MutableLimitState, PenaltyState } from './algorithm.ts'

export interface Penalized {
  /** Milliseconds for which the rule refuses, whatever is left; 0 if it is not blocked. */
  readonly blockedMs: number
  /** To be stored. */
  readonly changed?: PenaltyState
}

const FREE: Penalized = { blockedMs: 0 }

/**
 * Twin of `lua/penalize.lua`. A refusal by a block does not prolong it.
 * @param isRefusal whether the rule refuses by its limits, and is to remember it
 */
export function penalize(
  { block, enforced, tiers }: StoreCharge,
  known: PenaltyState | undefined,
  isRefusal: boolean,
  nowMs: number,
): Penalized {
  if (!block || !enforced) return FREE
  const running = known && known.untilMs > nowMs ? known : undefined
  if (running?.refusals === 0) return { blockedMs: running.untilMs - nowMs }
  if (!isRefusal) return FREE
  const refusals = (running?.refusals ?? 0) + 1
  const { blockMs, after } = block
  if (refusals >= after) return { blockedMs: blockMs, changed: { refusals: 0, untilMs: nowMs + blockMs } }
  const untilMs = running?.untilMs ?? nowMs + Math.max(...tiers.map(({ windowMs }) => windowMs))
  return { blockedMs: 0, changed: { refusals, untilMs } }
}

/** What a rule says of its tiers while it is blocked: how they stand, and when the request is admitted. */
export function withPenalty(usage: readonly MutableLimitState[], blockedMs: number): MutableLimitState[] {
  return usage.map((tier) => ({ ...tier, retryAfterMs: Math.max(tier.retryAfterMs, blockedMs), blockedMs }))
}

/** What a caller can use of a tier, and when it can use more: while it is blocked, nothing. */
export function toReported(tier: LimitState): LimitState {
  const { blockedMs, remaining, resetMs } = tier
  if (blockedMs === undefined) return tier
  return { ...tier, remaining: 0, resetMs: remaining > 0 ? blockedMs : Math.max(resetMs, blockedMs) }
}
