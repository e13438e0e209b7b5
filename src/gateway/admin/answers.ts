/** The answers of operations. The dashboard imports these types, so nothing here may need the Worker. */
import * as v from 'valibot'
import { CALLER_KIND_NAMES } from '../../core/model/identity-source.ts'
import { ON_STORE_ERROR, POLICY_MODES } from '../../core/model/policy.ts'
import { describe, units } from '../api/schema.ts'
import { STORE_STATES } from '../app/health.ts'
import { RULES_STATES } from '../rules/active-rules.ts'
import type { Allow, Block, Override } from '../rules/document.ts'
import type { RuleTarget } from '../rules/target.ts'
import { refusalsSchema } from '../statistics/read-statistics.ts'

const epochMs = describe(v.number(), 'Milliseconds since the Unix epoch.')
const nullableText = v.nullable(v.string())
const nullableNumber = v.nullable(v.number())

const reachability = {
  reachable: v.nullable(v.boolean()),
  rttMs: describe(nullableNumber, 'How long it took to answer; null if it did not.'),
  circuit: describe(
    v.picklist(['closed', 'open', 'half-open']),
    'Open: it keeps failing, and is not called. Half-open: the next decision tries it.',
  ),
}

export const status = v.strictObject({
  nowMs: epochMs,
  release: v.string(),
  status: v.picklist(['ok', 'degraded', 'unknown']),
  store: v.strictObject({
    kind: describe(v.string(), '`redis`, `durable-object` or `memory`.'),
    state: describe(
      v.picklist(STORE_STATES),
      '`slow`: a decision has no answer in time. `failing`: it answers, but decisions have failed, and are made without it.',
    ),
    timeoutMs: describe(units, 'Deadline of a decision.'),
    ...reachability,
    shards: describe(
      v.optional(v.record(v.string(), v.strictObject(reachability))),
      'Each of several databases, by its name.',
    ),
    layout: describe(
      v.optional(
        v.strictObject({
          sinceMs: epochMs,
          completeAtMs: describe(nullableNumber, 'When what moves has been counted in both places for long enough.'),
          warning: describe(
            nullableText,
            'What was changed in such a way that counts or rules may be lost, or what must end first.',
          ),
        }),
      ),
      'Since when several databases share out identities as they do.',
    ),
  }),
  shedLevel: describe(nullableNumber, '0 (none is shed) to 2 (all but critical ones); null without SHEDDING.'),
})

const needs = v.nullable(v.picklist([...CALLER_KIND_NAMES, 'route']))

export const skipped = v.array(
  v.strictObject({
    policy: v.string(),
    reason: v.string(),
    needs: describe(needs, 'What the caller lacks, if that is why.'),
  }),
)

const limitUsage = v.strictObject({
  policy: v.string(),
  name: describe(v.string(), 'As in response headers.'),
  route: describe(nullableText, 'The pattern that it is about, if the policy counts by route.'),
  key: describe(v.string(), 'In the store; the caller’s digest stands in its braces.'),
  plan: describe(nullableText, 'The plan whose limits these are, if limits go by plan.'),
  assumed: describe(v.boolean(), 'The caller may have another plan: nothing that was given says which.'),
  limit: describe(units, 'Units admitted in the window; what a bucket holds; slots.'),
  configuredLimit: describe(units, 'The limit of the policy for all other callers.'),
  windowMs: units,
  used: units,
  remaining: units,
  resetMs: describe(units, 'Milliseconds until more than that remains; 0 if all is.'),
  retryAfterMs: describe(units, 'Milliseconds until a request is admitted; 0 if it is now.'),
  penaltyUntilMs: describe(nullableNumber, 'End of its penalty, milliseconds since the Unix epoch.'),
  unlimited: describe(v.boolean(), 'By a rule: it is counted, but refuses nothing.'),
  shadow: describe(v.boolean(), 'In shadow mode: it refuses nothing.'),
  shared: describe(v.boolean(), 'It is counted for all callers together: a reset of this one leaves it as it is.'),
})

const blocked = v.strictObject({
  status: v.number(),
  reason: nullableText,
  untilMs: nullableNumber,
  shadow: describe(v.boolean(), 'It is only logged: MODE is shadow.'),
})

/** How what decides requests relates to what the store holds. */
export const active = v.strictObject({
  state: describe(
    v.picklist(RULES_STATES),
    '`deployed`: there are no rules. `active`: the newest decide. `invalid`: the newest cannot be followed, `lost`: the ' +
      'store holds none any more, `unknown`: it did not answer; then those decide that this isolate knows.',
  ),
  version: describe(units, 'Of the rules that decide; 0: none.'),
  problem: describe(nullableText, 'Why the newest cannot be followed.'),
})

export const usage = v.strictObject({
  nowMs: describe(v.number(), 'The store’s clock, milliseconds since the Unix epoch.'),
  active: describe(active, 'What the rest of the answer goes by.'),
  blocked: describe(v.nullable(blocked), 'The rule that blocks it.'),
  allowed: describe(v.boolean(), 'A rule says that nothing refuses it.'),
  undecided: describe(v.array(v.string()), 'What other rules go by that is not known of it: they may apply, or not.'),
  limits: describe(v.array(limitUsage), 'With the limits that apply to it.'),
  skipped: describe(skipped, 'Policies that say nothing of this caller, and why.'),
})

export const reset = v.strictObject({
  keys: v.array(v.strictObject({ policy: v.string(), key: v.string() })),
  skipped: describe(skipped, 'Policies whose counts stay, and why.'),
})

export const history = v.strictObject({
  refusals: describe(v.nullable(refusalsSchema), 'Null: nothing is counted (STATISTICS).'),
  audit: describe(
    v.nullable(v.array(v.strictObject({ atMs: epochMs, actor: v.string(), action: v.string(), comment: v.string() }))),
    'The latest first; null: nothing is recorded (RULES).',
  ),
})

/** The schema does not look into what was checked when it was written. */
function defineLooseObject<Value extends object>() {
  return v.looseObject({}) as unknown as v.GenericSchema<Value>
}

const tables = v.array(defineLooseObject<Readonly<Record<string, unknown>>>())

const limitsSchema = v.array(v.strictObject({ name: v.string(), limit: v.number(), windowMs: v.number() }))

const policySchema = v.strictObject({
  name: v.string(),
  algorithm: v.string(),
  limits: describe(limitsSchema, 'Those of the default plan, if limits go by plan.'),
  burst: nullableNumber,
  plans: v.nullable(v.record(v.string(), limitsSchema)),
  by: describe(v.array(v.string()), 'What it counts by.'),
  match: describe(v.nullable(v.array(v.string())), 'Patterns such as `POST /login`; null: everything.'),
  cost: describe(
    v.strictObject({ units: nullableNumber, header: nullableText }),
    'Units, or the header that has them.',
  ),
  penalty: v.nullable(v.strictObject({ durationMs: v.number(), after: describe(v.number(), 'Refusals.') })),
  holdsSlots: describe(v.boolean(), 'Limits are of requests at once; the window is how long one is counted at most.'),
  counts: v.string(),
  priority: nullableText,
  mode: v.picklist(POLICY_MODES),
  onStoreError: v.picklist(ON_STORE_ERROR),
})

export const policies = v.strictObject({
  source: describe(v.picklist(['deploy', 'rules']), '`rules`: they were pushed.'),
  active,
  policies: v.array(policySchema),
  tables: describe(tables, 'Their tables, as they are written; RATE_LIMITS has none.'),
  deployed: describe(tables, 'The tables of POLICIES, which hold if none are pushed.'),
})

export const validate = v.strictObject({
  valid: v.boolean(),
  problems: v.array(
    v.strictObject({
      pointer: describe(nullableText, 'Into the body, such as `#/policies/0/limits`; null: a variable.'),
      message: v.string(),
    }),
  ),
})

const keyChange = v.strictObject({ key: v.string(), before: nullableText, after: nullableText })

export const diff = v.strictObject({
  changes: v.array(
    v.strictObject({
      policy: v.string(),
      change: v.picklist(['added', 'removed', 'changed']),
      keys: describe(v.array(keyChange), 'Values of its table as JSON; null: the key is not there.'),
    }),
  ),
})

export const edited = v.strictObject({
  version: describe(v.number(), 'The newest.'),
  changed: describe(v.boolean(), 'False: it was so already.'),
})

const revision = {
  version: describe(units, '0: there are none.'),
  id: describe(v.string(), 'Differs where versions share a number after a loss; empty if there are none.'),
  atMs: epochMs,
  actor: v.string(),
  comment: v.string(),
}

const document = v.strictObject({
  blocks: v.array(defineLooseObject<Block>()),
  allows: v.array(defineLooseObject<Allow>()),
  overrides: v.array(defineLooseObject<Override>()),
  policies: describe(v.nullable(tables), 'In place of POLICIES; null: those hold.'),
})

export const rules = v.strictObject({
  ...revision,
  rules: document,
  isolate: describe(
    v.strictObject({ ...active.entries, id: v.string(), readAtMs: nullableNumber }),
    'What decides in the answering isolate: `rules` are its own.',
  ),
})

export const ordered = v.strictObject({
  ...edited.entries,
  target: describe(defineLooseObject<RuleTarget>(), 'As the rules have it.'),
  scope: describe(v.picklist(['all', 'counted']), 'All its requests; or, by a digest alone, those counted by it.'),
  entry: describe(v.nullable(defineLooseObject<object>()), 'As it is in the rules now; null: it was removed.'),
})

export const versions = v.strictObject({ versions: v.array(v.strictObject(revision)) })

export const version = v.strictObject({ ...revision, rules: document })
