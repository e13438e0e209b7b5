import type { Pattern } from '../../model/policy.ts'
import { canonicalPattern } from './canonical-path.ts'

const PATTERN_EXPECTED =
  'patterns such as "GET /users/:id, POST /upload/*, OPTIONS *" (a method of HTTP, "*" or nothing for all of them)'

/** Those that Workers know: a request with any other is answered 501 before it gets here. */
const METHODS: ReadonlySet<string> = new Set(
  (
    'GET HEAD POST PUT DELETE PATCH PURGE OPTIONS TRACE COPY LOCK MKCOL MOVE PROPFIND PROPPATCH SEARCH UNLOCK ACL ' +
    'REPORT MKACTIVITY CHECKOUT MERGE NOTIFY SUBSCRIBE UNSUBSCRIBE QUERY'
  ).split(' '),
)

/** What other routers take for a parameter or an expression; here it would be a name that no request has. */
const FOREIGN: readonly (readonly [RegExp, string])[] = [
  [/\/(?:<[^/]*>|\[[^/]*\]|\{[^/]*\}|\$\w+)/, '":name" for one segment, "*" at the end for any number'],
  [/\/[+#](?:\/|$)/, '"*" for one segment, or at the end for any number'],
  [/,\s*(?:\/|[A-Za-z-]+\s)/, 'an item for each pattern'],
]

/**
 * Reads `METHOD /path/:param/*`. The method may be left out or `*` (every method), the path `*` (every path).
 * @returns undefined for anything else
 */
export function parsePattern(text: string): Pattern | undefined {
  const [, name = '*', path] = /^\s*(?:([A-Za-z-]+|\*)\s+)?(\/\S*|\*)\s*$/.exec(text) ?? []
  const method = name.toUpperCase()
  if (path === undefined || (method !== '*' && !METHODS.has(method))) return undefined
  if (path === '*') return { method, path: '/*' }
  if (FOREIGN.some(([sign]) => sign.test(path))) return undefined
  const segments = path
    .replace(/(?<=\/[^/:*]+)\.\*\/?$/, '')
    .split('/')
    .slice(1)
  if (!segments.every((segment) => segment === '*' || /^:\w+$/.test(segment) || /^[^:*?#{}<>\\]*$/.test(segment))) {
    return undefined
  }
  return { method, path: canonicalPattern(path) }
}

/** What to write instead of a text that `parsePattern` refuses. */
export function patternExpected(text: string): string {
  const [, instead] = FOREIGN.find(([sign]) => sign.test(text)) ?? []
  return instead ? `${instead} (a sign that is meant as it stands is escaped, such as "%24" for "$")` : PATTERN_EXPECTED
}

/** Whether some request may match both, whatever the case of its letters. If in doubt, true. */
export function mayOverlap(one: Pattern, other: Pattern): boolean {
  const methods = new Set([one, other].map(({ method }) => (method === 'HEAD' ? 'GET' : method)))
  if (methods.size > 1 && !methods.has('*')) return false
  const [these = [], those = []] = [one, other].map(({ path }) => path.toLowerCase().split('/').slice(1))
  for (let at = 0; at < Math.max(these.length, those.length); at++) {
    const [here, there] = [these[at], those[at]]
    // At the end, "*" stands for any number of segments, and a parameter for an empty one.
    if ((here === '*' && at === these.length - 1) || (there === '*' && at === those.length - 1)) return true
    if (!maySegmentsOverlap(here ?? '', there ?? '')) return false
  }
  return true
}

function maySegmentsOverlap(one: string, other: string): boolean {
  if ([one, other].some((segment) => segment === '*' || segment.startsWith(':'))) return true
  const [stem, otherStem] = [one, other].map((segment) => segment.replace(/\.\*$/, ''))
  if (stem === one && otherStem === other) return one === other
  return one.startsWith(otherStem ?? '') || other.startsWith(stem ?? '')
}
