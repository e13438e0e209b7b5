import * as v from 'valibot'
import { MAX_AFTER } from '../algorithms/read-block.ts'
import { ALGORITHM_NAMES, COUNTS, DURATION_EXPECTED, LIMITS_EXPECTED } from '../model/limits.ts'
import type { Missing } from '../model/policy.ts'
import { ON_STORE_ERROR, PRIORITIES, type Source } from '../model/policy.ts'
import { BY_EXPECTED, parseBy, parseHeaderSource } from '../request/identity/source.ts'
import { integer, matching, oneOf, parsed, patternList, statuses } from './schema.ts'

const COST_EXPECTED = 'an integer from 1 to 1000000000, or "header:<name>"'
export const MISSING_EXPECTED = '"ip", "skip", "deny" or "deny:<status from 400 to 499>"'
export const HEADER_EXPECTED = '"header:<name>"'
export const PLAN_EXPECTED = '"header:<name>" or "claim:<name or /pointer>"'

const share = v.pipe(
  v.number('a share above 0 and below 1'),
  v.gtValue(0, 'a share above 0 and below 1'),
  v.ltValue(1, 'a share above 0 and below 1'),
)
const header = v.pipe(
  parsed(HEADER_EXPECTED, parseHeaderSource),
  v.transform((name) => ({ header: name })),
)

export const fold = matching(/^(?:lower|trim)(?: +(?:lower|trim))?$/, '"lower", "trim" or "lower trim"')
const planName = matching(/^[\w-]{1,64}$/, 'the name of a plan, up to 64 letters, digits, "-" or "_"')
const plan = parsed(PLAN_EXPECTED, parsePlan)

export const entries = {
  name: matching(/^[\w-]{1,64}$/, 'up to 64 letters, digits, "-" or "_"'),
  limits: v.optional(v.union([v.string(), v.record(planName, v.string())], LIMITS_EXPECTED)),
  plan: v.optional(plan),
  default_plan: v.optional(planName),
  algorithm: v.optional(oneOf(...ALGORITHM_NAMES), 'sliding-window'),
  by: v.optional(parsed(BY_EXPECTED, parseBy)),
  fold: v.optional(fold),
  match: v.optional(patternList),
  ignore_case: v.optional(v.boolean('true or false'), true),
  cost: v.optional(v.union([integer(1, 1_000_000_000), header], COST_EXPECTED)),
  max_cost: v.optional(integer(1, 1_000_000_000)),
  burst: v.optional(integer(1, 1_000_000_000)),
  deadline: v.optional(v.string(DURATION_EXPECTED)),
  missing: v.optional(parsed(MISSING_EXPECTED, parseMissing)),
  priority: v.optional(oneOf(...PRIORITIES)),
  reserve: v.optional(
    v.strictObject({ critical: v.optional(share), default: v.optional(share) }, ({ expected }) =>
      expected === 'never' ? 'no such class (but critical, default)' : 'a table of shares',
    ),
  ),
  settle: v.optional(v.string(HEADER_EXPECTED)),
  on_store_error: v.optional(oneOf(...ON_STORE_ERROR)),
  counts: v.optional(oneOf(...COUNTS), 'requests'),
  failures: v.optional(statuses),
  block: v.optional(v.string(DURATION_EXPECTED)),
  after: v.optional(integer(1, MAX_AFTER)),
  exact: v.optional(v.boolean('true or false'), false),
  mode: v.optional(oneOf('enforce', 'shadow')),
}

const table = v.strictObject(entries, ({ expected, input }) => {
  if (expected === 'never') return `no such name (but ${Object.keys(entries).join(', ')})`
  return input === undefined ? 'a value' : 'a table'
})

const LIST_EXPECTED = 'a list of tables, or JSON of one'

/** The variable POLICIES: a list, or a string that holds one as JSON. */
export const policyList = v.pipe(
  v.unknown(),
  v.rawTransform<unknown, unknown>(({ dataset: { value }, addIssue }) => {
    if (typeof value !== 'string') return value
    const list = parseJson(value)
    const repeated = list === value ? undefined : repeatedName(value)
    // JSON.parse would silently keep the last one.
    if (repeated)
      addIssue({ message: `each name once in a table, but "${repeated[1]}" is there twice in [${repeated[0]}]` })
    return list
  }),
  v.pipe(v.array(table, LIST_EXPECTED), v.minLength(1, LIST_EXPECTED)),
)

/** A table as it is written. */
export type PolicyInput = Omit<v.InferInput<typeof table>, 'match'> & { readonly match?: string | readonly string[] }

/** A table of POLICIES, each of its values checked by itself. */
export type PolicyTable = v.InferOutput<typeof table>

function parsePlan(text: string): Source | undefined {
  const [source, ...others] = parseBy(text) ?? []
  return others.length === 0 && (source?.kind === 'header' || source?.kind === 'claim') ? source : undefined
}

export function parseMissing(text: string): Missing | undefined {
  if (text === 'ip' || text === 'skip') return { kind: text }
  const denied = /^deny(?::(4\d\d))?$/.exec(text)
  return denied ? { kind: 'deny', status: Number(denied[1] ?? 401) } : undefined
}

/**
 * The first name that occurs twice in one object, and the index of the table that it is in.
 * @param json a text that JSON.parse accepts
 */
function repeatedName(json: string): readonly [number, string] | undefined {
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

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
