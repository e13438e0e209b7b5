import * as v from 'valibot'
import { findProblems } from '../../config/all-problems.ts'
import { OptionError } from '../../config/option-error.ts'
import type { Rules } from '../../rules/document.ts'
import { withPolicies } from '../../rules/edits.ts'
import { policiesOf } from '../../rules/policies.ts'
import { policyChanges } from '../../rules/policy-changes.ts'
import { deployedTables, tablesOf } from '../../rules/tables.ts'
import { changeRules, edited, note, problemOfRules, toldOf } from '../change-rules.ts'
import { describePolicy, policy } from '../describe-policy.ts'
import { inForce } from '../in-force.ts'
import { defineOperation, type Operated, OperationError } from '../operation.ts'

const tables = v.pipe(
  v.array(v.record(v.string(), v.unknown())),
  v.description('Tables as in POLICIES, which they take the place of.'),
)

const written = v.array(v.looseObject({}))

export const policies = defineOperation({
  method: 'GET',
  path: '/policies',
  summary: 'The policies in force',
  answer: v.strictObject({
    source: v.pipe(v.picklist(['deploy', 'rules']), v.description('`rules`: they were pushed.')),
    policies: v.array(policy),
    tables: v.pipe(written, v.description('Their tables, as they are written; RATE_LIMITS has none.')),
    deployed: v.pipe(written, v.description('The tables of POLICIES, which hold if none are pushed.')),
  }),
  async run(operated) {
    const { policies, rules } = await inForce(operated)
    const deployed = deployedTables(operated.env)
    return {
      source: rules.policies === undefined ? 'deploy' : 'rules',
      policies: policies.map(describePolicy),
      tables: copied(tablesOf(rules, 'policies', deployed)),
      deployed: copied(deployed),
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
    changes: v.array(
      v.strictObject({
        policy: v.string(),
        change: v.picklist(['added', 'removed', 'changed']),
        keys: v.pipe(
          v.array(v.strictObject({ key: v.string(), before: v.nullable(v.string()), after: v.nullable(v.string()) })),
          v.description('Keys of its table, and their values as JSON; null: the key is not there.'),
        ),
      }),
    ),
  }),
  async run(operated, { body: { policies } }) {
    const deployed = deployedTables(operated.env)
    if (policies) refuseWrong(operated, policies)
    const { rules } = await inForce(operated)
    const changes = policyChanges(tablesOf(rules, 'policies', deployed), policies ?? deployed)
    return { changes: changes.map((change) => ({ ...change, keys: [...change.keys] })) }
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
    const change = (rules: Rules) => withPolicies(rules, policies ?? undefined, shadow, nowMs)
    const usual = `${policies ? 'push' : 'end'} ${shadow ? 'policies in shadow' : 'policies'}`
    return toldOf(await changeRules(operated, change, { ...rest, why: rest.why || usual }, true))
  },
})

/** @throws {OperationError} */
function refuseWrong({ env }: Operated, tables: readonly object[]): void {
  try {
    policiesOf(env, tables, 'policies')
  } catch (error) {
    throw error instanceof OptionError ? new OperationError(problemOfRules(error)) : error
  }
}

function copied(tables: readonly object[]) {
  return tables.map((table) => ({ ...table }))
}
