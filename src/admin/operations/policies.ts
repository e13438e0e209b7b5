import * as v from 'valibot'
import { findProblems } from '../../config/all-problems.ts'
import { ConfigError } from '../../config/config-error.ts'
import type { Environment } from '../../config/load-config.ts'
import type { Policy } from '../../request/policy/policy.ts'
import { withPolicies } from '../../rules/edits.ts'
import { policiesOf } from '../../rules/policies.ts'
import { changeRules, edited, note, problemOfRules } from '../change-rules.ts'
import { describePolicy, policy } from '../describe-policy.ts'
import { inForce } from '../in-force.ts'
import { defineOperation, OperationError } from '../operation.ts'

const tables = v.pipe(
  v.array(v.record(v.string(), v.unknown())),
  v.description('Tables as in POLICIES, which they take the place of.'),
)

export const policies = defineOperation({
  method: 'GET',
  path: '/policies',
  summary: 'The policies in force',
  answer: v.strictObject({
    source: v.pipe(v.picklist(['deploy', 'rules']), v.description('`rules`: they were pushed.')),
    policies: v.array(policy),
    tables: v.pipe(v.array(v.looseObject({})), v.description('Those of POLICIES, as they are written.')),
  }),
  async run(operated) {
    const { policies, rules } = await inForce(operated)
    return {
      source: rules.policies === undefined ? 'deploy' : 'rules',
      policies: policies.map(describePolicy),
      tables: (rules.policies ?? tablesOf(operated.env)).map((table) => ({ ...table })),
    }
  },
})

export const validate = defineOperation({
  method: 'POST',
  path: '/policies/validate',
  summary: 'Whether policies can be pushed, and all that is wrong with them',
  body: v.strictObject({ policies: tables }),
  answer: v.strictObject({
    isValid: v.boolean(),
    problems: v.array(
      v.strictObject({
        place: v.pipe(v.string(), v.description('Index of the table and name of the key, with a dot between.')),
        message: v.string(),
      }),
    ),
  }),
  async run({ env }, { body }) {
    const { problems } = findProblems({ ...env, POLICIES: body.policies })
    return {
      isValid: problems.length === 0,
      problems: problems
        .toSorted((a, b) => Number(a.path[0] ?? 0) - Number(b.path[0] ?? 0))
        .map(({ variable, path, message }) => ({
          place: variable === 'POLICIES' ? path.join('.') : variable,
          message,
        })),
    }
  },
})

export const diff = defineOperation({
  method: 'POST',
  path: '/policies/diff',
  summary: 'What policies would change if they were pushed',
  body: v.strictObject({ policies: v.nullable(tables) }),
  answer: v.strictObject({
    added: v.array(policy),
    removed: v.array(policy),
    changed: v.array(v.strictObject({ before: policy, after: policy })),
  }),
  async run(operated, { body }) {
    const { policies: before } = await inForce(operated)
    const after = policiesFrom(operated.env, body.policies) ?? operated.config.policies
    const named = (policies: readonly Policy[], name: string) => policies.find((each) => each.name === name)
    return {
      added: after.filter(({ name }) => !named(before, name)).map(describePolicy),
      removed: before.filter(({ name }) => !named(after, name)).map(describePolicy),
      changed: after.flatMap((each) => {
        const was = named(before, each.name)
        // All of it, and not only what is described.
        if (!was || JSON.stringify(was) === JSON.stringify(each)) return []
        return [{ before: describePolicy(was), after: describePolicy(each) }]
      }),
    }
  },
})

export const push = defineOperation({
  method: 'POST',
  path: '/policies/push',
  summary: 'Put policies in force, or beside those in force, everywhere',
  description:
    'They take the place of POLICIES without a deploy. In shadow, they decide beside those in force and refuse nothing; ' +
    'what would have differed is told by /rules.',
  body: v.strictObject({
    policies: v.pipe(v.nullable(tables), v.description('Null: POLICIES hold again, or nothing is in shadow.')),
    shadow: v.optional(v.boolean(), false),
    ...note,
  }),
  answer: edited,
  async run(operated, { body: { policies, shadow, ...rest } }) {
    const nowMs = operated.now()
    return changeRules(operated, (rules) => withPolicies(rules, policies ?? undefined, shadow, nowMs), rest)
  },
})

/** @returns undefined for null @throws {OperationError} */
function policiesFrom(env: Environment, tables: readonly object[] | null): readonly Policy[] | undefined {
  if (tables === null) return undefined
  try {
    return policiesOf(env, tables, 'policies')
  } catch (error) {
    throw error instanceof ConfigError ? new OperationError(problemOfRules(error)) : error
  }
}

function tablesOf({ POLICIES: tables }: Environment): readonly object[] {
  return (typeof tables === 'string' ? JSON.parse(tables) : tables) ?? []
}
