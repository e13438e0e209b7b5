/**
 * Twin of `lua/decide.lua`: one decision over any number of rules. Peeks at all of them, then charges all of them or none.
 */
import type { OwnTierUsage } from './algorithm.ts'
import { ALGORITHMS } from './algorithm-table.ts'
import { blockedUsage, penalize } from './penalize.ts'
import type { Decision, DecisionRequest, Rule } from './rule.ts'

/** What is known of each key; nothing of one that has expired. */
export interface States {
  read(key: string): unknown
  /** @param ttlMs left out, the state lives as long as it would have */
  write(key: string, state: unknown, ttlMs?: number): void
}

/** What a rule said before anything was charged. */
interface Peeked {
  readonly state: unknown
  readonly usage: readonly OwnTierUsage[]
  /** Permits that may be charged; none if the rule does not apply. */
  readonly chargeable: number
}

/** @param nowUs microseconds since the Unix epoch, an integer */
export function decide(
  { mode, permits, leaseMs = 0, rules }: DecisionRequest,
  nowUs: number,
  states: States,
): Decision {
  const nowMs = Math.floor(nowUs / 1000)
  const wantedPermits = mode === 'partial' ? 1 : permits
  const mayRefuse = mode === 'all' || mode === 'partial'
  let granted = permits
  let hasNewIdentity = false
  const peeked: Peeked[] = []
  for (const rule of rules) {
    if (rule.counts === 'identities' && !hasNewIdentity) {
      peeked.push({ state: undefined, usage: unused(rule), chargeable: 0 })
      continue
    }
    const { twin, tellsNewIdentities } = ALGORITHMS[rule.algorithm]
    const state = states.read(rule.key)
    const { available, usage, penalty } = twin.peek(state, rule, nowUs, rule.cost * wantedPermits + rule.reserved)
    // Not what is only reserved for others. What one rule refuses, nothing admits, so it can be remembered at once.
    const isRefusal = mayRefuse && available < rule.cost * wantedPermits
    const { blockedMs, changed } = penalize(rule, penalty, isRefusal, nowMs)
    if (changed) {
      const commit = twin.commit(state, rule, nowUs, 0, 0, changed)
      states.write(rule.key, commit.state, commit.ttlMs)
    }
    const isForFailures = rule.counts === 'failures'
    hasNewIdentity ||= !isForFailures && tellsNewIdentities === true && state === undefined
    const free = blockedMs > 0 ? 0 : available - rule.reserved
    const fitting = mode === 'charge' ? permits : Math.max(0, Math.floor(free / rule.cost))
    if (rule.enforced) granted = Math.min(granted, fitting)
    // What counts failures may refuse, but nothing has failed yet.
    const isCharged = !isForFailures || mode === 'charge'
    const told = blockedMs > 0 ? blockedUsage(usage, blockedMs) : usage
    peeked.push({ state, usage: told, chargeable: isCharged ? fitting : 0 })
  }
  if (mode !== 'partial' && granted < permits) granted = 0
  if (granted > 0 && mode !== 'peek') {
    for (let index = 0; index < rules.length; index++) {
      const rule = rules[index] as Rule
      const { state: before, usage, chargeable } = peeked[index] as Peeked
      // A shadow rule that would have refused is left as it was, as an enforced one is.
      if (granted > chargeable) continue
      const units = granted * rule.cost
      const { state, ttlMs } = ALGORITHMS[rule.algorithm].twin.commit(before, rule, nowUs, units, leaseMs)
      states.write(rule.key, state, ttlMs)
      for (const tier of usage) tier.remaining = Math.max(0, tier.remaining - units)
    }
  }
  return { granted, nowMs, usage: peeked.map(({ usage }) => usage) }
}

/** What a rule that does not apply says: nothing is used. */
function unused({ tiers }: Rule): OwnTierUsage[] {
  return tiers.map(({ limit, windowMs }) => ({ remaining: limit, resetMs: windowMs, retryAfterMs: 0 }))
}
