import type { Decision, DecisionRequest, LimitState, StoreCharge } from '../model/charge.ts'
import type { MutableLimitState, PenaltyState } from './algorithm.ts'
import { ALGORITHMS } from './algorithm-table.ts'

/**
 * Twin of `lua/decide.lua`: one decision over any number of rules. It peeks at all, then charges all or none.
 */

/** State by key; expired states are not returned. */
export interface States {
  read(key: string): unknown
  /** @param ttlMs if omitted, the time to live stays */
  write(key: string, state: unknown, ttlMs?: number): void
}

/** A rule, evaluated before any charge. */
export interface Evaluation {
  readonly usage: readonly MutableLimitState[]
  /** Permits that fit, also for a rule in shadow mode. */
  readonly fitting: number
  /** Permits that may be charged; 0 if the rule does not apply. */
  readonly chargeable: number
  /** A new penalty state to store, even though nothing is charged. */
  readonly changed?: Penalized['changed']
}

/**
 * @param nowUs microseconds since the Unix epoch, an integer
 * @param algorithms each over the states that it has written
 */
export function decide(request: DecisionRequest, nowUs: number, states: States, algorithms = ALGORITHMS): Decision {
  const { mode, leaseMs = 0, rules } = request
  let hasNewIdentity = false
  const known: unknown[] = []
  const evaluations: Evaluation[] = []
  for (const rule of rules) {
    if (rule.counts === 'identities' && !hasNewIdentity) {
      known.push(undefined)
      evaluations.push(skipCharge(rule, request))
      continue
    }
    const state = states.read(rule.key)
    hasNewIdentity ||= state === undefined && detectsNewIdentities(rule)
    const evaluation = evaluateCharge(rule, request, state, nowUs, algorithms)
    if (evaluation.changed) {
      const commit = algorithms[rule.algorithm].implementation.commit(state, rule, nowUs, 0, 0, evaluation.changed)
      states.write(rule.key, commit.state, commit.ttlMs)
    }
    known.push(state)
    evaluations.push(evaluation)
  }
  const granted = countGranted(request, evaluations)
  if (granted > 0 && mode !== 'peek') {
    for (let index = 0; index < rules.length; index++) {
      const rule = rules[index] as StoreCharge
      const { usage, chargeable } = evaluations[index] as Evaluation
      // A rule in shadow mode that would have refused stays unchanged, like an enforced one.
      if (granted > chargeable) continue
      const units = granted * rule.cost
      const { implementation } = algorithms[rule.algorithm]
      const { state, ttlMs, forfeited = 0 } = implementation.commit(known[index], rule, nowUs, units, leaseMs)
      states.write(rule.key, state, ttlMs)
      subtract(usage, units + forfeited)
    }
  }
  return { granted, nowMs: Math.floor(nowUs / 1000), usage: evaluations.map(({ usage }) => usage) }
}

export function evaluateCharge(
  rule: StoreCharge,
  { mode, permits }: Pick<DecisionRequest, 'mode' | 'permits'>,
  state: unknown,
  nowUs: number,
  algorithms = ALGORITHMS,
): Evaluation {
  const { cost, reserved, counts } = rule
  const wanted = cost * (mode === 'partial' ? 1 : permits)
  const { available, usage, penalty } = algorithms[rule.algorithm].implementation.peek(
    state,
    rule,
    nowUs,
    wanted + reserved,
  )
  // Reserved units make no refusal that counts. A request that one rule refuses is refused, so it can be counted at once.
  const isRefusal = (mode === 'all' || mode === 'partial') && available < wanted
  const { blockedMs, changed } = penalize(rule, penalty, isRefusal, Math.floor(nowUs / 1000))
  const free = blockedMs > 0 ? 0 : available - reserved
  const fitting = mode === 'charge' ? permits : Math.max(0, Math.floor(free / cost))
  // A policy that counts failures may refuse, but nothing has failed yet.
  const isCharged = counts !== 'failures' || mode === 'charge'
  const states = blockedMs > 0 ? withPenalty(usage, blockedMs) : usage
  const evaluation = { usage: states, fitting, chargeable: isCharged ? fitting : 0 }
  return changed ? { ...evaluation, changed } : evaluation
}

/** Evaluates a rule that does not apply: nothing is used. */
export function skipCharge({ tiers }: StoreCharge, { permits }: Pick<DecisionRequest, 'permits'>): Evaluation {
  const usage = tiers.map(({ limit, windowMs }) => ({ remaining: limit, resetMs: windowMs, retryAfterMs: 0 }))
  return { usage, fitting: permits, chargeable: 0 }
}

export function countGranted({ mode, permits, rules }: DecisionRequest, evaluations: readonly Evaluation[]): number {
  let granted = permits
  for (let index = 0; index < rules.length; index++) {
    if (rules[index]?.enforced) granted = Math.min(granted, (evaluations[index] as Evaluation).fitting)
  }
  return mode === 'partial' || granted === permits ? granted : 0
}

/** If true, a missing state means a new identity. */
export function detectsNewIdentities({ algorithm, counts }: StoreCharge): boolean {
  return counts !== 'failures' && ALGORITHMS[algorithm].tellsNewIdentities === true
}

export function subtract(usage: readonly MutableLimitState[], units: number): void {
  for (const tier of usage) tier.remaining = Math.max(0, tier.remaining - units)
}

export interface Penalized {
  /** The rest of the penalty; 0 without one. */
  readonly blockedMs: number
  /** A new state to store. */
  readonly changed?: PenaltyState
}

const FREE: Penalized = { blockedMs: 0 }

/**
 * Twin of `lua/penalize.lua`. A refusal during a penalty does not extend it.
 * @param isRefusal true if the rule refuses by its limits, and the refusal counts
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

/** Extends the retry-after times of limits by a penalty. */
function withPenalty(usage: readonly MutableLimitState[], blockedMs: number): MutableLimitState[] {
  return usage.map((tier) => ({ ...tier, retryAfterMs: Math.max(tier.retryAfterMs, blockedMs), blockedMs }))
}

/** A limit as the caller sees it: during a penalty, nothing remains. */
export function toReported(tier: LimitState): LimitState {
  const { blockedMs, remaining, resetMs } = tier
  if (blockedMs === undefined) return tier
  return { ...tier, remaining: 0, resetMs: remaining > 0 ? blockedMs : Math.max(resetMs, blockedMs) }
}
