/**
 * The keys of a policy: `npm run settings` writes their comments into docs/policies.md. `@default` stands for a
 * default that the reader does not have.
 */

import { BY_EXPECTED, parseBy } from '../../core/model/identity-source.ts'
import { ALGORITHM_NAMES, COUNTS, LIMITS_EXPECTED } from '../../core/model/limits.ts'
import { type MissingIdentity, ON_DISCONNECT, PRIORITIES, REFUSAL_STATUSES } from '../../core/model/policy.ts'
import { OptionError } from '../../core/options/option-error.ts'
import { OPTIONS } from '../../core/options/policy-options.ts'
import * as v from '../../core/options/readers.ts'
import { listNames } from '../../core/runtime/lists.ts'
import * as values from './values.ts'

export const PLAN_EXPECTED = '"header:<name>" or "claim:<name or /pointer>"'
const PART = v.between('a share above 0 and below 1', (value) => value > 0 && value < 1)
const PLAN_NAME = v.narrowed(
  v.matching(v.NAME.pattern, `the name of a plan, ${v.NAME.expected}`),
  // Plans are looked up in objects.
  (name) => !(name in {}),
  'a name that no object has anyway',
)
/** Slots have no window: TOML and JSON have a number for it. */
const LIMITS_TEXT = v.mapped(
  v.accepted<string | number>(LIMITS_EXPECTED, (value) => /^(?:string|number)$/.test(typeof value)),
  String,
)
export const LIMITS_BY_PLAN = v.record(PLAN_NAME, LIMITS_TEXT, 'limits by plan')
const LIMITS = v.either(LIMITS_TEXT, LIMITS_BY_PLAN, LIMITS_EXPECTED)

const REFUSAL_KEYS = {
  status: v.oneOf(...REFUSAL_STATUSES),
  type: values.WEB_URL,
  detail: values.LONG_TEXT,
  html: values.LONG_TEXT,
  redirect: values.WEB_URL,
}

// The middleware has these as options, too.
export const BY = v.parsed(BY_EXPECTED, parseBy)
const FOLDS = '(?:lower|trim|accents|numbers)'
export const FOLD = v.matching(
  new RegExp(`^${FOLDS}(?: +${FOLDS})*$`),
  'words of "lower", "trim", "accents" and "numbers", such as "lower trim"',
)
export const MISSING_IDENTITY = v.parsed(
  '"ip", "skip", "deny" or "deny:<status from 400 to 499, but not 407>"',
  parseMissingIdentity,
)

/** Each key of a policy, except `name` optional. */
export const policyKeys = {
  /** up to 64 letters, digits, `-`, `_`; unique @default required */
  name: v.required(v.NAME),
  /**
   * `<limit>/<window>, …`, a number for `concurrency`, or a table by [plan](#plans); optional with a `priority`
   * @default required
   */
  limits: LIMITS,
  /** source of the plan, with `limits` by plan: `header:<name>` or `claim:<name>` */
  plan: v.parsed(PLAN_EXPECTED, values.parseHeaderOrClaim),
  /** plan of callers without one, or with one that is not in `limits` */
  default_plan: PLAN_NAME,
  /** or `token-bucket`, `fixed-window`, `quota`, `sorted-set`, `concurrency`: [which to choose](algorithms.md) */
  algorithm: v.withDefault(v.oneOf(...ALGORITHM_NAMES), 'sliding-window'),
  /**
   * `token`, `ip`, `route`, `global`, or `header:`, `query:`, `form:`, `cookie:`, `json:` or `claim:` with a name; several
   * joined with `+` ([identities](identities.md)) @default `token`
   */
  by: BY,
  /**
   * spellings of an identity that are one caller: `lower`, `trim`, `accents`, `numbers`, or several, as in `lower trim`
   * ([folding](identities.md#folding))
   */
  fold: FOLD,
  /**
   * patterns, `METHOD /path/:param/*`, as a list or separated by commas ([matching](identities.md#matching-paths))
   * @default everything
   */
  match: values.PATTERN_LIST,
  /** whether patterns match paths in any case; `false` if case matters to your API */
  ignore_case: v.withDefault(v.BOOLEAN, true),
  /** units per request; or, with `max_cost`, `header:<name>` or a share of its size ([costs](#costs)) @default `1` */
  cost: values.COST,
  /** the highest cost of a request whose header or size tells it */
  max_cost: values.integer(1, v.MAX_COST),
  /** `token-bucket`: size of the bucket @default the limit */
  burst: values.inText(OPTIONS.burst),
  /** limits by `day`, `week`, `month` or `year`: [time zone](algorithms.md#quota), e.g. `Europe/Berlin` @default `UTC` */
  time_zone: OPTIONS.timeZone,
  /** limits by `month`: day on which months begin, 1 to 31 @default `1` */
  starts: values.inText(OPTIONS.starts),
  /** `concurrency`: time after which a slot is released by itself @default `1m` */
  slot_ttl: OPTIONS.slotTtl,
  /**
   * requests [without this identity](identities.md#missing-and-ambiguous-identities): `ip`, `skip`, `deny` (401),
   * `deny:403` @default `ANONYMOUS`
   */
  anonymous: MISSING_IDENTITY,
  /** priority of matching requests: `critical`, `default`, `sheddable` ([priorities](#priorities)) */
  priority: v.oneOf(...PRIORITIES),
  /** shares of the limit kept for a priority and those above it, e.g. `{ critical = 0.2 }` */
  reserve: v.table({ critical: PART, default: PART }, 'a table of shares', 'priority'),
  /**
   * where a response tells [what it has cost](actual-costs.md): `header:<name>`, `json:</pointer>`, `bytes`,
   * `bytes:request`, `ms`, or a table of these with weights
   */
  actual_cost: values.ACTUAL_COST,
  /**
   * what a request costs whose response [does not tell](actual-costs.md): units, or an estimate such as `bytes/4`
   */
  untold: values.UNTOLD,
  /** when the client leaves: `read` the rest [for its cost](actual-costs.md), or `abort` the response */
  on_disconnect: v.withDefault(v.oneOf(...ON_DISCONNECT), 'read'),
  /** `local`, `open` or `closed` for this policy @default `ON_STORE_ERROR` */
  on_store_error: v.STORE_ERROR_FALLBACK,
  /**
   * `requests`, [`new-identities`](how-it-works.md#new-identities); or, [after the
   * response](#charging-after-the-response), `responses`, `failures` or `successes`
   */
  counts: v.withDefault(v.oneOf(...listNames(COUNTS)), 'requests'),
  /** statuses that [fail](#failures), e.g. `401, 403` or `4xx except 404 422`; by default `4xx` without 429 */
  failures: values.STATUSES,
  /** how long, e.g. `10m`, a refused caller stays refused by this policy ([penalties](#penalties)) */
  penalty: OPTIONS.penalty,
  /** refusals that lead to the penalty, 1 to 1,000 @default `1` */
  penalty_after: values.inText(OPTIONS.penaltyAfter),
  /** allow an exact log of more than 100,000 entries per caller */
  allow_large_log: v.withDefault(v.BOOLEAN, false),
  /** what [refusals say](http.md#refusals-of-your-own): `status`, `type`, `detail`, `html`, `redirect` */
  refusal: v.table(REFUSAL_KEYS, 'a table', 'setting'),
  /** `enforce` or `shadow`; with `MODE = "shadow"`, all policies are in shadow mode @default `MODE` */
  mode: v.MODE,
}

/** A table as operators write it. */
export type PolicyInput = v.Inputs<typeof policyKeys>

/** A table whose values are valid each by itself, though they may contradict each other. */
export type PolicyTable = v.Values<typeof policyKeys>

const TABLES = v.list(v.table(policyKeys, 'a table', 'setting'), 'a list of tables, or JSON of one')

/** Reads the variable POLICIES: a list, or a string that holds one as JSON. */
export const POLICY_LIST: v.Reader<readonly PolicyTable[], readonly PolicyInput[] | string> = {
  expected: TABLES.expected,
  parse(value, where) {
    const tables = typeof value === 'string' ? values.parseJson(value) : value
    // JSON.parse would silently keep the last one.
    const [index, name] = (typeof value === 'string' && tables !== value && findRepeatedName(value)) || []
    if (name !== undefined) {
      throw new OptionError(where, `each name once in a table, but "${name}" is there twice in [${index}]`, value)
    }
    return Array.isArray(tables) && tables.length > 0 ? TABLES.parse(tables, where) : undefined
  },
}

function parseMissingIdentity(text: string): MissingIdentity | undefined {
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
