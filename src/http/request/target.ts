/** Reads the target of a request, and where APIs may disagree about its path. */
import { TextLru } from '../../core/runtime/lru.ts'
import { canonicalizePath } from './policy/canonical-path.ts'

/** The parts of a request's target (RFC 9112 §3.2). */
export interface RequestTarget {
  /** Includes the port, unless it is the scheme's default. */
  readonly host: string
  readonly scheme: string
  /** Unchanged but for resolved dot segments. */
  readonly pathAndQuery: string
  readonly path: RequestPath
}

/** The URL cannot be parsed, e.g. for a malformed Host, or is too long to be read or forwarded. */
export type NoTarget = 'malformed' | 'too-long'

export type TargetReader = (url: string) => RequestTarget | NoTarget

/** Apache takes as long a request line, and nginx about that: the runtime copies and parses a URL several times. */
const MAX_CHARACTERS = 8_190
/** A path on Linux may be as long. Paths are always read, queries only if a policy needs them. */
const MAX_PATH_CHARACTERS = 4_500
/** PHP, Tomcat, Django and `qs` take as many: each costs time when the runtime sends the URL. */
const MAX_PARAMETERS = 1_000

export function createTargetReader(readPath: PathReader): TargetReader {
  const cache = new TextLru<RequestTarget>()
  return function readTarget(url) {
    const known = cache.get(url)
    if (known) return known
    if (isTooLong(url)) return 'too-long'
    // Node 20 has no URL.parse.
    if (!URL.canParse(url)) return 'malformed'
    const { host, protocol, pathname, search } = new URL(url)
    const target = { host, scheme: protocol.slice(0, -1), pathAndQuery: pathname + search, path: readPath(pathname) }
    cache.set(url, target)
    return target
  }
}

function isTooLong(url: string): boolean {
  // A short URL has no room for so many parameters either.
  if (url.length <= MAX_PARAMETERS) return false
  const query = url.indexOf('?')
  const path = url.indexOf('/', url.indexOf('//') + 2)
  return (
    url.length > MAX_CHARACTERS ||
    (query < 0 ? url.length : query) - path > MAX_PATH_CHARACTERS ||
    (query >= 0 && url.slice(query).split('&', MAX_PARAMETERS + 1).length > MAX_PARAMETERS)
  )
}

export interface RequestPath {
  /** The one spelling that policies, exemptions and Sluice's own paths are matched against. */
  readonly canonical: string
  /** Keeps a slash at the end: to some APIs, the last parameter is then empty. */
  readonly withSlash: string
  /** Undefined if all APIs read the path alike. */
  readonly ambiguity: Ambiguity | undefined
}

export interface Ambiguity {
  /** The canonical beginning that all APIs read: whole segments, and after the last slash a part of one. */
  readonly prefix: string
  /** Some API may find a `..` in it, and so leave a base path. */
  readonly mayGoUp: boolean
  /** The path, decoded as often as any API might. */
  readonly decoded: string
}

/** Characters that some APIs act upon and others keep as data, as `canonicalizePath` spells them. */
export const PATH_LITERALS = ['%2F', '%5C', '%25', '%3F', '%23', ';'] as const
export type PathLiteral = (typeof PATH_LITERALS)[number]

/** @param pathname comes from the URL parser, which has resolved dot segments */
export type PathReader = (pathname: string) => RequestPath

const CONTROL = '%(?:[01][\\dA-F]|7F)'
/** Letters of more than one byte, where the rest of the path is not UTF-8. */
const BEYOND_ASCII = /%[89A-F]/
/** Letters in more bytes than they need: `%C0%AE` was a dot to old servers. */
const OVERLONG = /%(?:C[01]|E0%[89]|F0%8|F[89A-F])/
const ESCAPE = /%(?:[\da-f]{2}|u[\da-f]{4})/i
const MAX_DECODINGS = 3
/** `..` between separators, with the control characters and spaces that some API may drop. */
const UP = /[/\\][\0-\x20\x7f]*\.[\0-\x20\x7f]*\.(?:$|[\0-\x20\x7f/\\;?#])/

/**
 * Makes a reader that reports ambiguity. APIs decode a path before it is split, twice, or not at all, and differ about
 * the end of a path or segment, and about empty segments: the reader finds what all readings have in common.
 * @param literals the characters that this API keeps as data
 */
export function createPathReader(literals: readonly PathLiteral[] = []): PathReader {
  const signs = [...PATH_LITERALS.filter((sign) => !literals.includes(sign)), CONTROL].join('|')
  // Some cut off spaces at the end, and some before that a slash, or a dot with its slash.
  const sign = new RegExp(`${signs}|(?<!%20[/.]*)%20(?:%20|[/.])*(?=$|${signs})`)

  return function readPath(pathname) {
    const canonical = canonicalizePath(pathname)
    const withSlash = canonical !== '/' && pathname.endsWith('/') ? `${canonical}/` : canonical
    const mayDiffer = /[;%]|\/\//.test(pathname)
    return { canonical, withSlash, ambiguity: mayDiffer ? findAmbiguity(pathname, canonical) : undefined }
  }

  function findAmbiguity(pathname: string, canonical: string): Ambiguity | undefined {
    const isText = isUtf8(canonical)
    const decoded = decodeFully(canonical)
    const mayGoUp = UP.test(decoded) || ESCAPE.test(decoded) || (!isText && OVERLONG.test(canonical))
    if (mayGoUp) return { prefix: '/', mayGoUp, decoded }

    const prefixes = [
      cutAtEmptySegment(pathname),
      cutAt(sign, canonical),
      isText ? undefined : cutAt(BEYOND_ASCII, canonical),
    ]
    const [prefix] = prefixes.filter((prefix) => prefix !== undefined).toSorted((a, b) => a.length - b.length)
    return prefix === undefined ? undefined : { prefix, mayGoUp, decoded }
  }
}

function cutAtEmptySegment(pathname: string): string | undefined {
  const at = pathname.indexOf('//')
  if (at < 0) return undefined
  return at === 0 ? '/' : `${canonicalizePath(pathname.slice(0, at))}/`
}

function cutAt(sign: RegExp, canonical: string): string | undefined {
  const at = canonical.search(sign)
  // A lone dot is a segment of its own to APIs that end it here.
  return at < 0 ? undefined : canonical.slice(0, at).replace(/\/\.$/, '/')
}

function decodeFully(path: string): string {
  let decoded = path
  // The deprecated `unescape` decodes each byte by itself, and `%u002E` as well.
  for (let i = 0; i < MAX_DECODINGS && decoded.includes('%'); i++) decoded = unescape(decoded)
  return decoded
}

function isUtf8(path: string): boolean {
  try {
    // Some bundlers remove a call whose result is unused, and what it throws with it.
    return decodeURIComponent(path).length > 0
  } catch {
    return false
  }
}
