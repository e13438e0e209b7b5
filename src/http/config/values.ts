/** Readers of what stands in variables and in tables of policies: how their texts become values. */

import { type CostTerm, isMeasureKind, type MeasureTerm } from '../../core/model/cost.ts'
import { parseSource } from '../../core/model/identity-source.ts'
import { LIMITS_EXPECTED, parseLimits } from '../../core/model/limits.ts'
import * as v from '../../core/options/readers.ts'
import { describeExpectedPattern, parsePattern } from '../request/policy/pattern.ts'
import { PATH_LITERALS } from '../request/target.ts'
import { canPass } from '../response/forwarded-headers.ts'

/** Reads a list, or a string with commas between its items. @param expected takes the first item that `parse` refuses */
const parsedList = <Item>(
  expected: (refused: string) => string,
  parse: (text: string) => Item | undefined,
): v.Reader<readonly Item[], string | readonly string[]> => ({
  expected: (value) => expected(toTexts(value).find((text) => parse(text) === undefined) ?? ''),
  parse(value) {
    const values = toTexts(value).map(parse)
    return values.length > 0 && values.every((each) => each !== undefined) ? values : undefined
  },
})

function toTexts(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.map(toText) : toText(value).split(',')
}

function toText(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : ''
}

/** Reads a number that stands in a text, too: variables hold nothing else. */
export const inText = <Value, Written>(
  reader: v.Reader<Value, Written>,
  numbers = /^\d{1,15}$/,
): v.Reader<Value, Written | string> => ({
  ...(reader as v.Reader<Value, Written | string>),
  numbers,
  parse: (value, where) =>
    reader.parse(typeof value === 'string' && numbers.test(value) ? Number(value) : value, where),
})

export const integer = (...bounds: Parameters<typeof v.integer>) => inText(v.integer(...bounds))

const DECIMAL = /^\d*\.?\d+$/
export const SHARE_IN_TEXT = inText(v.SHARE, DECIMAL)
export const SHARE_OR_NONE = inText(
  v.between('a share from 0 to 1', (value) => value >= 0 && value <= 1),
  DECIMAL,
)

/** Fits into a header. */
export const LONG_SECRET = v.matching(/^[\x21-\x7e]{32,}$/, 'at least 32 characters of ASCII, none of them a space')

/** Stays text: how large limits may be depends on the algorithm. */
export const LIMITS = v.parsed(LIMITS_EXPECTED, (text) => (parseLimits(text) ? text : undefined))

/** Names of headers and claims that may hold what must not be stored or logged. */
const CONFIDENTIAL = /auth|cookie|token|secret|key|passw|session|forwarded|(?:^|-)ip(?:v6)?$/

const LABEL_EXPECTED = '"header:<name>" or "claim:<name>" of what holds neither a credential nor an address'
export const LABEL = v.parsed(LABEL_EXPECTED, (text) => {
  const source = parseHeaderOrClaim(text)
  return source && !CONFIDENTIAL.test(source.name.toLowerCase()) ? source : undefined
})

export function parseHeaderOrClaim(text: string) {
  const source = parseSource(text.trim())
  return source?.kind === 'header' || source?.kind === 'claim' ? source : undefined
}

const ACTUAL_COST_EXPECTED =
  '"header:<name>", "json:</pointer>", "bytes", "bytes:request" or "ms", or a table of these with weights'

/** Reads one term, or a table of terms with the units that each counts. */
export const ACTUAL_COST: v.Reader<readonly CostTerm[], string | Readonly<Record<string, number>>> = {
  expected: ACTUAL_COST_EXPECTED,
  parse(value) {
    const terms = Object.entries(typeof value === 'string' ? { [value]: 1 } : Object(value)).map(parseCostTerm)
    return terms.some((term) => term && term.weight > 0) && terms.every((term) => term !== undefined)
      ? terms
      : undefined
  },
}

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

const UNTOLD_EXPECTED = `an integer from 0 to ${v.MAX_COST}, or a share of what is measured, such as "bytes/4"`

/** Reads units, or a text about them. */
const unitsOr = <Value>(units: v.Reader<number, number | string>, other: v.Reader<Value, string>) =>
  v.either(units, other, (value) => `${typeof value === 'number' ? units.expected : other.expected}`)

/** Reads units, or what they are estimated by. */
export const UNTOLD = unitsOr(integer(0, v.MAX_COST), v.parsed(UNTOLD_EXPECTED, parseShare))

/** Reads `bytes/4`: one unit for each four bytes. */
function parseShare(text: string): MeasureTerm | undefined {
  const [, kind = '', divisor = '1'] = /^([a-z:]+)(?:\/([1-9]\d{0,5}))?$/.exec(text) ?? []
  return isMeasureKind(kind) ? { kind, weight: 1 / Number(divisor) } : undefined
}

const COST_EXPECTED = `an integer from 1 to ${v.MAX_COST}, "header:<name>" or "bytes:request/<bytes of a unit>"`

/** Reads units, or what of a request tells them. */
export const COST = unitsOr(
  integer(1, v.MAX_COST),
  v.parsed(COST_EXPECTED, (text) => {
    const source = parseSource(text)
    if (source?.kind === 'header') return { kind: source.kind, name: source.name } as const
    const size = parseShare(text)
    return size?.kind === 'bytes:request' ? ({ kind: 'size', weight: size.weight } as const) : undefined
  }),
)

/** An origin to call, as the string that paths are appended to: without a trailing slash. */
export const HTTP_URL = v.parsed('an http or https URL without credentials, query or fragment', (text) => {
  if (!URL.canParse(text)) return undefined
  const url = new URL(text)
  const isPlain = !url.username && !url.password && !url.search && !url.hash
  return /^https?:$/.test(url.protocol) && isPlain ? (url.origin + url.pathname).replace(/\/+$/, '') : undefined
})

export const REST_URL = v.narrowed(
  HTTP_URL,
  (url) => /^https?:\/\/[^$.]./.test(url),
  'an http or https URL whose host has more than one letter',
)

export const REST_TOKEN = v.parsed('the REST token of the database', (text) => /^[\x21-\x7e]+$/.exec(text)?.[0])

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** Plain http is for this machine only: an attacker who can change the response could make tokens of any caller. */
const SAFE_URL = /^(?:https:\/\/|http:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?=[:/]))[^\s@#]+$/

export const KEYS_URL = v.parsed('an https URL without credentials or fragment (http only to this machine)', (text) =>
  SAFE_URL.test(text) && URL.canParse(text) ? text : undefined,
)

/** Fits into a header. */
export const WEB_URL = v.parsed('an https URL without credentials', (text) =>
  /^https:\/\/[\w.:-]+(?:[/?#][!-~]{0,2000})?$/.test(text) && URL.canParse(text) ? text : undefined,
)

export const LONG_TEXT = v.matching(/^.{1,10000}$/s, 'up to 10000 characters')

/** Origins as browsers spell them. */
export const ORIGINS = parsedList(
  () => 'origins such as https://app.example.com, or *',
  (given) => {
    const text = given.trim()
    return text === '*' || (URL.canParse(text) && !text.includes('*') && new URL(text).origin === text)
      ? text
      : undefined
  },
)

/** A host as in URLs: in lower case, with its port unless that is a scheme's default. */
export const HOST = v.parsed('a host such as "admin.example.com"', (text) =>
  /^(?!.*\.\.)[a-z\d](?:[a-z\d.-]*[a-z\d])?(?::\d{1,5})?$/i.test(text) && URL.canParse(`http://${text}`)
    ? text.toLowerCase().replace(/:(?:80|443)$/, '')
    : undefined,
)

/** Names of headers, in lower case. The gateway sets X-Forwarded-For, -Host and -Proto itself. */
export const HEADER_NAMES = v.parsed('names of headers, e.g. "X-Remote-User, CF-Pseudo-IPv4"', (text) => {
  const names = text
    .toLowerCase()
    .split(/[\s,]+/)
    .filter(Boolean)
  return names.every((name) => canPass(name) && !/^x-forwarded-(?:for|host|proto)$/.test(name)) ? names : undefined
})

export const PATTERN_LIST = parsedList(describeExpectedPattern, parsePattern)

export const STATUSES = v.mapped(
  parsedList(() => 'statuses from 200 to 599 and classes of them, e.g. "401, 403" or "4xx except 422"', parseStatuses),
  (lists) => [...new Set(lists.flat())],
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

export const SIGNS = v.parsed(`some of ${PATH_LITERALS.join(' ')}, with spaces between`, (text) => {
  const given = text.toUpperCase().split(' ').filter(Boolean)
  const known = PATH_LITERALS.filter((sign) => given.includes(sign))
  return known.length > 0 && known.length === new Set(given).size ? known : undefined
})
