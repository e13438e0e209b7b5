/** Readers of single values. Each message says what was expected; `OptionError` makes a line of it. */

import * as v from 'valibot'
import { canPass } from '../http/forwarded-headers.ts'
import { LIMITS_EXPECTED, parseLimits } from '../model/limits.ts'
import type { Pattern } from '../model/policy.ts'
import { parseHeaderSource, parseSource } from '../request/identity/source.ts'
import { parsePattern, patternExpected } from '../request/policy/pattern.ts'
import { PATH_LITERALS } from '../request/target.ts'
import { MAX_LEASE, MIN_LEASE, SHARE_EXPECTED, type TextRule } from './option-error.ts'

/** A string that `parse` turns into a value, or refuses by returning undefined. */
export const parsed = <T>(expected: string, parse: (text: string) => T | undefined) =>
  v.pipe(
    v.string(expected),
    read(() => expected, parse),
  )

/** The same of any value. @param expected is told what was refused */
const read = <I, T>(expected: (value: I) => string, parse: (value: I) => T | undefined) =>
  v.rawTransform<I, T>(({ dataset, addIssue, NEVER }) => {
    const value = parse(dataset.value)
    if (value !== undefined) return value
    addIssue({ message: expected(dataset.value) })
    return NEVER
  })

export const matching = (pattern: RegExp, expected: string) => v.pipe(v.string(expected), v.regex(pattern, expected))

export const textLike = ({ pattern, expected }: TextRule) => matching(pattern, expected)

export const oneOf = <const T extends readonly string[]>(...options: T) =>
  v.picklist(options, options.map((option) => `"${option}"`).join(' or '))

export const boolean = v.boolean('true or false')

/** An integer, or a string that holds one. */
export const integer = (min: number, max: number, expected = `an integer from ${min} to ${max}`) =>
  v.pipe(
    v.union([v.number(), v.pipe(v.string(), v.regex(/^\d{1,15}$/), v.transform(Number))], expected),
    v.integer(expected),
    v.minValue(min, expected),
    v.maxValue(max, expected),
  )

/** A number up to 1, or a string that holds one. */
const upToOne = (expected: string) =>
  v.pipe(
    v.union([v.number(), v.pipe(v.string(), v.regex(/^\d*\.?\d+$/), v.transform(Number))], expected),
    v.maxValue(1, expected),
  )

export const share = v.pipe(upToOne(SHARE_EXPECTED), v.gtValue(0, SHARE_EXPECTED))
export const shareOrNone = v.pipe(upToOne('a share from 0 to 1'), v.minValue(0, 'a share from 0 to 1'))

export const LEASES_EXPECTED = `"off", "auto" or an integer from ${MIN_LEASE} to ${MAX_LEASE}`
export const leases = v.union([oneOf('off', 'auto'), integer(MIN_LEASE, MAX_LEASE, LEASES_EXPECTED)], LEASES_EXPECTED)

/** It may stand in a header field. */
export const longSecret = matching(/^[\x21-\x7e]{32,}$/, 'at least 32 characters of ASCII, none of them a space')

/** Kept as they are written: how large they may be depends on the algorithm. */
export const limits = parsed(LIMITS_EXPECTED, (text) => (parseLimits(text) ? text : undefined))

/** Names of fields that hold, or may well hold, what must not be stored or logged. */
const CONFIDENTIAL = /auth|cookie|token|secret|key|passw|session|forwarded|(?:^|-)ip(?:v6)?$/

export const label = parsed(
  '"header:<name>" or "claim:<name>" of what holds neither a credential nor an address',
  (text) => {
    const header = parseHeaderSource(text)
    const claim = parseSource(text)
    const source =
      header !== undefined ? { kind: 'header' as const, name: header } : claim?.kind === 'claim' ? claim : undefined
    return source && !CONFIDENTIAL.test(source.name.toLowerCase()) ? source : undefined
  },
)

export const HEADER_EXPECTED = '"header:<name>"'
export const headerSource = parsed(HEADER_EXPECTED, parseHeaderSource)

/** An origin to call, as the string that paths are appended to: without a trailing slash. */
export const httpUrl = parsed('an http or https URL without credentials, query or fragment', (text) => {
  if (!URL.canParse(text)) return undefined
  const url = new URL(text)
  const isPlain = !url.username && !url.password && !url.search && !url.hash
  return /^https?:$/.test(url.protocol) && isPlain ? (url.origin + url.pathname).replace(/\/+$/, '') : undefined
})

/** The URL of a REST endpoint, as its client takes it. */
export const restUrl = v.pipe(
  httpUrl,
  v.check((url) => /^https?:\/\/[^$.]./.test(url), 'an http or https URL whose host has more than one letter'),
)

/** Plain http leads to this machine only: whoever can change the answer on its way makes tokens of any caller. */
const KEYS_URL = /^(?:https:\/\/|http:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?=[:/]))[^\s@#]+$/

export const jwksUrl = parsed('an https URL without credentials or fragment (http only to this machine)', (text) =>
  KEYS_URL.test(text) && URL.canParse(text) ? text : undefined,
)

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

/** A list of patterns, or a string of them with commas between. */
export const patternList = v.pipe(
  v.unknown(),
  read(
    (value) => patternExpected(String(textsIn(value).find((text) => readPattern(text) === undefined) ?? '')),
    (value) => {
      const patterns = textsIn(value).map(readPattern)
      return patterns.length > 0 && patterns.every((pattern) => pattern !== undefined) ? patterns : undefined
    },
  ),
)

function textsIn(value: unknown): readonly unknown[] {
  if (typeof value === 'string') return value.split(',')
  return Array.isArray(value) ? value : []
}

function readPattern(text: unknown): Pattern | undefined {
  return typeof text === 'string' ? parsePattern(text) : undefined
}

/** Response statuses, a list or a string with commas between. */
export const statuses = v.pipe(
  v.unknown(),
  read(
    () => 'statuses from 200 to 599 and classes of them, e.g. "401, 403" or "4xx"',
    (value) => {
      const parts = Array.isArray(value) ? value : String(value).split(',')
      const found = parts.map((part) => parseStatuses(String(part).trim()))
      return found.length > 0 && found.every((statuses) => statuses !== undefined)
        ? [...new Set(found.flat())]
        : undefined
    },
  ),
)

/** A status or a class of them. The class 4xx does not include 429, which is about a limit. */
export function parseStatuses(text: string): readonly number[] | undefined {
  if (/^[2-5]\d\d$/.test(text)) return [Number(text)]
  if (!/^[2-5]xx$/i.test(text)) return undefined
  const first = Number(text[0]) * 100
  return Array.from({ length: 100 }, (_, index) => first + index).filter((status) => status !== 429)
}

/** What the API keeps as data in a path. */
export const signs = parsed(`some of ${PATH_LITERALS.join(' ')}, with spaces between`, (text) => {
  const given = text.toUpperCase().split(' ').filter(Boolean)
  const known = PATH_LITERALS.filter((sign) => given.includes(sign))
  return known.length > 0 && known.length === new Set(given).size ? known : undefined
})
