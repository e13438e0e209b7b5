/**
 * Readers of single values, each made when it is needed: a Worker starts with few of them. Each message says what was
 * expected; `OptionError` makes a line of it.
 */

import * as v from 'valibot'
import { type CostTerm, isMeasureKind, type MeasureTerm } from '../../core/model/cost.ts'
import { parseSource } from '../../core/model/identity-source.ts'
import { LIMITS_EXPECTED, parseLimits } from '../../core/model/limits.ts'
import {
  describeUnknown,
  MAX_COST,
  MAX_LEASE,
  MIN_LEASE,
  SHARE_EXPECTED,
  type TextRule,
} from '../../core/options/option-error.ts'
import { listNames, mapNames } from '../../core/runtime/lists.ts'
import { describeExpectedPattern, parsePattern } from '../request/policy/pattern.ts'
import { PATH_LITERALS } from '../request/target.ts'
import { canPass } from '../response/forwarded-headers.ts'

/** Reads a string by `parse`, which refuses it by returning undefined. */
export const parsed = <T>(expected: string, parse: (text: string) => T | undefined) =>
  v.pipe(
    v.string(expected),
    v.rawTransform<string, T>(({ dataset, addIssue, NEVER }) => {
      const value = parse(dataset.value)
      if (value !== undefined) return value
      addIssue({ message: expected })
      return NEVER
    }),
  )

/** Reads a list, or a string with commas between its items. @param expected takes the first item that `parse` refuses */
const parsedList = <T>(expected: (refused: string) => string, parse: (text: string) => T | undefined) =>
  v.pipe(
    v.unknown(),
    v.rawTransform<unknown, T[]>(({ dataset: { value }, addIssue, NEVER }) => {
      const items: readonly unknown[] = Array.isArray(value) ? value : toText(value).split(',')
      const texts = items.map(toText)
      const values = texts.map(parse)
      if (values.length > 0 && values.every((each) => each !== undefined)) return values
      addIssue({ message: expected(texts[values.indexOf(undefined)] ?? '') })
      return NEVER
    }),
  )

function toText(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : ''
}

/** Refuses keys that it does not know. @param ifMissing what is expected in place of nothing */
export const strictTable = <const Entries extends v.ObjectEntries>(
  noun: string,
  entries: Entries,
  expected: string,
  ifMissing = expected,
) =>
  v.strictObject(entries, (issue) => {
    if (issue.expected === 'never') return describeUnknown(noun, Object.keys(entries), String(issue.input))
    return issue.input === undefined ? ifMissing : expected
  })

export const matching = (pattern: RegExp, expected: string) => v.pipe(v.string(expected), v.regex(pattern, expected))

export const textLike = ({ pattern, expected }: TextRule) => matching(pattern, expected)

export const oneOf = <const T extends readonly string[]>(...options: T) =>
  v.picklist(options, options.map((option) => `"${option}"`).join(' or '))

/** Makes the schemas of a table. */
export function createSchemas<const Table extends Readonly<Record<string, () => v.GenericSchema>>>(table: Table) {
  return mapNames(listNames(table), (name) => table[name]?.()) as {
    [Name in keyof Table]: ReturnType<Table[Name]>
  }
}

export const boolean = () => v.boolean('true or false')

const numeric = (pattern: RegExp, expected: string) =>
  v.union([v.number(), v.pipe(v.string(), v.regex(pattern), v.transform(Number))], expected)

export const integer = (min: number, max: number, expected = `an integer from ${min} to ${max}`) =>
  v.pipe(numeric(/^\d{1,15}$/, expected), v.integer(expected), v.minValue(min, expected), v.maxValue(max, expected))

export const integerLike = ({ min, max }: { readonly min: number; readonly max: number }) => integer(min, max)

const upToOne = (expected: string) => v.pipe(numeric(/^\d*\.?\d+$/, expected), v.maxValue(1, expected))

export const share = () => v.pipe(upToOne(SHARE_EXPECTED), v.gtValue(0, SHARE_EXPECTED))
export const shareOrNone = () => v.pipe(upToOne('a share from 0 to 1'), v.minValue(0, 'a share from 0 to 1'))

const LEASES_EXPECTED = `"off", "auto" or an integer from ${MIN_LEASE} to ${MAX_LEASE}`
export const leases = () =>
  v.union([oneOf('off', 'auto'), integer(MIN_LEASE, MAX_LEASE, LEASES_EXPECTED)], LEASES_EXPECTED)

/** Fits into a header. */
export const longSecret = () => matching(/^[\x21-\x7e]{32,}$/, 'at least 32 characters of ASCII, none of them a space')

/** Stays text: how large limits may be depends on the algorithm. */
export const limits = () => parsed(LIMITS_EXPECTED, (text) => (parseLimits(text) ? text : undefined))

/** Names of headers and claims that may hold what must not be stored or logged. */
const CONFIDENTIAL = /auth|cookie|token|secret|key|passw|session|forwarded|(?:^|-)ip(?:v6)?$/

const LABEL_EXPECTED = '"header:<name>" or "claim:<name>" of what holds neither a credential nor an address'
export const label = () =>
  parsed(LABEL_EXPECTED, (text) => {
    const source = parseHeaderOrClaim(text)
    return source && !CONFIDENTIAL.test(source.name.toLowerCase()) ? source : undefined
  })

export function parseHeaderOrClaim(text: string) {
  const source = parseSource(text.trim())
  return source?.kind === 'header' || source?.kind === 'claim' ? source : undefined
}

const HEADER_EXPECTED = '"header:<name>"'
const ACTUAL_COST_EXPECTED =
  '"header:<name>", "json:</pointer>", "bytes", "bytes:request" or "ms", or a table of these with weights'

/** Reads one term, or a table of terms with the units that each counts. */
export const actualCost = () =>
  v.pipe(
    v.custom<string | Readonly<Record<string, number>>>(
      (value) => typeof value === 'string' || typeof value === 'object',
      ACTUAL_COST_EXPECTED,
    ),
    v.rawTransform<string | Readonly<Record<string, number>>, readonly CostTerm[]>(({ dataset, addIssue, NEVER }) => {
      const { value } = dataset
      const terms = Object.entries(typeof value === 'string' ? { [value]: 1 } : { ...value }).map(parseCostTerm)
      if (terms.some((term) => term && term.weight > 0) && terms.every((term) => term !== undefined)) return terms
      addIssue({ message: ACTUAL_COST_EXPECTED })
      return NEVER
    }),
  )

function parseCostTerm([text, weight]: readonly [string, unknown]): CostTerm | undefined {
  if (typeof weight !== 'number' || weight === 0 || !(Math.abs(weight) <= 1e6)) return undefined
  if (isMeasureKind(text)) return weight > 0 ? { kind: text, weight } : undefined
  const source = parseSource(text)
  if (source?.kind === 'header') return { kind: source.kind, name: source.name, weight }
  const [kind, ...parts] = text.split(/:|\|/)
  const isOptional = parts.length > 1 && parts.at(-1) === '0'
  const pointers = isOptional ? parts.slice(0, -1) : parts
  const sources = pointers.map((pointer) => parseSource(`json:${pointer}`))
  const paths = sources.flatMap((each) => (each?.kind === 'json' ? [each.path] : []))
  const isWhole = kind === 'json' && paths.length > 0 && paths.length === sources.length
  return isWhole ? { kind, name: parts.join('|'), paths, isOptional, weight } : undefined
}

const UNTOLD_EXPECTED = `an integer from 0 to ${MAX_COST}, or a share of what is measured, such as "bytes/4"`

/** Reads units, or what they are estimated by. */
export const untold = () => v.union([integer(0, MAX_COST), parsed(UNTOLD_EXPECTED, parseShare)], UNTOLD_EXPECTED)

/** Reads `bytes/4`: one unit for each four bytes. */
function parseShare(text: string): MeasureTerm | undefined {
  const [, kind = '', divisor = '1'] = /^([a-z:]+)(?:\/([1-9]\d{0,5}))?$/.exec(text) ?? []
  return isMeasureKind(kind) ? { kind, weight: 1 / Number(divisor) } : undefined
}

const COST_EXPECTED = `an integer from 1 to ${MAX_COST}, ${HEADER_EXPECTED} or "bytes:request/<bytes of a unit>"`

/** Reads units, or what of a request tells them. */
export const cost = () =>
  v.union(
    [
      integer(1, MAX_COST),
      parsed(COST_EXPECTED, (text) => {
        const source = parseSource(text)
        if (source?.kind === 'header') return { kind: source.kind, name: source.name } as const
        const size = parseShare(text)
        return size?.kind === 'bytes:request' ? ({ kind: 'size', weight: size.weight } as const) : undefined
      }),
    ],
    COST_EXPECTED,
  )

/** An origin to call, as the string that paths are appended to: without a trailing slash. */
export const httpUrl = () =>
  parsed('an http or https URL without credentials, query or fragment', (text) => {
    if (!URL.canParse(text)) return undefined
    const url = new URL(text)
    const isPlain = !url.username && !url.password && !url.search && !url.hash
    return /^https?:$/.test(url.protocol) && isPlain ? (url.origin + url.pathname).replace(/\/+$/, '') : undefined
  })

export const restUrl = () =>
  v.pipe(
    httpUrl(),
    v.check((url) => /^https?:\/\/[^$.]./.test(url), 'an http or https URL whose host has more than one letter'),
  )

export const restToken = () => parsed('the REST token of the database', (text) => /^[\x21-\x7e]+$/.exec(text)?.[0])

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** Plain http is for this machine only: an attacker who can change the response could make tokens of any caller. */
const KEYS_URL = /^(?:https:\/\/|http:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?=[:/]))[^\s@#]+$/

export const jwksUrl = () =>
  parsed('an https URL without credentials or fragment (http only to this machine)', (text) =>
    KEYS_URL.test(text) && URL.canParse(text) ? text : undefined,
  )

/** Fits into a header. */
export const webUrl = () =>
  parsed('an https URL without credentials', (text) =>
    /^https:\/\/[\w.:-]+(?:[/?#][!-~]{0,2000})?$/.test(text) && URL.canParse(text) ? text : undefined,
  )

export const longText = () => matching(/^.{1,10000}$/s, 'up to 10000 characters')

/** Origins as browsers spell them. */
export const origins = () =>
  parsedList(
    () => 'origins such as https://app.example.com, or *',
    (given) => {
      const text = given.trim()
      return text === '*' || (URL.canParse(text) && !text.includes('*') && new URL(text).origin === text)
        ? text
        : undefined
    },
  )

/** A host as in URLs: in lower case, with its port unless that is a scheme's default. */
export const host = () =>
  parsed('a host such as "admin.example.com"', (text) =>
    /^(?!.*\.\.)[a-z\d](?:[a-z\d.-]*[a-z\d])?(?::\d{1,5})?$/i.test(text) && URL.canParse(`http://${text}`)
      ? text.toLowerCase().replace(/:(?:80|443)$/, '')
      : undefined,
  )

/** Names of headers, in lower case. The gateway sets X-Forwarded-For, -Host and -Proto itself. */
export const headerNames = () =>
  parsed('names of headers, e.g. "X-Remote-User, CF-Pseudo-IPv4"', (text) => {
    const names = text
      .toLowerCase()
      .split(/[\s,]+/)
      .filter(Boolean)
    return names.every((name) => canPass(name) && !/^x-forwarded-(?:for|host|proto)$/.test(name)) ? names : undefined
  })

export const patternList = () => parsedList(describeExpectedPattern, parsePattern)

export const statuses = () =>
  v.pipe(
    parsedList(
      () => 'statuses from 200 to 599 and classes of them, e.g. "401, 403" or "4xx except 422"',
      parseStatuses,
    ),
    v.transform((lists) => [...new Set(lists.flat())]),
  )

/** Reads a status, or a class of them and which of it are left out. The class 4xx does not include 429, which is about a limit. */
export function parseStatuses(given: string): readonly number[] | undefined {
  const [, one, group, except = '429'] =
    /^\s*(?:([2-5]\d\d)|([2-5])xx(?: except((?: [2-5]\d\d)+))?)\s*$/i.exec(given) ?? []
  if (one) return [Number(one)]
  if (!group) return undefined
  const all = Array.from({ length: 100 }, (_, index) => Number(group) * 100 + index)
  return all.filter((status) => status !== 429 && !except.includes(`${status}`))
}

export const signs = () =>
  parsed(`some of ${PATH_LITERALS.join(' ')}, with spaces between`, (text) => {
    const given = text.toUpperCase().split(' ').filter(Boolean)
    const known = PATH_LITERALS.filter((sign) => given.includes(sign))
    return known.length > 0 && known.length === new Set(given).size ? known : undefined
  })
