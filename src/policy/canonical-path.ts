/**
 * The one spelling of a path, so that another spelling of it is not another path: what may stand for itself in a
 * segment (RFC 3986 §3.3) decoded once, everything else escaped, in capitals; empty segments and a trailing slash gone.
 * Case is kept, and so is `%2F`: to an origin both may tell resources apart.
 * @param pathname as the URL parser leaves it, which has resolved dot segments, `%2e` and backslashes among them
 */
export function canonicalPath(pathname: string): string {
  if (/^(?:\/|(?:\/[\w.~!$&'()*+,;=:@-]+)+)$/.test(pathname)) return pathname
  return tidied(respelt(pathname, (sign) => ESCAPES.get(sign)))
}

/** The same for the path of a pattern, in which a decoded ":", "*", "," "$" or "+" would mean something else. */
export function canonicalPattern(path: string): string {
  const { pathname } = new URL(`http://pattern${path}`)
  return tidied(respelt(pathname, (sign) => (/^%(?:3a|2[abc4])$/i.test(sign) ? sign.toUpperCase() : ESCAPES.get(sign))))
}

/**
 * A path for comparison whatever the case of its letters, those beyond ASCII too: `ſ` is "S", as some APIs have it.
 * @param path canonical
 */
export function foldCase(path: string): string {
  return decodeLetters(path).toLowerCase().toUpperCase().replaceAll('\u0307', '')
}

const PERCENT = 0x25
/** By code: whether a character is left as it is. */
const IS_PLAIN: readonly boolean[] = [...Array(0x80).keys()].map((code) =>
  /[\w.~!$&'()*+,;=:@/-]/.test(String.fromCharCode(code)),
)

/** How each escape is written, whatever the case of its digits: what may stand for itself does. */
const ESCAPES: ReadonlyMap<string, string> = new Map(
  [...Array(0x100).keys()].flatMap((code) => {
    const [high = '', low = ''] = code.toString(16).padStart(2, '0')
    const character = String.fromCharCode(code)
    const spelt = /[\w.~!$&'()*+,;=:@-]/.test(character) ? character : `%${high}${low}`.toUpperCase()
    const cases = [high, high.toUpperCase()].flatMap((first) => [first + low, first + low.toUpperCase()])
    return cases.map((digits) => [`%${digits}`, spelt] as const)
  }),
)

function tidied(path: string): string {
  const single = path.replace(/\/{2,}/g, '/')
  return single.length > 1 && single.endsWith('/') ? single.slice(0, -1) : single
}

/** In one pass without an expression, for a path that is all escapes: strangers send it. */
function respelt(pathname: string, spell: (sign: string) => string | undefined): string {
  let text = ''
  let from = 0
  for (let at = 0; at < pathname.length; at++) {
    const code = pathname.charCodeAt(at)
    if (IS_PLAIN[code]) continue
    const sign = code === PERCENT ? pathname.slice(at, at + 3) : ''
    const spelt = sign && spell(sign)
    // A percent sign that begins no escape stands for itself: left as it is, it could begin one with what is decoded.
    text += pathname.slice(from, at) + (spelt || encodeURIComponent(pathname[at] as string))
    if (spelt) at += 2
    from = at + 1
  }
  return text + pathname.slice(from)
}

/** What is not UTF-8 is left as it is, all of it: an error for each such letter would take long. */
function decodeLetters(path: string): string {
  try {
    return path.replace(/(?:%[89A-F][\dA-F])+/g, decodeURIComponent)
  } catch {
    return path
  }
}
