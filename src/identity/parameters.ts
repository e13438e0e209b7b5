import { NONE, type Reading, readText, SPOILT } from './reading.ts'

/** PHP and `qs` leave out what comes after so many. */
const MAX_PARAMETERS = 1_000

/**
 * A parameter of a query or an urlencoded form. APIs differ about which of several counts, and a caller must not be able
 * to add one that counts here alone, or there.
 * @returns spoilt if it is repeated, or if some API may find it under another name: PHP, Rack and `qs` take `api.key`,
 * `api key`, `api[key`, `[api_key]` or `api_key[]` for `api_key`, ASP.NET ignores case; or where `;` separates parameters
 */
export function readParameter(text: string, name: string): Reading {
  const byAmpersand = alike(text.split('&'), name)
  const bySemicolon = text.includes(';') ? alike(text.split(/[&;]/), name) : byAmpersand
  if (byAmpersand === undefined || bySemicolon === undefined) return SPOILT
  const [found, ...others] = byAmpersand
  if (!found) return bySemicolon.length === 0 ? NONE : SPOILT
  const [spelling, value] = found
  const isOne = others.length === 0 && bySemicolon.length === 1 && bySemicolon[0]?.[1] === value
  return isOne && spelling === name ? readText(value) : SPOILT
}

/** Names and values of the parameters that some API may take for this one; undefined if there are too many to say. */
function alike(parts: readonly string[], name: string): readonly (readonly [string, string])[] | undefined {
  if (parts.length > MAX_PARAMETERS) return undefined
  const folded = fold(name)
  const isAlike = (other: string) =>
    fold(other) === folded || (other.includes('[') && fold(other.replace(INDEX, '$1')) === folded)
  return [...new URLSearchParams(`?${parts.join('&')}`)].filter(([other]) => isAlike(other))
}

/** As in `key[0]` and `[key][0]`, which make a list of one; some languages take that for the one. */
const INDEX = /^([[\]]*[^[]*)\[.*$/s

/** Letters and digits in one case; what follows a NUL is cut off by PHP. */
function fold(name: string): string {
  return (name.split('\0', 1)[0] ?? '').replace(/[^\p{L}\p{N}]/gu, '').toLowerCase()
}
