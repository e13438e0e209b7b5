import { ALGORITHMS } from '../algorithms/algorithm-table.ts'
import type { Tier } from '../model/limits.ts'
import type { RequestPolicy } from '../model/policy.ts'
import { mayOverlap } from '../request/policy/pattern.ts'
import { ConfigError } from './config-error.ts'
import { defaultPolicy, type Names, type PolicyDefaults, tablePolicy } from './policies.ts'
import type { PolicyTable } from './policy-schema.ts'

/**
 * The policies that limits and tables make together, in the order in which they are asked.
 * @param limits tiers of the policy that they make by themselves; `off`: there is none
 * @throws {ConfigError} if they make no sense together
 */
export function policiesOf(
  limits: readonly Tier[] | 'off',
  tables: readonly PolicyTable[] | undefined,
  defaults: PolicyDefaults,
  isShedding: boolean,
): readonly RequestPolicy[] {
  const { names } = defaults
  const policies = limits === 'off' ? [] : [defaultPolicy(limits, defaults)]
  for (const [index, table] of (tables ?? []).entries()) {
    if (policies.some(({ name }) => name === table.name)) {
      const isMade = limits !== 'off' && table.name === defaults.name
      const expected = isMade ? `another name: ${names.limits} makes "${table.name}"` : 'a name used once'
      throw new ConfigError(names.policies, expected, table.name, [index, 'name'])
    }
    policies.push(tablePolicy(table, index, defaults))
  }
  refuseUnlimited(policies, tables, names, isShedding)
  // Policies that count new identities come after those that tell who is new.
  return [
    ...policies.filter(({ counts }) => counts === 'requests'),
    ...policies.filter(({ counts }) => counts !== 'requests'),
  ]
}

/** @throws {ConfigError} if policies look like limits, and none could ever be charged */
function refuseUnlimited(
  policies: readonly RequestPolicy[],
  tables: readonly PolicyTable[] | undefined,
  names: Names,
  isShedding: boolean,
): void {
  if (!isShedding && policies.every(({ tiers }) => tiers.length === 0)) {
    throw new ConfigError(
      names.policies,
      `at least one policy with limits (or ${names.limits}, or ${names.shedding})`,
      policies.map(({ name }) => name),
    )
  }
  const index = policies.findIndex((policy) => policy.counts === 'identities' && !policies.some(tellsNew(policy)))
  if (index < 0) return
  const name = policies[index]?.name
  throw new ConfigError(
    names.policies,
    'a "sliding-window" policy beside it that tells callers apart, and applies to some of the same requests',
    'identities',
    [tables?.findIndex((table) => table.name === name) ?? 0, 'counts'],
  )
}

/** Whether a policy can tell, for some request that another one applies to, that its identity is new. */
function tellsNew({ match }: RequestPolicy): (other: RequestPolicy) => boolean {
  return ({ counts, algorithm, tiers, by, match: others }) =>
    counts === 'requests' &&
    ALGORITHMS[algorithm].tellsNewIdentities === true &&
    tiers.length > 0 &&
    by.some(({ kind }) => kind !== 'global' && kind !== 'route') &&
    (!match || !others || match.some((pattern) => others.some((other) => mayOverlap(pattern, other))))
}
