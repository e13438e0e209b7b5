/**
 * The keys of a policy: `npm run settings` writes their comments into docs/configuration.md. `@default` stands for a
 * default that the schema does not have.
 */

import * as v from 'valibot'
import { MAX_AFTER } from '../algorithms/read-limits.ts'
import { ALGORITHM_NAMES, COUNTS, DURATION_EXPECTED, LIMITS_EXPECTED } from '../model/limits.ts'
import { type IdentitySource, type MissingIdentity, ON_STORE_ERROR, POLICY_MODES, PRIORITIES } from '../model/policy.ts'
import { BY_EXPECTED, parseBy } from '../request/identity/source.ts'
import { MAX_COST, NAME } from './option-error.ts'
import {
  boolean,
  HEADER_EXPECTED,
  headerSource,
  integer,
  matching,
  oneOf,
  parsed,
  patternList,
  statuses,
  strictTable,
  textLike,
} from './values.ts'

export const PLAN_EXPECTED = '"header:<name>" or "claim:<name or /pointer>"'
const PART_EXPECTED = 'a share above 0 and below 1'

const part = v.pipe(v.number(PART_EXPECTED), v.gtValue(0, PART_EXPECTED), v.ltValue(1, PART_EXPECTED))
const planName = matching(NAME.pattern, `the name of a plan, ${NAME.expected}`)

// The middleware has these as options, too.
export const by = parsed(BY_EXPECTED, parseBy)
export const fold = matching(/^(?:lower|trim)(?: +(?:lower|trim))?$/, '"lower", "trim" or "lower trim"')
export const anonymous = parsed('"ip", "skip", "deny" or "deny:<status from 400 to 499>"', parseAnonymous)

export const policyKeys = {
  /** up to 64 letters, digits, `-`, `_`; unique @default required */
  name: textLike(NAME),
  /**
   * limits, `<limit>/<window>, …`; for `concurrency` a number. May be left out if there is a `priority`: the policy then
   * only classifies; or a table of them by plan ([plans](#plans)) @default required
   */
  limits: v.optional(v.union([v.string(), v.record(planName, v.string())], LIMITS_EXPECTED)),
  /** with `limits` by plan, who says which: `header:<name>` or `claim:<name>` */
  plan: v.optional(parsed(PLAN_EXPECTED, parsePlan)),
  /** with `limits` by plan, that of callers who are on none of these */
  default_plan: v.optional(planName),
  /** or `token-bucket`, `fixed-window`, `quota`, `sorted-set`, `concurrency`: [which to choose](algorithms.md) */
  algorithm: v.optional(oneOf(...ALGORITHM_NAMES), 'sliding-window'),
  /**
   * `token` (Authorization), `ip`, `route`, `global`, `header:<name>`, `query:<name>`, `form:<name>`, `cookie:<name>`,
   * `json:</pointer>`, `claim:<name>`, joined with `+` ([identities](identities.md), [claims](identities.md#claims))
   * @default `token`
   */
  by: v.optional(by),
  /**
   * spellings of a value that are one caller: `lower`, `trim` or `lower trim` ([what people type](identities.md#folding))
   */
  fold: v.optional(fold),
  /**
   * patterns, `METHOD /path/:param/*`, as a list or with commas between ([matching](identities.md#matching-paths))
   * @default everything
   */
  match: v.optional(patternList),
  /** patterns match whatever the case of the path; `false` for an API that serves different things by it */
  ignore_case: v.optional(boolean, true),
  /** units of a request; or `header:<name>`, with `max_cost` ([costs](#costs)) @default `1` */
  cost: v.optional(
    v.union([integer(1, MAX_COST), headerSource], `an integer from 1 to ${MAX_COST}, or ${HEADER_EXPECTED}`),
  ),
  /** the highest cost that a request may name, with `cost = "header:<name>"` */
  max_cost: v.optional(integer(1, MAX_COST)),
  /** `token-bucket`: what the bucket holds @default the limit */
  burst: v.optional(integer(1, MAX_COST)),
  /** `concurrency`: when a slot frees itself @default `1m` */
  slot_ttl: v.optional(v.string(DURATION_EXPECTED)),
  /**
   * a caller without the header (token, query, …): `ip`, `skip` (the policy does not apply), `deny` (401), `deny:403`;
   * left out, [`deny` with `form:` or `json:`](identities.md#bodies) @default `ANONYMOUS`
   */
  anonymous: v.optional(anonymous),
  /** class of the requests that match: `critical`, `default`, `sheddable` ([priorities](#priorities)) */
  priority: v.optional(oneOf(...PRIORITIES)),
  /** shares of the limit kept for a class and those above it, e.g. `{ critical = 0.2 }` */
  reserve: v.optional(
    strictTable('priority', { critical: v.optional(part), default: v.optional(part) }, 'a table of shares'),
  ),
  /** `header:<name>`: response header in which the API tells the actual cost; the difference is made up afterwards */
  actual_cost: v.optional(headerSource),
  /** `local`, `open` or `closed` for this policy @default `ON_STORE_ERROR` */
  on_store_error: v.optional(oneOf(...ON_STORE_ERROR)),
  /**
   * `new-identities`: charged only by requests that bring an identity which no `sliding-window` policy has met within its
   * windows ([more](how-it-works.md#new-identities)); `failures`: charged only by requests that fail
   * ([failures](#failures))
   */
  counts: v.optional(oneOf(...COUNTS), 'requests'),
  /**
   * with `counts = "failures"`: the statuses that are failures, e.g. `401, 403`, or classes of them; without it, `4xx`,
   * which leaves out 429
   */
  failures: v.optional(statuses),
  /** for how long, e.g. `10m`, who is refused stays refused by this policy ([blocks](#penalties)) */
  penalty: v.optional(v.string(DURATION_EXPECTED)),
  /** with `penalty`: how many refusals lead to it, 1 to 1,000 @default `1` */
  penalty_after: v.optional(integer(1, MAX_AFTER)),
  /** allow an exact log of more than 100,000 entries a caller */
  allow_large_log: v.optional(boolean, false),
  /** `enforce` or `shadow` @default `MODE` */
  mode: v.optional(oneOf(...POLICY_MODES)),
}

export const policyTable = strictTable('setting', policyKeys, 'a table', 'a value')

const LIST_EXPECTED = 'a list of tables, or JSON of one'

/** Reads the variable POLICIES: a list, or a string that holds one as JSON. */
export const policyList = v.pipe(
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
  v.pipe(v.array(policyTable, LIST_EXPECTED), v.minLength(1, LIST_EXPECTED)),
)

/** A table as operators write it. */
export type PolicyInput = Omit<v.InferInput<typeof policyTable>, 'match'> & {
  readonly match?: string | readonly string[]
}

/** A table whose values are valid each by itself, though they may contradict each other. */
export type PolicyTable = v.InferOutput<typeof policyTable>

function parsePlan(text: string): IdentitySource | undefined {
  const [source, ...others] = parseBy(text) ?? []
  return others.length === 0 && (source?.kind === 'header' || source?.kind === 'claim') ? source : undefined
}

function parseAnonymous(text: string): MissingIdentity | undefined {
  if (text === 'ip' || text === 'skip') return { kind: text }
  const denied = /^deny(?::(4\d\d))?$/.exec(text)
  return denied ? { kind: 'deny', status: Number(denied[1] ?? 401) } : undefined
}

/** Finds the first name that occurs twice in one object of a valid JSON text, and the index of its table. */
function findRepeatedName(json: string): readonly [number, string] | undefined {
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
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
