/** The rule set as it is stored, and its checks. */
import { formatSource } from '../../core/model/identity-source.ts'
import { OptionError } from '../../core/options/option-error.ts'
import * as v from '../../core/options/readers.ts'
import { POLICY_LIST } from '../../http/config/policy-keys.ts'
import { integer } from '../../http/config/values.ts'
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

const BY = v.parsed(BY_EXPECTED, (text) => {
  const source = parseKnownBy(text)
  return source && formatSource(source)
})
const COUNTRY = v.mapped(
  v.matching(/^[A-Za-z][A-Za-z\d]$/, 'a country by its two characters, such as "DE", or "T1" for Tor'),
  (text) => text.toUpperCase(),
)
const STATUS_EXPECTED = 'a status from 400 to 599, but not 401 or 407'
const STATUS = v.narrowed(
  integer(400, 599, STATUS_EXPECTED),
  // These ask for credentials, in headers of their own.
  (status) => status !== 401 && status !== 407,
  STATUS_EXPECTED,
)

const EXPIRING = {
  /** Operators read it, and a blocked caller is told it. */
  reason: v.matching(/^[^\p{Cc}]{1,200}$/u, 'a line of up to 200 characters'),
  /** When the rule ends, e.g. `2026-12-24T00:00:00Z`; left out, it does not. */
  until: v.parsed('a moment in UTC, such as "2026-12-24T00:00:00Z"', parseMoment),
}
const CALLERS = { by: BY, digest: v.matching(DIGEST, DIGEST_EXPECTED), value: v.matching(WILDCARD, WILDCARD_EXPECTED) }
const CIDR = v.parsed(NETWORK_EXPECTED, parseNetwork)
const POLICY_NAME = v.matching(/^[\w-]{1,64}$/, 'the name of a policy')
const POLICY_NAMES = v.narrowed(
  v.list(POLICY_NAME, 'a list of names of policies'),
  (names) => names.length > 0,
  'the name of a policy',
)
const BLOCK = {
  ...CALLERS,
  cidr: CIDR,
  country: COUNTRY,
  asn: integer(1, 4_294_967_295),
  ...EXPIRING,
  status: STATUS,
}
const ALLOW = { ...CALLERS, cidr: CIDR, ...EXPIRING }
/** Exactly one of `limits`, `multiplier` and `unlimited` is given. */
const OVERRIDE = {
  ...CALLERS,
  ...EXPIRING,
  /** Keyed by the name of a policy, whose windows stay. */
  limits: v.record(POLICY_NAME, v.anyText('limits, such as "600/1m"'), 'a table of limits by policy'),
  multiplier: v.between('a number above 0 and at most 1000000', (factor) => factor > 0 && factor <= 1e6),
  unlimited: v.oneOf(true),
  /** The policies that `multiplier` and `unlimited` are about; left out, all. */
  policies: POLICY_NAMES,
}

const listOfTables = <const Table extends v.Readers>(readers: Table) =>
  v.withDefault(v.list(v.table(readers, 'a table', 'field'), 'a list of tables'), [])

const DOCUMENT = v.table(
  {
    blocks: listOfTables(BLOCK),
    allows: listOfTables(ALLOW),
    overrides: listOfTables(OVERRIDE),
    policies: v.list(
      v.accepted<PolicyTables[number]>(
        'a table, as in POLICIES',
        (value) => typeof value === 'object' && value !== null,
      ),
      'a list of tables, as in POLICIES',
    ),
  },
  'a table',
  'field',
)

/** A target that is refused; with status 403 if it is left out. */
export type Block = RuleTarget & v.Values<typeof BLOCK>
/** A target that is never limited, but counted. */
export type Allow = RuleTarget & v.Values<typeof ALLOW>
export type Override = RuleTarget & v.Values<typeof OVERRIDE>

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
  const rules: Rules = v.read(DOCUMENT, input, RULES)
  for (const kind of ['blocks', 'allows', 'overrides'] as const) {
    for (const [index, entry] of rules[kind].entries()) checkTarget(entry, [kind, index], kind)
  }
  rules.overrides.forEach(checkOverride)
  if (rules.policies) v.read(POLICY_LIST, rules.policies, [RULES, 'policies'])
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

function parseMoment(text: string): string | undefined {
  const moment = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?Z$/.test(text) ? new Date(text) : undefined
  if (!moment || Number.isNaN(moment.getTime())) return undefined
  const written = moment.toISOString()
  // There is no 30 February (RFC 3339 §5.7).
  return written.startsWith(text.slice(0, 10)) ? written.replace('.000Z', 'Z') : undefined
}
