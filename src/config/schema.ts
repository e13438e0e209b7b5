/** Readers of single values. Each message says what was expected; `ConfigError` makes a line of it. */

import * as v from 'valibot'
import { canPass } from '../http/passed-fields.ts'
import { LIMITS_EXPECTED, parseLimits } from '../model/limits.ts'
import type { Pattern } from '../model/policy.ts'
import { parseClaimSource, parseHeaderSource } from '../request/identity/source.ts'
import { parsePattern, patternExpected } from '../request/policy/pattern.ts'
import { SIGNS } from '../request/target.ts'
import { ConfigError } from './config-error.ts'

/** A string that `parse` turns into a value, or refuses by returning undefined. */
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

export const matching = (pattern: RegExp, expected: string) => v.pipe(v.string(expected), v.regex(pattern, expected))

/** An integer, or a string that holds one. */
export const integer = (min: number, max: number, expected = `an integer from ${min} to ${max}`) => {
  return v.pipe(
    v.union([v.number(), v.pipe(v.string(), v.regex(/^\d{1,15}$/), v.transform(Number))], expected),
    v.integer(expected),
    v.minValue(min, expected),
    v.maxValue(max, expected),
  )
}

const SHARE_EXPECTED = 'a share above 0 and at most 1'

/** A share of a whole, or a string that holds one. */
export const share = v.pipe(
  v.union([v.number(), v.pipe(v.string(), v.regex(/^\d*\.?\d+$/), v.transform(Number))], SHARE_EXPECTED),
  v.gtValue(0, SHARE_EXPECTED),
  v.maxValue(1, SHARE_EXPECTED),
)

const SHARE_OR_NONE_EXPECTED = 'a share from 0 to 1'

/** The same, or none of it. */
export const shareOrNone = v.pipe(
  v.union([v.number(), v.pipe(v.string(), v.regex(/^\d*\.?\d+$/), v.transform(Number))], SHARE_OR_NONE_EXPECTED),
  v.minValue(0, SHARE_OR_NONE_EXPECTED),
  v.maxValue(1, SHARE_OR_NONE_EXPECTED),
)

/** Names of fields that hold, or may well hold, what must not be stored or logged. */
const CONFIDENTIAL = /auth|cookie|token|secret|key|passw|session|forwarded|(?:^|-)ip(?:v6)?$/
const LABEL_EXPECTED = '"header:<name>" or "claim:<name>" of what holds neither a credential nor an address'

/** Where the name stands by which people know a caller. */
export const label = parsed(LABEL_EXPECTED, (text) => {
  const header = parseHeaderSource(text)
  const [, claim] = /^claim:(\S+)$/.exec(text) ?? []
  const source = header === undefined ? claim && parseClaimSource(claim) : { kind: 'header' as const, name: header }
  return source && !CONFIDENTIAL.test(source.name.toLowerCase()) ? source : undefined
})

export const oneOf = <const T extends readonly string[]>(...options: T) =>
  v.picklist(options, options.map((option) => `"${option}"`).join(' or '))

export const limits = parsed(LIMITS_EXPECTED, parseLimits)

/** An origin to call, as the string that paths are appended to: without a trailing slash. */
export const httpUrl = parsed('an http or https URL without credentials, query or fragment', (text) => {
  if (!URL.canParse(text)) return undefined
  const url = new URL(text)
  const isPlain = !url.username && !url.password && !url.search && !url.hash
  return /^https?:$/.test(url.protocol) && isPlain ? (url.origin + url.pathname).replace(/\/+$/, '') : undefined
})

/** A host as URLs have it: in lower case, with its port unless that is the scheme's default. */
export const host = parsed('a host such as "admin.example.com"', (text) =>
  /^[a-z\d](?:[a-z\d.-]*[a-z\d])?(?::\d{1,5})?$/i.test(text) ? text.toLowerCase() : undefined,
)

/** Names of headers, in lower case. The gateway sets those about its own way by itself. */
export const headerNames = parsed('names of headers, e.g. "X-Remote-User, CF-Pseudo-IPv4"', (text) => {
  const names = text
    .toLowerCase()
    .split(/[\s,]+/)
    .filter(Boolean)
  return names.every((name) => canPass(name) && !/^x-forwarded-(?:for|host|proto)$/.test(name)) ? names : undefined
})

/** The URL of a REST endpoint, as its client takes it. */
export const restUrl = v.pipe(
  httpUrl,
  v.check((url) => /^https?:\/\/[^$.]./.test(url), 'an http or https URL whose host has more than one letter'),
)

/** A list of patterns, or a string of them with commas between. */
export const patternList = v.pipe(
  v.unknown(),
  v.rawTransform<unknown, readonly Pattern[]>(({ dataset, addIssue, NEVER }) => {
    const { value } = dataset
    const texts = typeof value === 'string' ? value.split(',') : Array.isArray(value) ? value : []
    const patterns = texts.map((text) => (typeof text === 'string' ? parsePattern(text) : undefined))
    if (patterns.length > 0 && patterns.every((pattern) => pattern !== undefined)) return patterns
    addIssue({ message: patternExpected(String(texts[patterns.indexOf(undefined)] ?? '')) })
    return NEVER
  }),
)

const STATUSES_EXPECTED = 'statuses from 200 to 599 and classes of them, e.g. "401, 403" or "4xx"'

/**
 * Response statuses, a list or a string with commas between. The class 4xx does not include 429, which is about a
 * limit.
 */
export const statuses = v.pipe(
  v.unknown(),
  v.rawTransform<unknown, readonly number[]>(({ dataset: { value }, addIssue, NEVER }) => {
    const parts = Array.isArray(value) ? value : String(value).split(',')
    const found = parts.map((part) => parseStatuses(String(part).trim()))
    if (found.length > 0 && found.every((statuses) => statuses !== undefined)) return [...new Set(found.flat())]
    addIssue({ message: STATUSES_EXPECTED })
    return NEVER
  }),
)

/** @returns undefined for what is no status, and no class of them */
export function parseStatuses(text: string): readonly number[] | undefined {
  if (/^[2-5]\d\d$/.test(text)) return [Number(text)]
  if (!/^[2-5]xx$/i.test(text)) return undefined
  const first = Number(text[0]) * 100
  return Array.from({ length: 100 }, (_, index) => first + index).filter((status) => status !== 429)
}

const SIGNS_EXPECTED = `some of ${SIGNS.join(' ')}, with spaces between`

/** What the API keeps as data in a path. */
export const signs = parsed(SIGNS_EXPECTED, (text) => {
  const given = text.toUpperCase().split(' ').filter(Boolean)
  const known = SIGNS.filter((sign) => given.includes(sign))
  return known.length > 0 && known.length === new Set(given).size ? known : undefined
})

/** The error that a table of values raises. Its keys are named as variables, or options, are. */
export function configErrorOf({ message, path, input }: v.BaseIssue<unknown>): ConfigError {
  const [variable, ...rest] = (path ?? []).map(({ key }) => key as string | number)
  // An issue about two keys is raised on their table, and forwarded to the key to fix.
  return new ConfigError(String(variable), message, path?.at(-1)?.value ?? input, rest)
}
