import type { Reading } from '../../model/policy.ts'
import { canonicalCredential } from './authorization.ts'
import { AMBIGUOUS, findSpellings, MAX_CHARACTERS, NONE, readText } from './reading.ts'

/** Wherever some parser begins another cookie: in or after quotes too, by RFC 2109 at a comma, in Python at a space. */
const SEPARATORS = /[;,\s"]+/

/** RFC 6265 §4.1.1, in quotes or not: some parsers cut a value off at other characters. */
const VALUE = /^(?:([!#-+\--:<-[\]-~]*)|"([!#-+\--:<-[\]-~]*)")$/

/**
 * A cookie. Of two, APIs take the first or the last; many take off quotes and decode escapes, some "+" as well; so values
 * that some of them take for one are one.
 * @returns spoilt if it is repeated, or if some API may find it under another name or elsewhere in the field
 */
export function readCookie(field: string | null, name: string): Reading {
  if (field === null) return NONE
  if (field.length > MAX_CHARACTERS) return AMBIGUOUS
  const found = cookiesAlike(field, SEPARATORS, name)
  // To PHP, `my sid` is `my_sid`.
  const foundWhole = cookiesAlike(field, /;/, name)
  if (found?.length === 0 && foundWhole?.length === 0) return NONE
  const [cookie, ...others] = field
    .split(';')
    .map((part) => part.trim())
    .filter((part) => part.startsWith(`${name}=`))
  const [, bare, quoted = bare] = VALUE.exec(cookie?.slice(name.length + 1) ?? ' ') ?? []
  if (found?.length !== 1 || foundWhole?.length !== 1 || others.length > 0 || quoted === undefined) return AMBIGUOUS
  return readCookieValue(quoted)
}

/** The cookies that some parser may take for this one; undefined if that cannot be told. */
export function cookiesAlike(field: string, separators: RegExp, name: string): readonly string[] | undefined {
  // A nameless cookie, "=name=value", is one with a name to some.
  const parts = field.split(separators).map((part) => part.trim().replace(/^=+/, ''))
  return findSpellings(parts, name)
}

/** @returns spoilt for what makes no text, and for a signed token that decoders read in different ways */
export function readCookieValue(value: string): Reading {
  try {
    const decoded = decodeURIComponent(value)
    // Express's parser: JSON, of which a string is what the cookie says.
    const text: unknown = decoded.startsWith('j:') ? JSON.parse(decoded.slice(2)) : decoded
    if (typeof text !== 'string') return AMBIGUOUS
    const said = text.trim()
    const isSigned = /^(?:e[wy]|\.e)[^.]*\.[^.]*\./.test(said)
    const canonical = isSigned ? canonicalCredential(said, false) : said
    return canonical === undefined ? AMBIGUOUS : readText(canonical.replaceAll('+', ' '))
  } catch {
    return AMBIGUOUS
  }
}
