import * as v from 'valibot'
import { ALGORITHMS } from '../algorithms/algorithm-table.ts'
import type { RequestPolicy } from '../model/policy.ts'
import { nameOfSource } from '../request/identity/source.ts'

const tiers = v.array(v.strictObject({ name: v.string(), limit: v.number(), windowMs: v.number() }))

/** A policy, as it is understood. */
export const policy = v.strictObject({
  name: v.string(),
  algorithm: v.string(),
  tiers: v.pipe(tiers, v.description('Those of the default plan, if limits go by plan.')),
  burst: v.nullable(v.number()),
  plans: v.nullable(v.record(v.string(), tiers)),
  by: v.pipe(v.array(v.string()), v.description('What it counts by.')),
  match: v.pipe(v.nullable(v.array(v.string())), v.description('Patterns such as `POST /login`; null: everything.')),
  cost: v.pipe(
    v.strictObject({ units: v.nullable(v.number()), header: v.nullable(v.string()) }),
    v.description('Units of a request, or the header that says them.'),
  ),
  penalty: v.pipe(
    v.nullable(v.strictObject({ blockMs: v.number(), after: v.number() })),
    v.description('For how long it refuses a caller after so many refusals.'),
  ),
  holdsSlots: v.pipe(
    v.boolean(),
    v.description('Limits are of requests at once; the window is how long one is counted at most.'),
  ),
  counts: v.string(),
  priority: v.nullable(v.string()),
  mode: v.picklist(['enforce', 'shadow']),
  onStoreError: v.picklist(['local', 'open', 'closed']),
})

export type DescribedPolicy = v.InferOutput<typeof policy>

export function describePolicy(policy: RequestPolicy): DescribedPolicy {
  const { name, algorithm, burst, plans, by, match, cost, block, counts, priority, enforced, onStoreError } = policy
  return {
    name,
    algorithm,
    tiers: tiersOf(policy),
    burst: burst ?? null,
    plans: plans
      ? Object.fromEntries(Object.entries(plans.limits).map(([plan, limits]) => [plan, tiersOf(limits)]))
      : null,
    by: by.map(nameOfSource),
    match: match?.map(({ method, path }) => `${method} ${path}`) ?? null,
    cost: { units: cost.kind === 'fixed' ? cost.units : null, header: cost.kind === 'header' ? cost.name : null },
    penalty: block ? { ...block } : null,
    holdsSlots: ALGORITHMS[algorithm].holdsSlots === true,
    counts,
    priority: priority ?? null,
    mode: enforced ? 'enforce' : 'shadow',
    onStoreError,
  }
}

function tiersOf({ tiers }: Pick<RequestPolicy, 'tiers'>) {
  return tiers.map(({ name, limit, windowMs }) => ({ name, limit, windowMs }))
}
