import { canonicalPath } from './canonical-path.ts'

/** What the path of a request may mean to the API behind. */
export interface RequestPath {
  /** In its one spelling: what a careful API reads, and what exemptions and Sluice's own paths go by. */
  readonly canonical: string
  /** Whatever an API may take it for, the canonical path first: what policies go by. */
  readonly readings: readonly string[]
  /** The reading that the most spellings share. */
  readonly resource: string
  /** Whether APIs may differ about it: nothing is exempt by such a path. */
  readonly isDoubtful: boolean
}

/** As they are left by `canonicalPath`: signs that some APIs act upon, and others do not. */
const ACTED_UPON = /;|%(?:25|2F|5C|[01][0-9A-F]|7F)/

const SLASH = /%2F/g
const SLASH_OR_BACKSLASH = /%2F|%5C/g

/**
 * Reads the path of a request as APIs do. They differ about escaped slashes and backslashes, `;parameters` of a segment
 * (Tomcat, Spring), a NUL, and a path that begins with two slashes, whose first segment
 * `new URL(path, base)` takes for a host. A policy must hold for all these readings: which one is right only the API knows.
 * @param pathname as the URL parser leaves it: with dot segments resolved
 */
export function readPath(pathname: string): RequestPath {
  const path = canonicalPath(pathname)
  const isDoubtful = pathname.startsWith('//') || ACTED_UPON.test(path) || !isUtf8(path)
  if (!isDoubtful) return { canonical: path, readings: [path], resource: path, isDoubtful }

  // Each step adds to what is there, in the order in which an API might take them.
  let readings = new Set([pathname])
  const orAlso = (step: (text: string) => string) => {
    readings = new Set([...readings].flatMap((text) => [text, step(text)]))
  }
  orAlso(withoutHost)
  orAlso(withoutParameters)
  readings = new Set([...readings].map(canonicalPath))
  orAlso(beforeNul)
  orAlso(withoutParameters)
  orAlso((text) => text.replace(SLASH, '/'))
  orAlso((text) => text.replace(SLASH_OR_BACKSLASH, '/'))
  orAlso(withoutParameters)
  const resource = resolved(withoutParameters(beforeNul(path).replace(SLASH_OR_BACKSLASH, '/')))
  return { canonical: path, readings: [...new Set([path, ...[...readings].map(resolved)])], resource, isDoubtful }
}

function withoutHost(pathname: string): string {
  return pathname.replace(/^\/{2,}[^/]*/, '') || '/'
}

function withoutParameters(path: string): string {
  return path.replace(/;[^/]*/g, '')
}

function beforeNul(path: string): string {
  return path.replace(/%00.*/, '')
}

/** Without the dot segments and the empty ones that have come to light. */
function resolved(path: string): string {
  if (!/\/(?:\/|\.{1,2}(?:\/|$))|\/$/.test(path)) return path
  const segments: string[] = []
  for (const segment of path.split('/')) {
    if (segment === '..') segments.pop()
    else if (segment !== '' && segment !== '.') segments.push(segment)
  }
  return `/${segments.join('/')}`
}

/** Others can be read in more than one way: `%C0%AF` was a slash to servers of old. */
function isUtf8(path: string): boolean {
  if (!path.includes('%')) return true
  try {
    decodeURIComponent(path)
    return true
  } catch {
    return false
  }
}
