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

/** The same for the path of a pattern, in which a decoded ":" or "*" would be taken for a wildcard. */
export function canonicalPattern(path: string): string {
  const { pathname } = new URL(`http://pattern${path}`)
  const respelt = pathname.replace(ESCAPED, (text, hex) =>
    /^%(?:3a|2a)$/i.test(text) ? text.toUpperCase() : respell(text, hex),
  )
  return tidied(respelt)
}

/** An escape, a percent sign that begins none, or a character that should be escaped. */
const ESCAPED = /%([0-9a-f]{2})?|[^\w.~!$&'()*+,;=:@/-]/gi

function respell(text: string, hex: string | undefined): string {
  // A percent sign that begins no escape stands for itself: left as it is, it could begin one with what is decoded.
  if (hex === undefined) return text === '%' ? '%25' : encodeURIComponent(text)
  const character = String.fromCharCode(Number.parseInt(hex, 16))
  return /[\w.~!$&'()*+,;=:@-]/.test(character) ? character : text.toUpperCase()
}

function tidied(path: string): string {
  const single = path.replace(/\/{2,}/g, '/')
  return single.length > 1 && single.endsWith('/') ? single.slice(0, -1) : single
}
