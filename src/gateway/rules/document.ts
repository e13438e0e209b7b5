/** The rule set as it is stored, and its checks. */
import * as v from 'valibot'
import { formatSource } from '../../core/model/identity-source.ts'
import { OptionError } from '../../core/options/option-error.ts'
import { policyList } from '../../http/config/policy-keys.ts'
import { integer, matching, parsed, strictTable } from '../../http/config/values.ts'
import { NETWORK_EXPECTED, parseNetwork } from './networks.ts'
import {
  BY_EXPECTED,
  BY_OF_VALUE_EXPECTED,
  DIGEST,
  DIGEST_EXPECTED,
  isNamedInPart,
  parseKnownBy,
  type RuleTarget,
} from './target.ts'
import { WILDCARD, WILDCARD_EXPECTED } from './wildcards.ts'

/** Name of the rule set in messages. */
export const RULES = 'rules'

const LIST_EXPECTED = 'a list of tables'

const by = parsed(BY_EXPECTED, (text) => {
  const source = parseKnownBy(text)
  return source && formatSource(source)
})
const digest = v.optional(matching(DIGEST, DIGEST_EXPECTED))
const value = v.optional(matching(WILDCARD, WILDCARD_EXPECTED))
const cidr = v.optional(parsed(NETWORK_EXPECTED, parseNetwork))
const COUNTRY_EXPECTED = 'a country by its two characters, such as "DE", or "T1" for Tor'
const country = v.optional(v.pipe(matching(/^[A-Za-z][A-Za-z\d]$/, COUNTRY_EXPECTED), v.toUpperCase()))
const asn = v.optional(integer(1, 4_294_967_295))
const STATUS_EXPECTED = 'a status from 400 to 599, but not 401 or 407'
const status = v.pipe(
  integer(400, 599, STATUS_EXPECTED),
  // These ask for credentials, in headers of their own.
  v.check((status) => status !== 401 && status !== 407, STATUS_EXPECTED),
)

const expiring = {
  /** Operators read it, and a blocked caller is told it. */
  reason: v.optional(matching(/^[^\p{Cc}]{1,200}$/u, 'a line of up to 200 characters')),
  /** When the rule ends, e.g. `2026-12-24T00:00:00Z`; left out, it does not. */
  until: v.optional(parsed('a moment in UTC, such as "2026-12-24T00:00:00Z"', parseMoment)),
}
const callers = { by: v.optional(by), digest, value }
const policyName = matching(/^[\w-]{1,64}$/, 'the name of a policy')
const policyNames = v.array(policyName, 'a list of names of policies')
const MULTIPLIER_EXPECTED = 'a number above 0 and at most 1000000'
const multiplier = v.pipe(
  v.number(MULTIPLIER_EXPECTED),
  v.check((factor) => factor > 0 && factor <= 1e6, MULTIPLIER_EXPECTED),
)

const block = defineTable({ ...callers, cidr, country, asn, ...expiring, status: v.optional(status) })
const allow = defineTable({ ...callers, cidr, ...expiring })
/** Exactly one of `limits`, `multiplier` and `unlimited` is given. */
const override = defineTable({
  ...callers,
  ...expiring,
  /** Keyed by the name of a policy, whose windows stay. */
  limits: v.optional(v.record(policyName, v.string('limits, such as "600/1m"'), 'a table of limits by policy')),
  multiplier: v.optional(multiplier),
  unlimited: v.optional(v.literal(true, 'true')),
  /** The policies that `multiplier` and `unlimited` are about; left out, all. */
  policies: v.optional(v.pipe(policyNames, v.minLength(1, 'the name of a policy'), v.readonly())),
})

const policyTable = v.record(v.string(), v.unknown(), 'a table, as in POLICIES')

const document = defineTable({
  blocks: v.optional(v.array(block, LIST_EXPECTED), []),
  allows: v.optional(v.array(allow, LIST_EXPECTED), []),
  overrides: v.optional(v.array(override, LIST_EXPECTED), []),
  policies: v.optional(v.array(policyTable, 'a list of tables, as in POLICIES')),
})

/** A target that is refused; with status 403 if it is left out. */
export type Block = RuleTarget & Readonly<v.InferOutput<typeof block>>
/** A target that is never limited, but counted. */
export type Allow = RuleTarget & Readonly<v.InferOutput<typeof allow>>
export type Override = RuleTarget & Readonly<v.InferOutput<typeof override>>

export type PolicyTables = readonly Readonly<Record<string, unknown>>[]

/** The rule set that operators change without a deploy. */
export interface Rules {
  readonly blocks: readonly Block[]
  readonly allows: readonly Allow[]
  readonly overrides: readonly Override[]
  /** Replace POLICIES. */
  readonly policies?: PolicyTables | undefined
}

export const NO_RULES: Rules = { blocks: [], allows: [], overrides: [] }

/** Reads a rule set; `checkRules` checks that its parts fit each other. @throws {OptionError} for the first mistake */
export function readRules(input: unknown): Rules {
  if (Array.isArray(input)) throw new OptionError(RULES, 'a table', input)
  const result = v.safeParse(document, input, { abortPipeEarly: true })
  if (!result.success) throw createError(result.issues[0])
  const rules: Rules = result.output
  for (const kind of ['blocks', 'allows', 'overrides'] as const) {
    for (const [index, entry] of rules[kind].entries()) checkTarget(entry, [kind, index], kind)
  }
  rules.overrides.forEach(checkOverride)
  const checked = v.safeParse(v.optional(policyList()), rules.policies)
  if (!checked.success) throw createError(checked.issues[0], ['policies'])
  return rules
}

/** Reads a stored rule set; the text is empty if there is none. @throws {OptionError} */
export function parseRules(text: string): Rules {
  if (text === '') return NO_RULES
  let input: unknown
  try {
    input = JSON.parse(text)
  } catch {
    throw new OptionError(RULES, 'JSON', text)
  }
  return readRules(input)
}

/** Reads a target as a rule set has it, e.g. with its country in capitals. @throws {OptionError} */
export function checkRuleTarget(target: RuleTarget): RuleTarget {
  return readRules({ blocks: [target] }).blocks[0] as RuleTarget
}

export function isOver({ until }: Pick<Block, 'until'>, nowMs: number): boolean {
  return until !== undefined && Date.parse(until) <= nowMs
}

type DocumentPath = readonly (string | number)[]

function createError({ message, path, input }: v.BaseIssue<unknown>, before: DocumentPath = []): OptionError {
  const keys = (path ?? []).map(({ key }) => key as string | number)
  return new OptionError([RULES, ...before, ...keys], message, path?.at(-1)?.value ?? input)
}

function checkTarget(target: RuleTarget, path: DocumentPath, kind: 'blocks' | 'allows' | 'overrides'): void {
  const { by, digest, value, cidr, country, asn } = target
  const named = [digest, value, cidr, country, asn].filter((part) => part !== undefined)
  if (named.length !== 1 || (by !== undefined && digest === undefined && value === undefined)) {
    throw new OptionError([RULES, ...path], TARGET_EXPECTED[kind], target)
  }
  if (value === undefined) return
  const source = by === undefined ? undefined : parseKnownBy(by)
  if (!source || !isNamedInPart(source)) throw new OptionError([RULES, ...path, 'by'], BY_OF_VALUE_EXPECTED, by)
  // Two values may be joined by it, so nobody is known by such a header.
  if (kind !== 'blocks' && source.kind === 'header' && value.includes(','))
    throw new OptionError([RULES, ...path, 'value'], 'a value without ","', value)
}

const CALLER_EXPECTED = 'one of digest (with by, or alone), by and value'
const TARGET_EXPECTED = {
  blocks: `${CALLER_EXPECTED}, cidr, country, asn`,
  allows: `${CALLER_EXPECTED}, cidr`,
  overrides: CALLER_EXPECTED,
} as const

function checkOverride({ limits, multiplier, unlimited, policies }: Override, index: number): void {
  const path = ['overrides', index]
  const effects = { limits, multiplier, unlimited }
  if (Object.values(effects).filter((part) => part !== undefined).length !== 1) {
    throw new OptionError([RULES, ...path], 'one of limits, multiplier, unlimited', effects)
  }
  if (limits === undefined) return
  if (Object.keys(limits).length === 0) throw new OptionError([RULES, ...path, 'limits'], 'limits of a policy', limits)
  if (policies) throw new OptionError([RULES, ...path, 'policies'], 'no policies beside limits', policies)
}

function defineTable<const Entries extends v.ObjectEntries>(entries: Entries) {
  return strictTable('field', entries, 'a table', 'a value')
}

function parseMoment(text: string): string | undefined {
  const moment = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?Z$/.test(text) ? new Date(text) : undefined
  if (!moment || Number.isNaN(moment.getTime())) return undefined
  const written = moment.toISOString()
  // There is no 30 February (RFC 3339 §5.7).
  return written.startsWith(text.slice(0, 10)) ? written.replace('.000Z', 'Z') : undefined
}
