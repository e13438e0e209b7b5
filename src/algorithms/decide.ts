import type { Decision, DecisionRequest, LimitState, StoreCharge } from '../model/charge.ts'
import type { MutableLimitState, PenaltyState } from './algorithm.ts'
import { ALGORITHMS } from './algorithm-table.ts'

/**
 * Twin of `lua/decide.lua`: one decision over any number of rules. Peeks at all of them, then charges all of them or none.
 */

/** What is known of each key; nothing of one that has expired. */
export interface States {
  read(key: string): unknown
  /** @param ttlMs left out, the state lives as long as it would have */
  write(key: string, state: unknown, ttlMs?: number): void
}

/** What a rule says before anything is charged. */
export interface Evaluation {
  readonly usage: readonly MutableLimitState[]
  /** Permits that fit, those of a rule that refuses nothing too. */
  readonly fitting: number
  /** Permits that may be charged; none if the rule does not apply. */
  readonly chargeable: number
  /** Of a rule with a block: what is to be remembered, even though nothing is charged. */
  readonly changed?: Penalized['changed']
}

/** @param nowUs microseconds since the Unix epoch, an integer */
export function decide(request: DecisionRequest, nowUs: number, states: States): Decision {
  const { mode, leaseMs = 0, rules } = request
  let hasNewIdentity = false
  const known: unknown[] = []
  const votes: Evaluation[] = []
  for (const rule of rules) {
    if (rule.counts === 'identities' && !hasNewIdentity) {
      known.push(undefined)
      votes.push(skipCharge(rule, request))
      continue
    }
    const state = states.read(rule.key)
    hasNewIdentity ||= state === undefined && detectsNewIdentities(rule)
    const vote = evaluateCharge(rule, request, state, nowUs)
    if (vote.changed) {
      const commit = ALGORITHMS[rule.algorithm].implementation.commit(state, rule, nowUs, 0, 0, vote.changed)
      states.write(rule.key, commit.state, commit.ttlMs)
    }
    known.push(state)
    votes.push(vote)
  }
  const granted = countGranted(request, votes)
  if (granted > 0 && mode !== 'peek') {
    for (let index = 0; index < rules.length; index++) {
      const rule = rules[index] as StoreCharge
      const { usage, chargeable } = votes[index] as Evaluation
      // A shadow rule that would have refused is left as it was, as an enforced one is.
      if (granted > chargeable) continue
      const units = granted * rule.cost
      const { implementation: twin } = ALGORITHMS[rule.algorithm]
      const { state, ttlMs, forfeited = 0 } = twin.commit(known[index], rule, nowUs, units, leaseMs)
      states.write(rule.key, state, ttlMs)
      subtract(usage, units + forfeited)
    }
  }
  return { granted, nowMs: Math.floor(nowUs / 1000), usage: votes.map(({ usage }) => usage) }
}

export function evaluateCharge(
  rule: StoreCharge,
  { mode, permits }: Pick<DecisionRequest, 'mode' | 'permits'>,
  state: unknown,
  nowUs: number,
): Evaluation {
  const { cost, reserved, counts } = rule
  const wanted = cost * (mode === 'partial' ? 1 : permits)
  const { available, usage, penalty } = ALGORITHMS[rule.algorithm].implementation.peek(
    state,
    rule,
    nowUs,
    wanted + reserved,
  )
  // Not what is only reserved for others. What one rule refuses, nothing admits, so it can be remembered at once.
  const isRefusal = (mode === 'all' || mode === 'partial') && available < wanted
  const { blockedMs, changed } = penalize(rule, penalty, isRefusal, Math.floor(nowUs / 1000))
  const free = blockedMs > 0 ? 0 : available - reserved
  const fitting = mode === 'charge' ? permits : Math.max(0, Math.floor(free / cost))
  // What counts failures may refuse, but nothing has failed yet.
  const isCharged = counts !== 'failures' || mode === 'charge'
  const told = blockedMs > 0 ? withPenalty(usage, blockedMs) : usage
  const vote = { usage: told, fitting, chargeable: isCharged ? fitting : 0 }
  return changed ? { ...vote, changed } : vote
}

/** What a rule that does not apply says: nothing is used. */
export function skipCharge({ tiers }: StoreCharge, { permits }: Pick<DecisionRequest, 'permits'>): Evaluation {
  const usage = tiers.map(({ limit, windowMs }) => ({ remaining: limit, resetMs: windowMs, retryAfterMs: 0 }))
  return { usage, fitting: permits, chargeable: 0 }
}

/** Permits that all rules together grant. */
export function countGranted({ mode, permits, rules }: DecisionRequest, votes: readonly Evaluation[]): number {
  let granted = permits
  for (let index = 0; index < rules.length; index++) {
    if (rules[index]?.enforced) granted = Math.min(granted, (votes[index] as Evaluation).fitting)
  }
  return mode === 'partial' || granted === permits ? granted : 0
}

/** Whether a rule that finds no state has found an identity that is new. */
export function detectsNewIdentities({ algorithm, counts }: StoreCharge): boolean {
  return counts !== 'failures' && ALGORITHMS[algorithm].tellsNewIdentities === true
}

/** Takes what was charged off what a rule has said. */
export function subtract(usage: readonly MutableLimitState[], units: number): void {
  for (const tier of usage) tier.remaining = Math.max(0, tier.remaining - units)
}

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
