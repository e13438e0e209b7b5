/**
 * The one spelling of a path, so that another spelling of it is not another path. Characters that may stand for
 * themselves in a segment (RFC 3986 §3.3) are decoded once, all others are escaped, in capitals; empty segments and a
 * trailing slash are removed. Case is kept, and so is `%2F`: either may tell resources apart.
 * @param pathname as the URL parser leaves it, which has resolved dot segments, `%2e` and backslashes among them
 */
export function canonicalPath(pathname: string): string {
  if (/^(?:\/|(?:\/[\w.~!$&'()*+,;=:@-]+)+)$/.test(pathname)) return pathname
  return normalizeSegments(decodeEscapes(pathname, OF_PATHS))
}

/** The same for the path of a pattern, in which a decoded ":", "*", "," "$" or "+" would mean something else. */
export function canonicalPattern(path: string): string {
  const { pathname } = new URL(`http://pattern${path}`)
  return normalizeSegments(decodeEscapes(pathname, OF_PATTERNS))
}

/**
 * A path to compare regardless of case, beyond ASCII too: `ſ` is "S", as it is to some APIs.
 * @param path canonical
 */
export function foldCase(path: string): string {
  return decodeLetters(path).toLowerCase().toUpperCase().replaceAll('\u0307', '')
}

const ASCII = Array.from({ length: 0x80 }, (_, code) => String.fromCharCode(code))
/** By code: how a character is written; undefined if it is left as it is. */
const CHARACTERS = ASCII.map((character) =>
  /[\w.~!$&'()*+,;=:@/-]/.test(character) ? undefined : encodeURIComponent(character),
)
/** By code: the value of a hexadecimal digit. */
const DIGITS = ASCII.map((character) => (/[\da-f]/i.test(character) ? Number.parseInt(character, 16) : undefined))
/** By code: how an escape is written. What may stand for itself does. */
const OF_PATHS = Array.from({ length: 0x100 }, (_, code) => {
  const character = ASCII[code] ?? ''
  return /[\w.~!$&'()*+,;=:@-]/.test(character) ? character : matchEscape(code)
})
const OF_PATTERNS = OF_PATHS.map((spelt, code) => (/^[:*,$+]$/.test(spelt) ? matchEscape(code) : spelt))

function matchEscape(code: number): string {
  return `%${code.toString(16).padStart(2, '0').toUpperCase()}`
}

/**
 * In one pass, without an expression or a string for each escape: strangers send paths that hold nothing else.
 * @param escapes how each is written, by its code
 */
function decodeEscapes(pathname: string, escapes: readonly string[]): string {
  let text = ''
  let from = 0
  for (let at = 0; at < pathname.length; at++) {
    const code = pathname.charCodeAt(at)
    let spelt = CHARACTERS[code]
    if (spelt === undefined) continue
    if (from < at) text += pathname.slice(from, at)
    // A percent sign that begins no escape stands for itself. Left as it is, it could form one with what is decoded
    // after it.
    if (spelt === '%25') {
      const high = DIGITS[pathname.charCodeAt(at + 1)]
      const low = DIGITS[pathname.charCodeAt(at + 2)]
      if (high !== undefined && low !== undefined) {
        spelt = escapes[16 * high + low] as string
        at += 2
      }
    }
    text += spelt
    from = at + 1
  }
  return from === 0 ? pathname : text + pathname.slice(from)
}

function normalizeSegments(path: string): string {
  const single = path.replace(/\/{2,}/g, '/')
  return single.length > 1 && single.endsWith('/') ? single.slice(0, -1) : single
}

/** If some of it is not UTF-8, all of it is left as it is: an error for each such letter would take long. */
function decodeLetters(path: string): string {
  try {
    return path.replace(/(?:%[89A-F][\dA-F])+/g, decodeURIComponent)
  } catch {
    return path
  }
}
