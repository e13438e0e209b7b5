/**
 * Spells a path in one way. Characters that may stand for themselves in a segment (RFC 3986 §3.3) are decoded once, all
 * others are escaped, in capitals; empty segments and a trailing slash are removed. Case and `%2F` stay: either may
 * distinguish resources.
 * @param pathname comes from the URL parser, which has resolved dot segments, `%2e` and backslashes among them
 */
export function canonicalizePath(pathname: string): string {
  if (/^(?:\/|(?:\/[\w.~!$&'()*+,;=:@-]+)+)$/.test(pathname)) return pathname
  return normalizeSegments(decodeEscapes(pathname, OF_PATHS))
}

/** A pattern keeps escapes where a decoded ":", "*", ",", "$" or "+" would mean something else. */
export function canonicalizePattern(path: string): string {
  const { pathname } = new URL(`http://pattern${path}`)
  return normalizeSegments(decodeEscapes(pathname, OF_PATTERNS))
}

/** Folds a canonical path, beyond ASCII too: `ſ` is "S", as it is to some APIs. */
export function foldCase(path: string): string {
  return decodeLetters(path).toLowerCase().toUpperCase().replaceAll('\u0307', '')
}

const ASCII = Array.from({ length: 0x80 }, (_, code) => String.fromCharCode(code))
/** The spelling of a character by its code; undefined if it stays. */
const CHARACTERS = ASCII.map((character) =>
  /[\w.~!$&'()*+,;=:@/-]/.test(character) ? undefined : encodeURIComponent(character),
)
/** The value of a hexadecimal digit by its code. */
const DIGITS = ASCII.map((character) => (/[\da-f]/i.test(character) ? Number.parseInt(character, 16) : undefined))
/** The spelling of an escape by its code: the character itself where that is allowed. */
const OF_PATHS = Array.from({ length: 0x100 }, (_, code) => {
  const character = ASCII[code] ?? ''
  return /[\w.~!$&'()*+,;=:@-]/.test(character) ? character : matchEscape(code)
})
const OF_PATTERNS = OF_PATHS.map((spelling, code) => (/^[:*,$+]$/.test(spelling) ? matchEscape(code) : spelling))

function matchEscape(code: number): string {
  return `%${code.toString(16).padStart(2, '0').toUpperCase()}`
}

/** Uses neither an expression nor a string for each escape: attackers send paths of nothing else. */
function decodeEscapes(pathname: string, escapes: readonly string[]): string {
  let text = ''
  let from = 0
  for (let at = 0; at < pathname.length; at++) {
    const code = pathname.charCodeAt(at)
    let spelling = CHARACTERS[code]
    if (spelling === undefined) continue
    if (from < at) text += pathname.slice(from, at)
    // A percent sign that begins no escape is escaped itself: it could form one with a character decoded after it.
    if (spelling === '%25') {
      const high = DIGITS[pathname.charCodeAt(at + 1)]
      const low = DIGITS[pathname.charCodeAt(at + 2)]
      if (high !== undefined && low !== undefined) {
        spelling = escapes[16 * high + low] as string
        at += 2
      }
    }
    text += spelling
    from = at + 1
  }
  return from === 0 ? pathname : text + pathname.slice(from)
}

function normalizeSegments(path: string): string {
  const single = path.replace(/\/{2,}/g, '/')
  return single.length > 1 && single.endsWith('/') ? single.slice(0, -1) : single
}

/** A path that is not all UTF-8 stays as it is: an error for each such letter would take long. */
function decodeLetters(path: string): string {
  try {
    // All at once, but for escapes of ASCII.
    return decodeURIComponent(path.replace(/%(?=[0-7])/g, '%25'))
  } catch {
    return path
  }
}
