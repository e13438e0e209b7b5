/**
 * Twin of `lua/decide.lua`: one decision over any number of rules. Peeks at all of them, then charges all of them or none.
 */

import type { Decision, DecisionRequest, Rule } from '../model/charge.ts'
import type { OwnTierUsage } from './algorithm.ts'
import { ALGORITHMS } from './algorithm-table.ts'
import { blockedUsage, type Penalized, penalize } from './penalize.ts'

/** What is known of each key; nothing of one that has expired. */
export interface States {
  read(key: string): unknown
  /** @param ttlMs left out, the state lives as long as it would have */
  write(key: string, state: unknown, ttlMs?: number): void
}

/** What a rule says before anything is charged. */
export interface Vote {
  readonly usage: readonly OwnTierUsage[]
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
  const votes: Vote[] = []
  for (const rule of rules) {
    if (rule.counts === 'identities' && !hasNewIdentity) {
      known.push(undefined)
      votes.push(voteUnasked(rule, request))
      continue
    }
    const state = states.read(rule.key)
    hasNewIdentity ||= state === undefined && tellsNewIdentities(rule)
    const vote = voteOf(rule, request, state, nowUs)
    if (vote.changed) {
      const commit = ALGORITHMS[rule.algorithm].twin.commit(state, rule, nowUs, 0, 0, vote.changed)
      states.write(rule.key, commit.state, commit.ttlMs)
    }
    known.push(state)
    votes.push(vote)
  }
  const granted = grantedBy(request, votes)
  if (granted > 0 && mode !== 'peek') {
    for (let index = 0; index < rules.length; index++) {
      const rule = rules[index] as Rule
      const { usage, chargeable } = votes[index] as Vote
      // A shadow rule that would have refused is left as it was, as an enforced one is.
      if (granted > chargeable) continue
      const units = granted * rule.cost
      const { twin } = ALGORITHMS[rule.algorithm]
      const { state, ttlMs, forfeited = 0 } = twin.commit(known[index], rule, nowUs, units, leaseMs)
      states.write(rule.key, state, ttlMs)
      subtract(usage, units + forfeited)
    }
  }
  return { granted, nowMs: Math.floor(nowUs / 1000), usage: votes.map(({ usage }) => usage) }
}

export function voteOf(
  rule: Rule,
  { mode, permits }: Pick<DecisionRequest, 'mode' | 'permits'>,
  state: unknown,
  nowUs: number,
): Vote {
  const { cost, reserved, counts } = rule
  const wanted = cost * (mode === 'partial' ? 1 : permits)
  const { available, usage, penalty } = ALGORITHMS[rule.algorithm].twin.peek(state, rule, nowUs, wanted + reserved)
  // Not what is only reserved for others. What one rule refuses, nothing admits, so it can be remembered at once.
  const isRefusal = (mode === 'all' || mode === 'partial') && available < wanted
  const { blockedMs, changed } = penalize(rule, penalty, isRefusal, Math.floor(nowUs / 1000))
  const free = blockedMs > 0 ? 0 : available - reserved
  const fitting = mode === 'charge' ? permits : Math.max(0, Math.floor(free / cost))
  // What counts failures may refuse, but nothing has failed yet.
  const isCharged = counts !== 'failures' || mode === 'charge'
  const told = blockedMs > 0 ? blockedUsage(usage, blockedMs) : usage
  const vote = { usage: told, fitting, chargeable: isCharged ? fitting : 0 }
  return changed ? { ...vote, changed } : vote
}

/** What a rule that does not apply says: nothing is used. */
export function voteUnasked({ tiers }: Rule, { permits }: Pick<DecisionRequest, 'permits'>): Vote {
  const usage = tiers.map(({ limit, windowMs }) => ({ remaining: limit, resetMs: windowMs, retryAfterMs: 0 }))
  return { usage, fitting: permits, chargeable: 0 }
}

/** Permits that all rules together grant. */
export function grantedBy({ mode, permits, rules }: DecisionRequest, votes: readonly Vote[]): number {
  let granted = permits
  for (let index = 0; index < rules.length; index++) {
    if (rules[index]?.enforced) granted = Math.min(granted, (votes[index] as Vote).fitting)
  }
  return mode === 'partial' || granted === permits ? granted : 0
}

/** Whether a rule that finds no state has found an identity that is new. */
export function tellsNewIdentities({ algorithm, counts }: Rule): boolean {
  return counts !== 'failures' && ALGORITHMS[algorithm].tellsNewIdentities === true
}

/** Takes what was charged off what a rule has said. */
export function subtract(usage: readonly OwnTierUsage[], units: number): void {
  for (const tier of usage) tier.remaining = Math.max(0, tier.remaining - units)
}
