/** Reads a cookie, if all parsers read the same. */
import type { Reading } from '../../../core/model/identity-source.ts'
import { canonicalizeCredential } from './authorization.ts'
import { AMBIGUOUS, findSpellings, MAX_CHARACTERS, NONE, readText } from './reading.ts'

/** Some parser begins another cookie at each: in or after quotes too, by RFC 2109 at a comma, in Python at a space. */
const SEPARATORS = /[;,\s"]+/

/** RFC 6265 §4.1.1, in quotes or not: some parsers cut a value off at other characters. */
const VALUE = /^(?:([!#-+\--:<-[\]-~]*)|"([!#-+\--:<-[\]-~]*)")$/

/**
 * Reads a cookie. Of two, APIs take the first or the last; many remove quotes and decode escapes, some "+" as well; so
 * values that some of them take for one are one.
 * @returns ambiguous if it is repeated, if some API may find it under another name or elsewhere in the header, or if some
 * take it for a list, divided by "&" (CGI::Cookie, Dancer2)
 */
export function readCookie(field: string | null, name: string): Reading {
  if (field === null) return NONE
  if (field.length > MAX_CHARACTERS) return AMBIGUOUS
  const found = findCookiesAlike(field, SEPARATORS, name)
  // To PHP, `my sid` is `my_sid`.
  const foundWhole = findCookiesAlike(field, /;/, name)
  if (found?.length === 0 && foundWhole?.length === 0) return NONE
  const [cookie, ...others] = field
    .split(';')
    .map((part) => part.trim())
    .filter((part) => part.startsWith(`${name}=`))
  const [, bare, quoted = bare] = VALUE.exec(cookie?.slice(name.length + 1) ?? ' ') ?? []
  if (found?.length !== 1 || foundWhole?.length !== 1 || others.length > 0 || quoted === undefined) return AMBIGUOUS
  return readCookieValue(quoted)
}

/** Finds the cookies that some parser may take for this one; undefined if there are too many to read. */
export function findCookiesAlike(field: string, separators: RegExp, name: string): readonly string[] | undefined {
  // A nameless cookie, "=name=value", is one with a name to some.
  const parts = field.split(separators).map((part) => part.trim().replace(/^=+/, ''))
  return findSpellings(parts, name)
}

/** @returns ambiguous for invalid text, and for a signed token that decoders read in different ways */
export function readCookieValue(value: string): Reading {
  try {
    const decoded = decodeURIComponent(value)
    // Express's parser reads JSON after `j:`, of which a string is the value of the cookie.
    const parsed: unknown = decoded.startsWith('j:') ? JSON.parse(decoded.slice(2)) : decoded
    if (typeof parsed !== 'string') return AMBIGUOUS
    const text = parsed.trim()
    if (text.includes('&')) return AMBIGUOUS
    const isSigned = /^(?:e[wy]|\.e)[^.]*\.[^.]*\./.test(text)
    const canonical = isSigned ? canonicalizeCredential(text, false) : text
    return canonical === undefined ? AMBIGUOUS : readText(canonical.replaceAll('+', ' '))
  } catch {
    return AMBIGUOUS
  }
}
