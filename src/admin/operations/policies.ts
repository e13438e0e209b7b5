import * as v from 'valibot'
import type { Source } from '../../request/identity/source.ts'
import type { Policy } from '../../request/policy/policy.ts'
import { defineOperation } from '../operation.ts'

const tiers = v.array(v.strictObject({ name: v.string(), limit: v.number(), windowMs: v.number() }))

export const policies = defineOperation({
  method: 'GET',
  path: '/policies',
  summary: 'The policies in force',
  answer: v.strictObject({
    policies: v.array(
      v.strictObject({
        name: v.string(),
        algorithm: v.string(),
        tiers: v.pipe(tiers, v.description('Those of the default plan, if limits go by plan.')),
        burst: v.nullable(v.number()),
        plans: v.nullable(v.record(v.string(), tiers)),
        by: v.pipe(v.array(v.string()), v.description('What it counts by.')),
        match: v.pipe(
          v.nullable(v.array(v.string())),
          v.description('Patterns such as `POST /login`; null: everything.'),
        ),
        counts: v.string(),
        priority: v.nullable(v.string()),
        mode: v.picklist(['enforce', 'shadow']),
        onStoreError: v.picklist(['local', 'open', 'closed']),
      }),
    ),
  }),
  async run({ config }) {
    return { policies: config.policies.map(described) }
  },
})

function described(policy: Policy) {
  const { name, algorithm, burst, plans, by, match, counts, priority, enforced, onStoreError } = policy
  return {
    name,
    algorithm,
    tiers: tiersOf(policy),
    burst: burst ?? null,
    plans: plans
      ? Object.fromEntries(Object.entries(plans.limits).map(([plan, limits]) => [plan, tiersOf(limits)]))
      : null,
    by: by.map(sourceText),
    match: match?.map(({ method, path }) => `${method} ${path}`) ?? null,
    counts,
    priority: priority ?? null,
    mode: enforced ? ('enforce' as const) : ('shadow' as const),
    onStoreError,
  }
}

function tiersOf({ tiers }: Pick<Policy, 'tiers'>) {
  return tiers.map(({ name, limit, windowMs }) => ({ name, limit, windowMs }))
}

function sourceText(source: Source): string {
  return 'name' in source ? `${source.kind}:${source.name}` : source.kind
}
