/**
 * The one spelling of a path, so that another spelling of it is not another path: what may stand for itself in a
 * segment (RFC 3986 §3.3) decoded once, everything else escaped, in capitals; empty segments and a trailing slash gone.
 * Case is kept, and so is `%2F`: to an origin both may tell resources apart.
 * @param pathname as the URL parser leaves it, which has resolved dot segments, `%2e` and backslashes among them
 */
export function canonicalPath(pathname: string): string {
  if (/^(?:\/|(?:\/[\w.~!$&'()*+,;=:@-]+)+)$/.test(pathname)) return pathname
  return tidied(pathname.replace(ESCAPED, respell))
}

/** The same for the path of a pattern, in which a decoded ":", "*", "," "$" or "+" would mean something else. */
export function canonicalPattern(path: string): string {
  const { pathname } = new URL(`http://pattern${path}`)
  return tidied(
    pathname.replace(ESCAPED, (text) => (/^%(?:3a|2[abc4])$/i.test(text) ? text.toUpperCase() : respell(text))),
  )
}

/**
 * A path for comparison whatever the case of its letters, those beyond ASCII too: `ſ` is "S", as some APIs have it.
 * @param path canonical
 */
export function foldCase(path: string): string {
  return decodeLetters(path).toLowerCase().toUpperCase().replaceAll('\u0307', '')
}

/** An escape, a percent sign that begins none, or a character that should be escaped. */
const ESCAPED = /%(?:[0-9a-f]{2})?|[^\w.~!$&'()*+,;=:@/-]/gi

/** What may stand for itself, by its escape. */
const DECODED: ReadonlyMap<string, string> = new Map(
  [...Array(0x80).keys()]
    .map((code) => [`%${code.toString(16).toUpperCase()}`, String.fromCharCode(code)] as const)
    .filter(([, character]) => /[\w.~!$&'()*+,;=:@-]/.test(character)),
)

function respell(text: string): string {
  // A percent sign that begins no escape stands for itself: left as it is, it could begin one with what is decoded.
  if (text === '%') return '%25'
  if (!text.startsWith('%')) return encodeURIComponent(text)
  const spelt = text.toUpperCase()
  return DECODED.get(spelt) ?? spelt
}

function tidied(path: string): string {
  const single = path.replace(/\/{2,}/g, '/')
  return single.length > 1 && single.endsWith('/') ? single.slice(0, -1) : single
}

/** What is not UTF-8 is left as it is, all of it: an error for each such letter would take long. */
function decodeLetters(path: string): string {
  try {
    return path.replace(/(?:%[89A-F][\dA-F])+/g, decodeURIComponent)
  } catch {
    return path
  }
}
