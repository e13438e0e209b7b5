/** Readings of a request: a value, none, or one that is ambiguous. */
import type { Reading } from '../../../core/model/identity-source.ts'

export const NONE = { kind: 'none' } as const satisfies Reading
export const AMBIGUOUS = { kind: 'ambiguous' } as const satisfies Reading

/** nginx and Apache take headers of this length. A longer text is not read. */
export const MAX_CHARACTERS = 8_190

/**
 * Reads text that occurs once. Characters that some APIs trim are trimmed. Those at which some cut the text off make it
 * ambiguous, and so does U+FFFD, which stands for invalid UTF-8.
 */
export function readText(text: string): Reading {
  if (text.length > MAX_CHARACTERS) return AMBIGUOUS
  const value = text.trim()
  if (value === '') return NONE
  return /[\p{Cc}\ufffd]/u.test(value) ? AMBIGUOUS : { kind: 'value', value }
}

/** A comma may join several headers, of which APIs take the first or the last. */
export function readField(field: string | null): Reading {
  if (field === null) return NONE
  return field.includes(',') ? AMBIGUOUS : readText(field)
}

/** PHP and `qs` ignore parameters after this many. */
const MAX_PARAMETERS = 1_000

/**
 * Reads a parameter of a query or an urlencoded form. APIs differ about which of several counts, and a caller must not be
 * able to add one that counts only here, or only there.
 * @returns ambiguous if it is repeated, or if some API may find it under another name: PHP, Rack and `qs` take `api.key`,
 * `api key`, `api[key`, `[api_key]` or `api_key[]` for `api_key`, ASP.NET ignores case; or where `;` separates parameters
 */
export function readParameter(text: string, name: string): Reading {
  const byAmpersand = findSpellings(text.split('&', MAX_PARAMETERS + 1), name)
  const bySemicolon = text.includes(';') ? findSpellings(text.split(/[&;]/, MAX_PARAMETERS + 1), name) : byAmpersand
  if (byAmpersand?.length === 0 && bySemicolon?.length === 0) return NONE
  const [part = ''] = byAmpersand ?? []
  if (byAmpersand?.length !== 1 || bySemicolon?.length !== 1 || bySemicolon[0] !== part) return AMBIGUOUS
  const [[spelling, value] = []] = new URLSearchParams(`?${part}`)
  return spelling === name && value !== undefined && !/%u/i.test(part) ? readText(value) : AMBIGUOUS
}

export function readQueryParameter(url: string, name: string): Reading {
  return url.includes('?') ? readParameter(new URL(url).search.slice(1), name) : NONE
}

/** ASP.NET and other decoders take `%u0041` for `%41`. */
export function decodeU(text: string): string {
  return text.replace(/%u00/gi, '%')
}

/** Finds the parameters that some API may take for this one; undefined if there are too many to read. */
export function findSpellings(parts: readonly string[], name: string): readonly string[] | undefined {
  if (parts.length > MAX_PARAMETERS) return undefined
  const given = parts.filter((part) => part !== '')
  // All names at once, one on each line: one by one, a thousand would take a millisecond.
  const all = given.map((part) => part.split('=', 1)[0]).join('\n')
  const names = new URLSearchParams(`?=${decodeU(all.replaceAll('&', '.'))}`).get('') ?? ''
  const [folded, folded2, own] = [fold(names), fold(names.replace(INDEXES, '$1')), fold(name)[0]]
  if (folded.length !== Math.max(given.length, 1)) return undefined
  return given.filter((_, index) => folded[index] === own || folded2[index] === own)
}

/** `key[0]` and `[key][0]` make a list of one, which some languages take for its element. */
const INDEXES = /(?<![^\n])([[\]]*[^[\n]*)\[[^\n]*/g

/** Keeps letters and digits of each line, in one case. PHP cuts a name off at a NUL. */
function fold(names: string): readonly string[] {
  // The second does the same for ASCII, and takes a third of the time.
  const others = /[\x80-\uffff]/.test(names) ? /[^\p{L}\p{N}\n]+/gu : /[^a-z\d\n]+/g
  return names
    .replace(/\0[^\n]*/g, '')
    .toLowerCase()
    .replace(others, '')
    .split('\n')
}

/** Finds a member of parsed JSON; undefined without one. `length` is none of a list. */
export function findMember(root: unknown, path: readonly string[]): unknown {
  let value = root
  for (const token of path) {
    const isContainer = typeof value === 'object' && value !== null && (!Array.isArray(value) || /^\d+$/.test(token))
    if (!isContainer || !Object.hasOwn(value as object, token)) return undefined
    value = (value as Record<string, unknown>)[token]
  }
  return value
}
