import type { Tier } from './windows.ts'

/** Windows short enough that many pass, and limits that all of the tiers come to refuse by. */
export const POLICIES: Readonly<Record<'caller' | 'team', readonly Tier[]>> = {
  caller: [
    { limit: 40, windowMs: 1_000 },
    { limit: 90, windowMs: 3_000 },
    { limit: 240, windowMs: 10_000 },
  ],
  team: [
    { limit: 70, windowMs: 1_000 },
    { limit: 330, windowMs: 6_000 },
  ],
}
export const POLICY_NAMES = ['caller', 'team'] as const
export const MAX_COST = 8
export const SHORTEST_WINDOW_MS = 1_000

const CALLERS_PER_TEAM = 10

export function teamsOf(callers: number): number {
  return Math.ceil(callers / CALLERS_PER_TEAM)
}

/** The variable POLICIES that says the same. */
export function policyTables(): readonly Record<string, unknown>[] {
  const limitsOf = (tiers: readonly Tier[]) => tiers.map(({ limit, windowMs }) => `${limit}/${windowMs}ms`).join(', ')
  return [
    { name: 'caller', limits: limitsOf(POLICIES.caller), by: 'token', cost: 'header:x-cost', max_cost: MAX_COST },
    { name: 'team', limits: limitsOf(POLICIES.team), by: 'header:x-team' },
  ]
}

/** `<prefix>:<policy>:<algorithm letter>:{<identity>}` */
export function policyOf(key: string): string | undefined {
  return key.split(':')[1]
}

export function tiersOf(key: string): readonly Tier[] {
  return Object.entries(POLICIES).find(([name]) => name === policyOf(key))?.[1] ?? []
}
