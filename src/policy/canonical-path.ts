/**
 * The one spelling of a path that patterns are matched against, so that no other spelling of it escapes a policy:
 * unreserved characters decoded once (RFC 3986 §6.2.2.2), escapes in capitals, dot segments, empty segments and a
 * trailing slash gone. Case is kept, and so is `%2F`: to an origin both may tell resources apart.
 * @param url an absolute URL
 */
export function canonicalPath(url: string): string {
  // The URL parser has resolved dot segments, `%2e` and backslashes among them.
  const { pathname } = new URL(url)
  if (!/%|\/\/|.\/$/.test(pathname)) return pathname
  const path = pathname.replace(/%([0-9a-f]{2})?/gi, decodeUnreserved).replace(/\/{2,}/g, '/')
  return path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path
}

function decodeUnreserved(triplet: string, hex: string | undefined): string {
  // A percent sign that begins no triplet stands for itself: left as it is, it could begin one with what is decoded.
  if (hex === undefined) return '%25'
  const character = String.fromCharCode(Number.parseInt(hex, 16))
  return /[\w.~-]/.test(character) ? character : triplet.toUpperCase()
}
