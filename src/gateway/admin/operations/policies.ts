/** Operations on policies: the active ones, checks, differences, pushes. */
import * as v from 'valibot'
import { holdsSlots } from '../../../core/algorithms/algorithm-table.ts'
import { formatSource } from '../../../core/model/identity-source.ts'
import type { RequestPolicy } from '../../../core/model/policy.ts'
import { findProblems } from '../../../http/config/all-problems.ts'
import { toPointer } from '../../api/operation.ts'
import { describe } from '../../api/schema.ts'
import { readActiveRules } from '../../rules/active-rules.ts'
import type { Rules } from '../../rules/document.ts'
import { diffPolicies, readDeployedTables, readRulePolicies } from '../../rules/rule-policies.ts'
import * as answers from '../answers.ts'
import { changeRules, describeActive, note, toRulesError } from '../change-rules.ts'
import { defineOperation } from '../operation.ts'

const tables = describe(v.array(v.record(v.string(), v.unknown())), 'Tables as in POLICIES, which they replace.')

export const policies = defineOperation({
  path: '/policies',
  summary: 'The active policies',
  answer: answers.policies,
  async run(context) {
    const active = await readActiveRules(context.rulesEngine, context.config)
    const { policies, rules } = active
    const deployed = readDeployedTables(context.env)
    return {
      source: rules.policies === undefined ? 'deploy' : 'rules',
      active: describeActive(active),
      policies: policies.map(describePolicy),
      tables: rules.policies ?? deployed,
      deployed,
    }
  },
})

export const validate = defineOperation({
  path: '/policies/validate',
  summary: 'Whether policies can be pushed, and all that is wrong with them',
  body: v.strictObject({ policies: tables }),
  answer: answers.validate,
  async run({ env }, { policies }) {
    const { problems } = findProblems({ ...env, POLICIES: policies })
    return {
      valid: problems.length === 0,
      problems: problems
        .toSorted((a, b) => Number(a.path[0] ?? 0) - Number(b.path[0] ?? 0))
        .map(({ variable, path, message }) => ({
          pointer: variable === 'POLICIES' ? toPointer(['policies', ...path]) : null,
          message,
        })),
    }
  },
})

export const diff = defineOperation({
  path: '/policies/diff',
  summary: 'What policies would change if they were pushed',
  body: v.strictObject({ policies: v.nullable(tables) }),
  answer: answers.diff,
  async run(context, { policies }) {
    const deployed = readDeployedTables(context.env)
    try {
      if (policies) readRulePolicies(context.env, policies)
    } catch (error) {
      throw toRulesError(error)
    }
    const { rules } = await readActiveRules(context.rulesEngine, context.config)
    return { changes: diffPolicies(rules.policies ?? deployed, policies ?? deployed) }
  },
})

export const push = defineOperation({
  path: '/policies/push',
  summary: 'Make policies active everywhere',
  description:
    'They replace POLICIES without a deploy. One with `mode = "shadow"` refuses nothing; /statistics has what it would.',
  body: v.strictObject({ policies: describe(v.nullable(tables), 'Null: POLICIES again.'), ...note }),
  answer: answers.edited,
  async run(context, { policies, ...rest }) {
    const change = (rules: Rules) => ({ ...rules, policies: policies ?? undefined })
    const note = { ...rest, comment: rest.comment || `${policies ? 'push' : 'end'} policies` }
    return (await changeRules(context, change, note, true)).edited
  },
})

function describePolicy(policy: RequestPolicy): v.InferOutput<typeof answers.policies>['policies'][number] {
  const { name, algorithm, burst, plans, by, match, cost, penalty, counts, priority, mode, onStoreError } = policy
  return {
    name,
    algorithm,
    limits: describeLimits(policy),
    burst: burst ?? null,
    plans: plans
      ? Object.fromEntries(Object.entries(plans.limits).map(([plan, limits]) => [plan, describeLimits(limits)]))
      : null,
    by: by.map(formatSource),
    match: match?.map(({ method, path }) => `${method} ${path}`) ?? null,
    cost: { units: cost.kind === 'fixed' ? cost.units : null, header: cost.kind === 'header' ? cost.name : null },
    penalty: penalty ? { ...penalty } : null,
    holdsSlots: holdsSlots({ algorithm }),
    counts,
    priority: priority ?? null,
    mode,
    onStoreError,
  }
}

function describeLimits({ limits }: Pick<RequestPolicy, 'limits'>) {
  return limits.map(({ name, limit, windowMs }) => ({ name, limit, windowMs }))
}
