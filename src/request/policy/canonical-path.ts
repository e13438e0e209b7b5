/**
 * Spells a path in one way. Characters that may stand for themselves in a segment (RFC 3986 §3.3) are decoded once, all
 * others are escaped, in capitals; empty segments and a trailing slash are removed. Case and `%2F` stay: either may
 * distinguish resources.
 * @param pathname comes from the URL parser, which has resolved dot segments, `%2e` and backslashes among them
 */
export function canonicalizePath(pathname: string): string {
  if (/^(?:\/|(?:\/[\w.~!$&'()*+,;=:@-]+)+)$/.test(pathname)) return pathname
  return normalizeSegments(decodeEscapes(pathname, PLAIN_IN_PATHS))
}

/** A pattern keeps escapes where a decoded ":", "*", ",", "$" or "+" would mean something else. */
export function canonicalizePattern(path: string): string {
  const { pathname } = new URL(`http://pattern${path}`)
  return normalizeSegments(decodeEscapes(pathname, PLAIN_IN_PATTERNS))
}

/** Folds a canonical path, beyond ASCII too: `ſ` is "S", as it is to some APIs. */
export function foldCase(path: string): string {
  return decodeLetters(path).toLowerCase().toUpperCase().replaceAll('\u0307', '')
}

/** Matches an escape, and what must be one. A percent sign alone could form one with a character decoded after it. */
const TO_SPELL = /%[\da-f]{2}|[^\w.~!$&'()*+,;=:@/\x80-\uffff-]/gi
const PLAIN_IN_PATHS = /[\w.~!$&'()*+,;=:@-]/
const PLAIN_IN_PATTERNS = /[\w.~!&'();=@-]/

/** @param plain matches a character that is decoded */
function decodeEscapes(pathname: string, plain: RegExp): string {
  return pathname.replace(TO_SPELL, (given) => {
    const code = given.length === 1 ? given.charCodeAt(0) : Number.parseInt(given.slice(1), 16)
    const character = String.fromCharCode(code)
    const isPlain = given.length > 1 && plain.test(character)
    return isPlain ? character : `%${code.toString(16).padStart(2, '0').toUpperCase()}`
  })
}

function normalizeSegments(path: string): string {
  const single = path.replace(/\/{2,}/g, '/')
  return single.length > 1 && single.endsWith('/') ? single.slice(0, -1) : single
}

/** A path that is not all UTF-8 stays as it is: an error for each such letter would take long. */
function decodeLetters(path: string): string {
  try {
    return path.replace(/(?:%[89A-F][\dA-F])+/g, decodeURIComponent)
  } catch {
    return path
  }
}
