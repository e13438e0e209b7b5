import * as v from 'valibot'
import { BY_EXPECTED, parseBy } from '../identity/source.ts'
import { integer, limits, matching, oneOf, parsed, patternList } from './schema.ts'

const entries = {
  name: matching(/^[\w-]{1,64}$/, 'up to 64 letters, digits, "-" or "_"'),
  limits,
  algorithm: v.optional(oneOf('sliding-window'), 'sliding-window'),
  by: v.optional(parsed(BY_EXPECTED, parseBy), 'token'),
  match: v.optional(patternList),
  cost: v.optional(integer(1, 1_000_000_000), 1),
  mode: v.optional(oneOf('enforce', 'shadow')),
}

const policy = v.pipe(
  v.strictObject(entries, ({ expected, input }) => {
    if (expected === 'never') return `no such name (but ${Object.keys(entries).join(', ')})`
    return input === undefined ? 'a value' : 'a table'
  }),
  v.forward(
    v.check(
      ({ cost, limits }) => limits.every(({ limit }) => cost <= limit),
      'at most the smallest limit of the policy',
    ),
    ['cost'],
  ),
)

const LIST_EXPECTED = 'a list of tables, or JSON of one'

/** The variable POLICIES: a list, or a string that holds one as JSON. */
export const policyList = v.pipe(
  v.unknown(),
  v.transform((value) => (typeof value === 'string' ? parseJson(value) : value)),
  v.pipe(v.array(policy, LIST_EXPECTED), v.minLength(1, LIST_EXPECTED)),
)

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
