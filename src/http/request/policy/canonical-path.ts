/**
 * Spells a path in one way. Characters that may stand for themselves in a segment (RFC 3986 §3.3) are decoded once, all
 * others are escaped, in capitals; empty segments and a trailing slash are removed. Case and `%2F` stay: either may
 * distinguish resources.
 * @param pathname comes from the URL parser, which has resolved dot segments, `%2e` and backslashes among them
 */
export function canonicalizePath(pathname: string): string {
  if (/^(?:\/|(?:\/[\w.~!$&'()*+,;=:@-]+)+)$/.test(pathname)) return pathname
  return normalizeSegments(decodeEscapes(pathname, 'ofPaths'))
}

/** A pattern keeps escapes where a decoded ":", "*", ",", "$" or "+" would mean something else. */
export function canonicalizePattern(path: string): string {
  const { pathname } = new URL(`http://pattern${path}`)
  return normalizeSegments(decodeEscapes(pathname, 'ofPatterns'))
}

/** Folds a canonical path, beyond ASCII too: `ſ` is "S", as it is to some APIs. */
export function foldCase(path: string): string {
  return decodeLetters(path).toLowerCase().toUpperCase().replaceAll('\u0307', '')
}

let spellings: ReturnType<typeof createSpellings> | undefined

/** Few paths need them, so that they are not made when an isolate starts. */
function createSpellings() {
  const ascii = Array.from({ length: 0x80 }, (_, code) => String.fromCharCode(code))
  const ofPaths = Array.from({ length: 0x100 }, (_, code) => {
    const character = ascii[code] ?? ''
    return /[\w.~!$&'()*+,;=:@-]/.test(character) ? character : matchEscape(code)
  })
  return {
    /** The spelling of a character by its code; undefined if it stays. */
    characters: ascii.map((character) =>
      /[\w.~!$&'()*+,;=:@/-]/.test(character) ? undefined : encodeURIComponent(character),
    ),
    /** The value of a hexadecimal digit by its code. */
    digits: ascii.map((character) => (/[\da-f]/i.test(character) ? Number.parseInt(character, 16) : undefined)),
    /** The spelling of an escape by its code: the character itself where that is allowed. */
    ofPaths,
    ofPatterns: ofPaths.map((spelling, code) => (/^[:*,$+]$/.test(spelling) ? matchEscape(code) : spelling)),
  }
}

function matchEscape(code: number): string {
  return `%${code.toString(16).padStart(2, '0').toUpperCase()}`
}

/** Uses neither an expression nor a string for each escape: attackers send paths of nothing else. */
function decodeEscapes(pathname: string, kind: 'ofPaths' | 'ofPatterns'): string {
  spellings ??= createSpellings()
  const { characters, digits, [kind]: escapes } = spellings
  let text = ''
  let from = 0
  for (let at = 0; at < pathname.length; at++) {
    const code = pathname.charCodeAt(at)
    let spelling = characters[code]
    if (spelling === undefined) continue
    if (from < at) text += pathname.slice(from, at)
    // A percent sign that begins no escape is escaped itself: it could form one with a character decoded after it.
    if (spelling === '%25') {
      const high = digits[pathname.charCodeAt(at + 1)]
      const low = digits[pathname.charCodeAt(at + 2)]
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
