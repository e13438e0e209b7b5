/** Reads the policies of a rule set, and compares them with others. */
import type { RequestPolicy } from '../../core/model/policy.ts'
import { readCalendarLimits } from '../../core/options/calendar.ts'
import { OptionError } from '../../core/options/option-error.ts'
import { type Environment, loadConfig } from '../../http/config/load-config.ts'
import { type PolicyTables, RULES, type Rules } from './document.ts'
import { resolveOverride } from './override.ts'

/** Reads policies in place of POLICIES, with the Worker's other variables. @throws {OptionError} */
export function readRulePolicies(env: Environment, tables: unknown): readonly RequestPolicy[] {
  try {
    return loadConfig({ ...env, POLICIES: tables }, { readCalendarLimits }).policies
  } catch (error) {
    throw error instanceof OptionError && error.variable === 'POLICIES' ? error.relocate([RULES, 'policies']) : error
  }
}

/** Checks the policies of a rule set, and that its overrides fit them. @throws {OptionError} for the first mistake */
export function checkRules(rules: Rules, env: Environment): void {
  const policies = readRulePolicies(env, rules.policies ?? env.POLICIES)
  const [misfit] = findMisfits(rules, policies)
  if (misfit) throw misfit
}

/** Finds what keeps overrides from having an effect on policies. */
export function findMisfits({ overrides }: Rules, policies: readonly RequestPolicy[]): readonly OptionError[] {
  const names = policies.map(({ name }) => name)
  const misfits: OptionError[] = []
  const add = (path: readonly (string | number)[], value: unknown, expected: string) =>
    misfits.push(new OptionError([RULES, 'overrides', ...path], expected, value))
  // Most of many overrides say the same.
  const known = new Map<string, string | undefined>()
  for (const [index, override] of overrides.entries()) {
    const { limits, multiplier, policies: about } = override
    for (const name of limits ? Object.keys(limits) : (about ?? [])) {
      if (names.includes(name)) continue
      const expected = names.map((known) => `"${known}"`).join(' or ')
      add([index, limits ? 'limits' : 'policies'], name, `the name of a policy, ${expected}`)
    }
    if (limits === undefined && multiplier === undefined) continue
    for (const policy of policies) {
      const key = JSON.stringify([policy.name, limits?.[policy.name], multiplier, about])
      const expected = known.has(key) ? known.get(key) : findProblem(override, policy)
      known.set(key, expected)
      if (expected === undefined) continue
      if (limits) add([index, 'limits', policy.name], limits[policy.name], expected)
      else add([index, 'multiplier'], multiplier, `a multiple that makes of "${policy.name}" ${expected}`)
    }
  }
  return misfits
}

function findProblem(override: Rules['overrides'][number], policy: RequestPolicy): string | undefined {
  const all = policy.plans ? Object.values(policy.plans.limits).map(({ limits }) => limits) : [policy.limits]
  for (const limits of all) {
    const resolved = resolveOverride(override, policy, limits)
    if (resolved && 'expected' in resolved) return resolved.expected
  }
  return undefined
}

export type PolicyChange = ReturnType<typeof diffPolicies>[number]

/** Compares policy by policy, in the order in which they stand before; new ones come last. Values are JSON. */
export function diffPolicies(before: PolicyTables, after: PolicyTables) {
  const [old, next] = [indexByName(before), indexByName(after)]
  return [...new Set([...old.keys(), ...next.keys()])].flatMap((policy) => {
    const [was, is] = [old.get(policy), next.get(policy)]
    const keys = [...new Set([...Object.keys(was ?? {}), ...Object.keys(is ?? {})])]
      .map((key) => ({ key, before: toJson(was?.[key]), after: toJson(is?.[key]) }))
      .filter(({ key, before, after }) => key !== 'name' && before !== after)
    const end = was ? 'removed' : 'added'
    const change = was && is ? 'changed' : end
    return change === 'changed' && keys.length === 0 ? [] : [{ policy, change, keys } as const]
  })
}

function indexByName(tables: PolicyTables): ReadonlyMap<string, Readonly<Record<string, unknown>>> {
  return new Map(tables.map((table) => [`${table.name}`, table]))
}

function toJson(value: unknown): string | null {
  return value === undefined ? null : JSON.stringify(value)
}

export function readDeployedTables({ POLICIES: tables }: Environment): PolicyTables {
  return (typeof tables === 'string' && tables !== '' ? JSON.parse(tables) : tables || []) as PolicyTables
}
