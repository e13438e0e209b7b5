import type { Rule } from '../model/charge.ts'

/**
 * What one isolate allows of a rule by itself: a share of each of its limits, rounded down, but never so little that
 * the request would not fit into an unused one.
 * @param share above 0 and at most 1
 */
export function localShareOf(rule: Rule, share: number): Rule {
  if (share === 1) return rule
  const reserved = Math.floor(rule.reserved * share)
  const part = (units: number) => Math.max(Math.floor(units * share), rule.cost + reserved)
  const tiers = rule.tiers.map(({ limit, windowMs }) => ({ limit: part(limit), windowMs }))
  return { ...rule, tiers, reserved, ...(rule.burst !== undefined && { burst: part(rule.burst) }) }
}
