import { TextLru } from '../runtime/lru.ts'
import { canonicalPath } from './policy/canonical-path.ts'

/** The target of a request (RFC 9112 §3.2), taken apart. */
export interface RequestTarget {
  /** With the port, unless it is the scheme's default. */
  readonly host: string
  /** `http` or `https`. */
  readonly scheme: string
  /** As the client wrote them, dot segments resolved. */
  readonly pathAndQuery: string
  readonly path: RequestPath
}

/** Why a request has no target: its URL cannot be parsed, e.g. for a malformed Host, or is too long to be read or passed on. */
export type NoTarget = 'malformed' | 'too-long'

export type TargetReader = (url: string) => RequestTarget | NoTarget

/**
 * As long a request line as Apache takes, and about as long as nginx does: the runtime copies and parses a URL several
 * times.
 */
const MAX_CHARACTERS = 8_190
/** As long as a host and a path on Linux may be: it is read whole, a query only if a policy needs it. */
const MAX_PATH_CHARACTERS = 4_500
/** As many as PHP, Tomcat, Django and `qs` take: the runtime takes a URL apart to send it, and each costs time. */
const MAX_PARAMETERS = 1_000

export function createTargetReader(readPath: PathReader): TargetReader {
  const remembered = new TextLru<RequestTarget>()
  return function targetOf(url) {
    const known = remembered.get(url)
    if (known) return known
    if (isTooLong(url)) return 'too-long'
    // Node 20 has no URL.parse.
    if (!URL.canParse(url)) return 'malformed'
    const { host, protocol, pathname, search } = new URL(url)
    const target = { host, scheme: protocol.slice(0, -1), pathAndQuery: pathname + search, path: readPath(pathname) }
    remembered.set(url, target)
    return target
  }
}

function isTooLong(url: string): boolean {
  // Then it has no room for so many parameters either.
  if (url.length <= MAX_PARAMETERS) return false
  const query = url.indexOf('?')
  return (
    url.length > MAX_CHARACTERS ||
    (query < 0 ? url.length : query) > MAX_PATH_CHARACTERS ||
    hasMore(url, '&', MAX_PARAMETERS - 1, query)
  )
}

/** Whether a text has a character more than `times` times after a position. */
function hasMore(text: string, sign: string, times: number, from: number): boolean {
  let at = from
  for (let i = 0; i <= times; i++) {
    at = text.indexOf(sign, at + 1)
    if (at < 0) return false
  }
  return true
}

/** What the path of a request means to the API behind. */
export interface RequestPath {
  /** In its one spelling: what policies, exemptions and Sluice's own paths go by. */
  readonly canonical: string
  /** The same with a slash at its end, if it had one: to some APIs, the last parameter is then empty. */
  readonly withSlash: string
  /** What APIs may differ about; undefined if nothing. */
  readonly ambiguity: Ambiguity | undefined
}

export interface Ambiguity {
  /** What the path begins with for every API, canonical: whole segments, and after the last slash a part of one. */
  readonly prefix: string
  /** Whether some API may find a `..` in it, and so leave a base path. */
  readonly mayGoUp: boolean
  /** Decoded as often as any API might. */
  readonly decoded: string
}

/** What some APIs act upon and others keep as data, as `canonicalPath` spells it. */
export const PATH_LITERALS = ['%2F', '%5C', '%25', '%3F', '%23', ';'] as const
export type PathLiteral = (typeof PATH_LITERALS)[number]

/** @param pathname as the URL parser leaves it: with dot segments resolved */
export type PathReader = (pathname: string) => RequestPath

const CONTROL = '%(?:[01][\\dA-F]|7F)'
/** Letters of more than one byte, where the rest of the path is not UTF-8. */
const BEYOND_ASCII = /%[89A-F]/
/** Letters in more bytes than they need: `%C0%AE` was a dot to old servers. */
const OVERLONG = /%(?:C[01]|E0%[89]|F0%8|F[89A-F])/
const ESCAPE = /%(?:[\da-f]{2}|u[\da-f]{4})/i
const MOST_DECODINGS = 3
/** `..` between separators, with the control characters and spaces that some API may drop. */
const UP = /[/\\][\0-\x20\x7f]*\.[\0-\x20\x7f]*\.(?:$|[\0-\x20\x7f/\\;?#])/

/**
 * Makes a reader that tells what APIs may differ about: whether to decode a path before it is split, twice, or not at
 * all; what ends it, or a segment; what an empty segment is. Only the API knows which is right, and there are too many
 * readings to try each: the reader tells what all of them have in common.
 * @param literals what this API is known to keep as data
 */
export function createPathReader(literals: readonly PathLiteral[] = []): PathReader {
  const signs = [...PATH_LITERALS.filter((sign) => !literals.includes(sign)), CONTROL].join('|')
  // Some cut off spaces at the end, and some before that a slash, or a dot with its slash.
  const sign = new RegExp(`${signs}|(?<!%20[/.]*)%20(?:%20|[/.])*(?=$|${signs})`)

  return function readPath(pathname) {
    const canonical = canonicalPath(pathname)
    const withSlash = canonical !== '/' && pathname.endsWith('/') ? `${canonical}/` : canonical
    if (!/[;%]|\/\//.test(pathname)) return { canonical, withSlash, ambiguity: undefined }
    const isText = isUtf8(canonical)
    const decoded = fullyDecoded(canonical)
    const mayGoUp = UP.test(decoded) || ESCAPE.test(decoded) || (!isText && OVERLONG.test(canonical))
    if (mayGoUp) return { canonical, withSlash, ambiguity: { prefix: '/', mayGoUp, decoded } }

    const prefixes = [
      beforeEmptySegment(pathname),
      before(sign, canonical),
      isText ? undefined : before(BEYOND_ASCII, canonical),
    ]
    const [prefix] = prefixes.filter((prefix) => prefix !== undefined).toSorted((a, b) => a.length - b.length)
    return { canonical, withSlash, ambiguity: prefix === undefined ? undefined : { prefix, mayGoUp, decoded } }
  }
}

function beforeEmptySegment(pathname: string): string | undefined {
  const at = pathname.indexOf('//')
  if (at < 0) return undefined
  return at === 0 ? '/' : `${canonicalPath(pathname.slice(0, at))}/`
}

function before(sign: RegExp, canonical: string): string | undefined {
  const at = canonical.search(sign)
  // A lone dot is a segment of its own to APIs that end it here.
  return at < 0 ? undefined : canonical.slice(0, at).replace(/\/\.$/, '/')
}

function fullyDecoded(path: string): string {
  let decoded = path
  // Deprecated for what it is good for here: it decodes each byte by itself, and `%u002E` as well.
  for (let i = 0; i < MOST_DECODINGS && decoded.includes('%'); i++) decoded = unescape(decoded)
  return decoded
}

function isUtf8(path: string): boolean {
  try {
    // The result is used: a call whose result is not, some bundlers leave out, and what it throws with it.
    return decodeURIComponent(path).length > 0
  } catch {
    return false
  }
}
