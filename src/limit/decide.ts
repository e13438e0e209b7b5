/**
 * Twin of `lua/decide.lua`: one decision over any number of rules. Peeks at all of them, then charges all of them or none.
 */
import type { Peek } from './algorithm.ts'
import { ALGORITHMS } from './algorithm-table.ts'
import type { Decision, DecisionRequest, Rule } from './rule.ts'

/** What is known of each key; nothing of one that has expired. */
export interface States {
  read(key: string): unknown
  /** @param ttlMs left out, the state lives as long as it would have */
  write(key: string, state: unknown, ttlMs?: number): void
}

/** @param nowUs microseconds since the Unix epoch, an integer */
export function decide(
  { mode, permits, leaseMs = 0, rules }: DecisionRequest,
  nowUs: number,
  states: States,
): Decision {
  const wantedPermits = mode === 'partial' ? 1 : permits
  let granted = permits
  let hasNewIdentity = false
  const peeks = rules.map((rule) => {
    const wanted = rule.cost * wantedPermits + rule.reserved
    const { twin, tellsNewIdentities } = ALGORITHMS[rule.algorithm]
    const isForFailures = rule.counts === 'failures'
    const applies = rule.counts !== 'identities' || hasNewIdentity
    const state = applies ? states.read(rule.key) : undefined
    const peek = applies ? twin.peek(state, rule, nowUs, wanted) : unused(rule)
    hasNewIdentity ||= applies && !isForFailures && tellsNewIdentities === true && state === undefined
    const fitting = mode === 'charge' ? permits : Math.max(0, Math.floor((peek.available - rule.reserved) / rule.cost))
    if (rule.enforced) granted = Math.min(granted, fitting)
    // What counts failures may refuse, but nothing has failed yet.
    const isCharged = applies && (!isForFailures || mode === 'charge')
    return { rule, isCharged, usage: peek.usage, fitting }
  })
  if (mode !== 'partial' && granted < permits) granted = 0

  const usage = peeks.map(({ rule, isCharged, usage, fitting }) => {
    // A shadow rule that would have refused is left as it was, as an enforced one is.
    if (!isCharged || granted === 0 || mode === 'peek' || granted > fitting) return usage
    const units = granted * rule.cost
    const { twin } = ALGORITHMS[rule.algorithm]
    const { state, ttlMs } = twin.commit(states.read(rule.key), rule, nowUs, units, leaseMs)
    states.write(rule.key, state, ttlMs)
    return usage.map((tier) => ({ ...tier, remaining: Math.max(0, tier.remaining - units) }))
  })
  return { granted, nowMs: Math.floor(nowUs / 1000), usage }
}

/** What a rule that does not apply says: nothing is used. */
function unused({ tiers }: Rule): Peek {
  const usage = tiers.map(({ limit, windowMs }) => ({ remaining: limit, resetMs: windowMs, retryAfterMs: 0 }))
  return { available: Number.POSITIVE_INFINITY, usage }
}
