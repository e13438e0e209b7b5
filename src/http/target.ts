import { type RequestPath, readPath } from '../policy/request-path.ts'
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

/** @returns undefined for what is no URL: the Host of a request may make it that */
export type TargetReader = (url: string) => Target | undefined

export function createTargetReader(): TargetReader {
  const remembered = new Remembered<Target>()
  return function targetOf(url) {
    const known = remembered.get(url)
    if (known) return known
    const parsed = URL.parse(url)
    if (!parsed) return undefined
    const { host, protocol, pathname, search } = parsed
    const path = readPath(pathname)
    const target = { host, scheme: protocol.slice(0, -1), pathAndQuery: pathname + search, path }
    // A doubtful path has many readings: strangers could make what is kept large by them.
    if (!path.isDoubtful) remembered.set(url, target)
    return target
  }
}
