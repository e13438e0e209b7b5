import { TextLru } from '../runtime/lru.ts'
import type { PathReader, RequestPath } from './policy/request-path.ts'

/** The target of a request (RFC 9112 §3.2), taken apart. */
export interface Target {
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

export type TargetReader = (url: string) => Target | NoTarget

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
  const remembered = new TextLru<Target>()
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
