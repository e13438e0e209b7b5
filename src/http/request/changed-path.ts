/** Paths that a URL parser reads differently from routers on Node. */
import type { RequestPath } from './target.ts'

/**
 * A URL parser changes or cuts off these in a path, while routers on Node may not, or do so differently: dot segments,
 * backslashes, fragments, characters beyond ASCII, and anything before a path.
 */
const CHANGED = /^[^/]|(?:\/|^)(?:\.|%2e){1,2}(?:\/|$)|[\\#]|[^!-~]/i

/** Marks a path as ambiguous if a URL parser has changed it. @param url as the client has sent it */
export function markIfChanged(path: RequestPath, url = ''): RequestPath {
  const query = url.indexOf('?')
  if (!CHANGED.test(query < 0 ? url : url.slice(0, query))) return path
  const decoded = path.ambiguity?.decoded ?? path.canonical
  return { ...path, ambiguity: { prefix: '/', mayGoUp: true, decoded } }
}
