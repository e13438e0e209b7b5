/**
 * The keys of a policy: `npm run settings` writes their comments into docs/policies.md. `@default` stands for a
 * default that the schema does not have.
 */

import * as v from 'valibot'
import { BY_EXPECTED, parseBy } from '../../core/model/identity-source.ts'
import { ALGORITHM_NAMES, COUNTS, LIMITS_EXPECTED } from '../../core/model/limits.ts'
import {
  type MissingIdentity,
  ON_DISCONNECT,
  ON_STORE_ERROR,
  POLICY_MODES,
  PRIORITIES,
  REFUSAL_STATUSES,
} from '../../core/model/policy.ts'
import { MAX_COST, NAME } from '../../core/options/option-error.ts'
import { OPTIONS } from '../../core/options/policy-options.ts'
import { listNames } from '../../core/runtime/lists.ts'
import {
  actualCost,
  boolean,
  cost,
  createSchemas,
  integer,
  integerLike,
  longText,
  matching,
  oneOf,
  parsed,
  parseHeaderOrClaim,
  parseJson,
  patternList,
  statuses,
  strictTable,
  textLike,
  untold,
  webUrl,
} from './values.ts'

export const PLAN_EXPECTED = '"header:<name>" or "claim:<name or /pointer>"'
const PART_EXPECTED = 'a share above 0 and below 1'

const part = () => v.pipe(v.number(PART_EXPECTED), v.gtValue(0, PART_EXPECTED), v.ltValue(1, PART_EXPECTED))
const planName = () => matching(NAME.pattern, `the name of a plan, ${NAME.expected}`)

/** A record drops these names silently. */
const DROPPED_NAMES = ['__proto__', 'constructor', 'prototype']
/** Slots have no window: TOML and JSON have a number for it. */
const limitsText = () => v.union([v.string(), v.pipe(v.number(), v.transform(String))])
export const limitsByPlan = () =>
  v.pipe(
    v.custom<object>((table) => !DROPPED_NAMES.some((name) => Object.hasOwn(Object(table), name))),
    v.record(planName(), limitsText()),
  )

const createRefusalKeys = () => ({
  status: v.optional(v.picklist(REFUSAL_STATUSES, REFUSAL_STATUSES.join(' or '))),
  type: v.optional(webUrl()),
  detail: v.optional(longText()),
  html: v.optional(longText()),
  redirect: v.optional(webUrl()),
})

// The middleware has these as options, too.
export const by = () => parsed(BY_EXPECTED, parseBy)
const FOLD = '(?:lower|trim|accents|numbers)'
export const fold = () =>
  matching(
    new RegExp(`^${FOLD}(?: +${FOLD})*$`),
    'words of "lower", "trim", "accents" and "numbers", such as "lower trim"',
  )
export const anonymous = () =>
  parsed('"ip", "skip", "deny" or "deny:<status from 400 to 499, but not 407>"', parseAnonymous)

/** The keys that every policy has, as they are by default. */
export const KEY_DEFAULTS = {
  algorithm: 'sliding-window',
  ignore_case: true,
  counts: 'requests',
  on_disconnect: 'read',
  allow_large_log: false,
} as const

/** How to make the schema of each key: only tables of policies need them. */
export const policyKeys = {
  /** up to 64 letters, digits, `-`, `_`; unique @default required */
  name: () => textLike(NAME),
  /**
   * `<limit>/<window>, …`, a number for `concurrency`, or a table by [plan](#plans); optional with a `priority`
   * @default required
   */
  limits: () => v.optional(v.union([limitsText(), limitsByPlan()], LIMITS_EXPECTED)),
  /** source of the plan, with `limits` by plan: `header:<name>` or `claim:<name>` */
  plan: () => v.optional(parsed(PLAN_EXPECTED, parseHeaderOrClaim)),
  /** plan of callers without one, or with one that is not in `limits` */
  default_plan: () => v.optional(planName()),
  /** or `token-bucket`, `fixed-window`, `quota`, `sorted-set`, `concurrency`: [which to choose](algorithms.md) */
  algorithm: () => v.optional(oneOf(...ALGORITHM_NAMES), KEY_DEFAULTS.algorithm),
  /**
   * `token`, `ip`, `route`, `global`, or `header:`, `query:`, `form:`, `cookie:`, `json:` or `claim:` with a name; several
   * joined with `+` ([identities](identities.md)) @default `token`
   */
  by: () => v.optional(by()),
  /**
   * spellings of an identity that are one caller: `lower`, `trim`, `accents`, `numbers`, or several, as in `lower trim`
   * ([folding](identities.md#folding))
   */
  fold: () => v.optional(fold()),
  /**
   * patterns, `METHOD /path/:param/*`, as a list or separated by commas ([matching](identities.md#matching-paths))
   * @default everything
   */
  match: () => v.optional(patternList()),
  /** whether patterns match paths in any case; `false` if case matters to your API */
  ignore_case: () => v.optional(boolean(), KEY_DEFAULTS.ignore_case),
  /** units per request; or, with `max_cost`, `header:<name>` or a share of its size ([costs](#costs)) @default `1` */
  cost: () => v.optional(cost()),
  /** the highest cost of a request whose header or size tells it */
  max_cost: () => v.optional(integer(1, MAX_COST)),
  /** `token-bucket`: size of the bucket @default the limit */
  burst: () => v.optional(integerLike(OPTIONS.burst)),
  /** limits by `day`, `week`, `month` or `year`: [time zone](algorithms.md#quota), e.g. `Europe/Berlin` @default `UTC` */
  time_zone: () => v.optional(v.string(OPTIONS.timeZone.expected)),
  /** limits by `month`: day on which months begin, 1 to 31 @default `1` */
  starts: () => v.optional(integerLike(OPTIONS.starts)),
  /** `concurrency`: time after which a slot is released by itself @default `1m` */
  slot_ttl: () => v.optional(v.string(OPTIONS.slotTtl.expected)),
  /**
   * requests [without this identity](identities.md#missing-and-ambiguous-identities): `ip`, `skip`, `deny` (401),
   * `deny:403` @default `ANONYMOUS`
   */
  anonymous: () => v.optional(anonymous()),
  /** priority of matching requests: `critical`, `default`, `sheddable` ([priorities](#priorities)) */
  priority: () => v.optional(oneOf(...PRIORITIES)),
  /** shares of the limit kept for a priority and those above it, e.g. `{ critical = 0.2 }` */
  reserve: () =>
    v.optional(
      strictTable('priority', { critical: v.optional(part()), default: v.optional(part()) }, 'a table of shares'),
    ),
  /**
   * where a response tells [what it has cost](actual-costs.md): `header:<name>`, `json:</pointer>`, `bytes`,
   * `bytes:request`, `ms`, or a table of these with weights
   */
  actual_cost: () => v.optional(actualCost()),
  /**
   * what a request costs whose response [does not tell](actual-costs.md): units, or an estimate such as `bytes/4`
   */
  untold: () => v.optional(untold()),
  /** when the client leaves: `read` the rest [for its cost](actual-costs.md), or `abort` the response */
  on_disconnect: () => v.optional(oneOf(...ON_DISCONNECT), KEY_DEFAULTS.on_disconnect),
  /** `local`, `open` or `closed` for this policy @default `ON_STORE_ERROR` */
  on_store_error: () => v.optional(oneOf(...ON_STORE_ERROR)),
  /**
   * `requests`, [`new-identities`](how-it-works.md#new-identities); or, [after the
   * response](#charging-after-the-response), `responses`, `failures` or `successes`
   */
  counts: () => v.optional(oneOf(...listNames(COUNTS)), KEY_DEFAULTS.counts),
  /** statuses that [fail](#failures), e.g. `401, 403` or `4xx except 404 422`; by default `4xx` without 429 */
  failures: () => v.optional(statuses()),
  /** how long, e.g. `10m`, a refused caller stays refused by this policy ([penalties](#penalties)) */
  penalty: () => v.optional(v.string(OPTIONS.penalty.expected)),
  /** refusals that lead to the penalty, 1 to 1,000 @default `1` */
  penalty_after: () => v.optional(integerLike(OPTIONS.penaltyAfter)),
  /** allow an exact log of more than 100,000 entries per caller */
  allow_large_log: () => v.optional(boolean(), KEY_DEFAULTS.allow_large_log),
  /** what [refusals say](http.md#refusals-of-your-own): `status`, `type`, `detail`, `html`, `redirect` */
  refusal: () => v.optional(strictTable('setting', createRefusalKeys(), 'a table')),
  /** `enforce` or `shadow`; with `MODE = "shadow"`, all policies are in shadow mode @default `MODE` */
  mode: () => v.optional(oneOf(...POLICY_MODES)),
}

const policyTable = () => strictTable('setting', createSchemas(policyKeys), 'a table', 'a value')

const LIST_EXPECTED = 'a list of tables, or JSON of one'

/** Reads the variable POLICIES: a list, or a string that holds one as JSON. */
export const policyList = () =>
  v.pipe(
    v.unknown(),
    v.rawTransform<unknown, unknown>(({ dataset: { value }, addIssue }) => {
      if (typeof value !== 'string') return value
      const list = parseJson(value)
      // JSON.parse would silently keep the last one.
      const [index, name] = (list !== value && findRepeatedName(value)) || []
      if (name !== undefined) {
        addIssue({ message: `each name once in a table, but "${name}" is there twice in [${index}]` })
      }
      return list
    }),
    v.pipe(v.array(policyTable(), LIST_EXPECTED), v.minLength(1, LIST_EXPECTED)),
  )

/** A table as operators write it. */
export type PolicyInput = Omit<v.InferInput<ReturnType<typeof policyTable>>, 'match'> & {
  readonly match?: string | readonly string[]
}

/** A table whose values are valid each by itself, though they may contradict each other. */
export type PolicyTable = v.InferOutput<ReturnType<typeof policyTable>>

function parseAnonymous(text: string): MissingIdentity | undefined {
  if (text === 'ip' || text === 'skip') return { kind: text }
  // A 407 needs a header that only proxies send (RFC 9110 §15.5.8).
  const denied = /^deny(?::(4(?!07)\d\d))?$/.exec(text)
  return denied ? { kind: 'deny', status: Number(denied[1] ?? 401) } : undefined
}

/** Finds the first name that occurs twice in one object of a valid JSON text, and the index of its table. */
export function findRepeatedName(json: string): readonly [number, string] | undefined {
  const objects: Set<string>[] = []
  let tables = 0
  for (const [token, colon] of json.matchAll(/"(?:[^"\\]|\\.)*"(\s*:)?|[{}]/g)) {
    const names = objects.at(-1)
    if (token === '{') tables += Number(objects.push(new Set()) === 1)
    else if (token === '}') objects.pop()
    else if (names && colon) {
      const name = JSON.parse(token.slice(0, -colon.length))
      if (names.has(name)) return [tables - 1, name]
      names.add(name)
    }
  }
  return undefined
}

/** @returns the text itself if it is no JSON */
