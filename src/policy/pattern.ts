import { canonicalPath } from './canonical-path.ts'

/** Which requests a policy or an exemption is about. */
export interface Pattern {
  /** In capitals; `*` for every method. */
  readonly method: string
  /** Canonical, with `:name` for one segment and `*` for one or, at the end, any number of segments. */
  readonly path: string
}

export const PATTERN_EXPECTED = 'patterns such as "GET /users/:id, POST /upload/*, OPTIONS *"'

/**
 * Reads `METHOD /path/:param/*`. The method may be left out or `*` (every method), the path `*` (every path).
 * @returns undefined for anything else
 */
export function parsePattern(text: string): Pattern | undefined {
  const [, method = '*', path] = /^\s*(?:([A-Za-z]+|\*)\s+)?(\/\S*|\*)\s*$/.exec(text) ?? []
  if (path === undefined) return undefined
  if (path === '*') return { method: method.toUpperCase(), path: '/*' }
  const segments = path.split('/').slice(1)
  if (!segments.every((segment) => segment === '*' || /^:\w+$/.test(segment) || /^[^:*?#{}\\]*$/.test(segment))) {
    return undefined
  }
  return { method: method.toUpperCase(), path: canonicalPath(`http://pattern${path}`) }
}
