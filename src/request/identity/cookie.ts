import { canonicalCredential } from './authorization.ts'
import { alike } from './parameters.ts'
import { MAX_CHARACTERS, NONE, type Reading, readText, SPOILT } from './reading.ts'

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
  if (field.length > MAX_CHARACTERS) return SPOILT
  // A nameless cookie, "=name=value", is one with a name to some.
  const parts = field.split(SEPARATORS).map((part) => part.replace(/^=+/, '').replaceAll('&', '.'))
  const found = alike(parts, name)
  if (found?.length === 0) return NONE
  const [cookie, ...others] = field
    .split(';')
    .map((part) => part.trim())
    .filter((part) => part.startsWith(`${name}=`))
  const [, bare, quoted = bare] = VALUE.exec(cookie?.slice(name.length + 1) ?? ' ') ?? []
  if (found?.length !== 1 || others.length > 0 || quoted === undefined) return SPOILT
  const value = canonicalValue(quoted)
  return value === undefined ? SPOILT : readText(value)
}

/** @returns undefined for escapes that make no text, and for a JWT that decoders read in different ways */
function canonicalValue(value: string): string | undefined {
  try {
    const decoded = decodeURIComponent(value)
    const canonical = /^e[wy][^.]*\.[^.]*\./.test(decoded) ? canonicalCredential(decoded, false) : decoded
    return canonical?.replaceAll('+', ' ')
  } catch {
    return undefined
  }
}
