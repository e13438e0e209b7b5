/** The policies under load: what a caller and its team may spend. */
import type { Limit } from '../../support/windows.ts'

export interface Policies {
  readonly caller: readonly Limit[]
  readonly team: readonly Limit[]
  readonly callersPerTeam: number
}

/** Windows short enough that many pass, and limits each of which comes to refuse. */
export const POLICIES: Policies = {
  caller: [
    { limit: 40, windowMs: 1_000 },
    { limit: 90, windowMs: 3_000 },
    { limit: 240, windowMs: 10_000 },
  ],
  team: [
    { limit: 70, windowMs: 1_000 },
    { limit: 330, windowMs: 6_000 },
  ],
  callersPerTeam: 10,
}

/** Limits that callers can keep far from, in windows long enough for leases. */
export const LEASED_POLICIES: Policies = {
  caller: [
    { limit: 300, windowMs: 6_000 },
    { limit: 800, windowMs: 18_000 },
  ],
  team: [{ limit: 1_050, windowMs: 6_000 }],
  callersPerTeam: 4,
}

/** The same limits in windows so many times as long. */
export function stretchWindows({ caller, team, callersPerTeam }: Policies, factor: number): Policies {
  const stretch = (limits: readonly Limit[]) =>
    limits.map(({ limit, windowMs }) => ({ limit, windowMs: windowMs * factor }))
  return { caller: stretch(caller), team: stretch(team), callersPerTeam }
}

export const POLICY_NAMES = ['caller', 'team'] as const
export const MAX_COST = 8

/** The variable POLICIES that says the same. */
export function toPolicyTables({ caller, team }: Policies): readonly Record<string, unknown>[] {
  const format = (limits: readonly Limit[]) => limits.map(({ limit, windowMs }) => `${limit}/${windowMs}ms`).join(', ')
  return [
    { name: 'caller', limits: format(caller), by: 'token', cost: 'header:x-cost', max_cost: MAX_COST },
    { name: 'team', limits: format(team), by: 'header:x-team' },
  ]
}

/** Reads `<prefix>:<policy>:<algorithm letter>:{<identity>}`. */
export function readPolicyName(key: string): string | undefined {
  return key.split(':')[1]
}

export function findLimits(policies: Policies, key: string): readonly Limit[] {
  const name = POLICY_NAMES.find((name) => name === readPolicyName(key))
  return name ? policies[name] : []
}
