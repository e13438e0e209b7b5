/** What operations answer. The dashboard takes its types from here, so nothing is imported that runs on the Worker alone. */
import * as v from 'valibot'
import { CALLER_KIND_NAMES } from '../request/caller/named-by.ts'
import type { Allow, Block, Override } from '../rules/document.ts'
import type { Target } from '../rules/target.ts'
import { shadowCounts, units } from '../statistics/metrics.ts'
import { refusalsSchema } from '../statistics/read-statistics.ts'

export const status = v.strictObject({
  nowMs: v.pipe(v.number(), v.description('Milliseconds since the Unix epoch.')),
  version: v.string(),
  status: v.picklist(['ok', 'degraded']),
  store: v.strictObject({
    kind: v.pipe(v.string(), v.description('`redis`, `durable-object` or `memory`.')),
    reachable: v.nullable(v.boolean()),
    rttMs: v.pipe(v.nullable(v.number()), v.description('How long it took to answer; null if it did not.')),
    circuit: v.pipe(
      v.picklist(['closed', 'open', 'half-open']),
      v.description('Open: it keeps failing, and is left alone for a moment.'),
    ),
  }),
  shedLevel: v.pipe(
    v.nullable(v.number()),
    v.description('0 (nothing is shed) to 2 (all but what is critical); null without SHEDDING.'),
  ),
})

/** Policies that say nothing of a caller. */
export const leftOut = v.array(
  v.strictObject({
    policy: v.string(),
    why: v.string(),
    needs: v.pipe(
      v.nullable(v.picklist([...CALLER_KIND_NAMES, 'route'])),
      v.description('What of the caller would have to be said; null: that would not help.'),
    ),
  }),
)

const tier = v.strictObject({
  policy: v.string(),
  tier: v.pipe(v.string(), v.description('As in response fields.')),
  route: v.pipe(v.nullable(v.string()), v.description('The pattern that it is about, if the policy counts by route.')),
  key: v.pipe(v.string(), v.description('In the store; the caller’s digest stands in its braces.')),
  limit: v.pipe(units, v.description('Units admitted in the window; what a bucket holds; slots.')),
  configuredLimit: v.pipe(units, v.description('The same, as the policy has it for all.')),
  windowMs: units,
  used: units,
  left: units,
  resetMs: v.pipe(units, v.description('Milliseconds until more than that is left; 0 if all is.')),
  retryAfterMs: v.pipe(units, v.description('Milliseconds until a request is admitted; 0 if it is now.')),
  blockedUntilMs: v.pipe(
    v.nullable(v.number()),
    v.description(
      'Until when the policy refuses the caller, whatever is left: milliseconds since the Unix epoch; null if it does not.',
    ),
  ),
  isUnlimited: v.pipe(v.boolean(), v.description('It is counted, but refuses nothing.')),
  isEveryone: v.pipe(
    v.boolean(),
    v.description('It is counted for all callers together: a reset of this one leaves it as it is.'),
  ),
})

export const usage = v.strictObject({
  nowMs: v.pipe(v.number(), v.description('The store’s clock, milliseconds since the Unix epoch.')),
  blocked: v.pipe(
    v.nullable(v.strictObject({ status: v.number(), reason: v.nullable(v.string()), untilMs: v.nullable(v.number()) })),
    v.description('It is not let in, by the rules.'),
  ),
  tiers: v.pipe(v.array(tier), v.description('With the limits that hold for it.')),
  leftOut: v.pipe(leftOut, v.description('Policies that say nothing of this caller, and why.')),
})

export const reset = v.strictObject({
  keys: v.array(v.strictObject({ policy: v.string(), key: v.string() })),
  leftOut: v.pipe(leftOut, v.description('Policies that were left as they are, and why.')),
})

export const history = v.strictObject({
  refusals: v.pipe(v.nullable(refusalsSchema), v.description('Null: nothing is counted (STATISTICS).')),
  deeds: v.pipe(
    v.nullable(
      v.array(
        v.strictObject({
          atMs: v.pipe(v.number(), v.description('Milliseconds since the Unix epoch.')),
          by: v.string(),
          what: v.string(),
          why: v.string(),
        }),
      ),
    ),
    v.description('The latest first; null: nothing is noted (RULES).'),
  ),
})

/** The schema does not look into them: what was written was checked then. */
function listOf<Item>() {
  return v.array(v.looseObject({})) as unknown as v.GenericSchema<readonly Item[]>
}

const tables = listOf<Readonly<Record<string, unknown>>>()

const tiersSchema = v.array(v.strictObject({ name: v.string(), limit: v.number(), windowMs: v.number() }))

/** A policy, as it is understood. */
const policySchema = v.strictObject({
  name: v.string(),
  algorithm: v.string(),
  tiers: v.pipe(tiersSchema, v.description('Those of the default plan, if limits go by plan.')),
  burst: v.nullable(v.number()),
  plans: v.nullable(v.record(v.string(), tiersSchema)),
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

export const policies = v.strictObject({
  source: v.pipe(v.picklist(['deploy', 'rules']), v.description('`rules`: they were pushed.')),
  policies: v.array(policySchema),
  tables: v.pipe(tables, v.description('Their tables, as they are written; RATE_LIMITS has none.')),
  deployed: v.pipe(tables, v.description('The tables of POLICIES, which hold if none are pushed.')),
})

export const validate = v.strictObject({
  isValid: v.boolean(),
  problems: v.array(
    v.strictObject({
      place: v.pipe(v.string(), v.description('Index of the table and name of the key, with a dot between.')),
      message: v.string(),
    }),
  ),
})

export const diff = v.strictObject({
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
})

export const edited = v.strictObject({
  version: v.pipe(v.number(), v.description('The newest.')),
  isChanged: v.pipe(v.boolean(), v.description('False: it was so already.')),
})

const revision = {
  version: v.pipe(units, v.description('0: there are none.')),
  id: v.pipe(
    v.string(),
    v.description('Tells it from others that have its number after a loss; empty if it is older.'),
  ),
  atMs: v.pipe(v.number(), v.description('Milliseconds since the Unix epoch.')),
  by: v.string(),
  why: v.string(),
}

/** The document, as far as it is data for all to read. */
const document = v.strictObject({
  blocks: listOf<Block>(),
  allows: listOf<Allow>(),
  overrides: listOf<Override>(),
  policies: v.pipe(v.nullable(tables), v.description('In place of POLICIES; null: those hold.')),
  shadow: v.pipe(v.nullable(tables), v.description('They decide beside those in force, and refuse nothing.')),
})

export const rules = v.strictObject({
  ...revision,
  rules: document,
  isolate: v.pipe(
    v.strictObject({
      version: units,
      id: v.string(),
      readAtMs: v.nullable(v.number()),
      problem: v.pipe(v.nullable(v.string()), v.description('Why a newer version is not in force.')),
      shadow: v.nullable(shadowCounts),
    }),
    v.description('What the isolate that answers has in force, and has counted of policies in shadow.'),
  ),
})

export const ordered = v.strictObject({
  ...edited.entries,
  who: v.pipe(
    v.looseObject({}) as unknown as v.GenericSchema<Target>,
    v.description('Whom it is about, as the rules have it.'),
  ),
  scope: v.pipe(
    v.picklist(['all', 'counted']),
    v.description(
      'Of which requests of `who`: all; or, by a digest alone, those to which a policy applies that counts by all that the digest was made of.',
    ),
  ),
  entry: v.pipe(
    v.nullable(v.looseObject({}) as unknown as v.GenericSchema<object>),
    v.description('As it stands in the rules now; null: it was taken back.'),
  ),
})

export const versions = v.strictObject({ versions: v.array(v.strictObject(revision)) })

export const version = v.strictObject({ ...revision, rules: document })
