import { type LRU, lru } from 'tiny-lru'
import { type RequestPath, readPath } from '../policy/request-path.ts'

/** Targets that are remembered: a busy one is not taken apart anew for each request. */
const MAX_REMEMBERED = 1_000
/** Longer ones are read each time, and doubtful ones, which have many readings, so that what is remembered stays small. */
const MAX_REMEMBERED_CHARACTERS = 1_000

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
  const remembered: LRU<Target> = lru(MAX_REMEMBERED)
  return function targetOf(url) {
    const known = remembered.get(url)
    if (known) return known
    const parsed = URL.parse(url)
    if (!parsed) return undefined
    const { host, protocol, pathname, search } = parsed
    const path = readPath(pathname)
    const target = { host, scheme: protocol.slice(0, -1), pathAndQuery: pathname + search, path }
    if (url.length <= MAX_REMEMBERED_CHARACTERS && !path.isDoubtful) remembered.set(url, target)
    return target
  }
}
