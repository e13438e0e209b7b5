import type { PathReader, RequestPath } from '../policy/request-path.ts'
import { Remembered } from '../remembered.ts'

/** What a request is about (RFC 9112 §3.2), taken apart. */
export interface Target {
  /** With the port, where it is not that of the scheme. */
  readonly host: string
  /** `http` or `https`. */
  readonly scheme: string
  /** As the client wrote them, dot segments resolved. */
  readonly pathAndQuery: string
  readonly path: RequestPath
}

/** Why a request has no target: its URL cannot be parsed, e.g. for a malformed Host, or is too long to be read. */
export type NoTarget = 'malformed' | 'too-long'

export type TargetReader = (url: string) => Target | NoTarget

/** As much as RFC 9110 §4.1 asks for, and a host. Reading takes time by the length, whoever sends it. */
const MAX_CHARACTERS = 8_500

export function createTargetReader(readPath: PathReader): TargetReader {
  const remembered = new Remembered<Target>()
  return function targetOf(url) {
    const known = remembered.get(url)
    if (known) return known
    if (url.length > MAX_CHARACTERS) return 'too-long'
    const parsed = URL.parse(url)
    if (!parsed) return 'malformed'
    const { host, protocol, pathname, search } = parsed
    const target = { host, scheme: protocol.slice(0, -1), pathAndQuery: pathname + search, path: readPath(pathname) }
    remembered.set(url, target)
    return target
  }
}
