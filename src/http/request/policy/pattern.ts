/** Matches methods and paths against patterns. */
import type { Pattern } from '../../../core/model/policy.ts'
import { canonicalizePattern, foldCase } from './canonical-path.ts'

const PATTERN_EXPECTED =
  'patterns such as "GET /users/:id, POST /upload/*, OPTIONS *" (a method of HTTP, "*" or nothing for all of them)'

/** Workers answer 501 to any other method. */
const METHODS: ReadonlySet<string> = new Set(
  (
    'GET HEAD POST PUT DELETE PATCH PURGE OPTIONS TRACE COPY LOCK MKCOL MOVE PROPFIND PROPPATCH SEARCH UNLOCK ACL ' +
    'REPORT MKACTIVITY CHECKOUT MERGE NOTIFY SUBSCRIBE UNSUBSCRIBE QUERY'
  ).split(' '),
)

/** Syntax of other routers for parameters and expressions, which no path would ever match here. */
const FOREIGN: readonly (readonly [RegExp, string])[] = [
  [/\/(?:<[^/]*>|\[[^/]*\]|\{[^/]*\}|\$\w+)/, '":name" for one segment, "*" at the end for any number'],
  [/\/[+#](?:\/|$)/, '"*" for one segment, or at the end for any number'],
  [/,\s*(?:\/|[A-Za-z-]+\s)/, 'an item for each pattern'],
]

/** Reads `METHOD /path/:param/*`. The method may be omitted or `*`, the path `*`. */
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
  return { method, path: canonicalizePattern(path) }
}

export function describeExpectedPattern(text: string): string {
  const [, instead] = FOREIGN.find(([sign]) => sign.test(text)) ?? []
  return instead ? `${instead} (a sign that is meant as it stands is escaped, such as "%24" for "$")` : PATTERN_EXPECTED
}

/** Tests that a request may match both, whatever the case of its letters. If in doubt, true. */
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

interface Route<T> {
  readonly method: string
  readonly path: RegExp
  /** Undefined: any segment. */
  readonly segments: readonly (Segment | undefined)[]
  /** More segments may follow. */
  readonly isOpen: boolean
  readonly ignoresCase: boolean
  readonly value: T
}

interface Segment {
  readonly text: string
  /** A suffix, such as ".json", may follow. */
  readonly hasSuffix: boolean
}

/** Finds all values whose pattern matches a request. Routers of web frameworks find only one, and differ about which. */
export class PatternRouter<T> {
  readonly #routes: Route<T>[] = []
  #ignoresCase = false

  add({ method, path }: Pattern, value: T, ignoresCase = false): void {
    const route = { method, ...compile(ignoresCase ? foldCase(path) : path), ignoresCase, value }
    this.#ignoresCase ||= ignoresCase
    this.#routes.push(route)
    // HEAD does all that GET does except send the body (RFC 9110 §9.3.2), so patterns of GET match it.
    if (method === 'GET') this.#routes.push({ ...route, method: 'HEAD' })
  }

  /** Keeps the order in which values were added. @param path a canonical path, with or without a slash at its end */
  match(method: string, path: string): T[] {
    const folded = this.#ignoresCase ? foldCase(path) : path
    const values: T[] = []
    for (const route of this.#routes) {
      if (matchesMethod(route, method) && route.path.test(route.ignoresCase ? folded : path)) values.push(route.value)
    }
    return values
  }

  /** Finds values whose pattern matches some path with this beginning. @param prefix whole segments, and a part of one */
  matchSomeOf(method: string, prefix: string): T[] {
    const segments = prefix.split('/').slice(1)
    const folded = this.#ignoresCase ? foldCase(prefix).split('/').slice(1) : segments
    return this.#routes
      .filter((route) => matchesMethod(route, method) && canBegin(route, route.ignoresCase ? folded : segments))
      .map(({ value }) => value)
  }
}

function matchesMethod({ method }: Route<unknown>, given: string): boolean {
  return method === '*' || method === given
}

function compile(path: string): Pick<Route<unknown>, 'path' | 'segments' | 'isOpen'> {
  const texts = path.split('/').slice(1)
  const isOpen = texts.at(-1) === '*'
  const segments = (isOpen ? texts.slice(0, -1) : texts).map(toSegment)
  const source = segments.map((segment) => `/${segment ? toSource(segment) : '[^/]+'}`).join('')
  // To some routers, a trailing slash begins an empty parameter.
  const end = isOpen ? '(?:/.*)?' : '/?'
  return { path: new RegExp(`^${source.replace(/(?<=.)\/\[\^\/\]\+$/, '/[^/]*')}${end}$`, 's'), segments, isOpen }
}

function toSegment(text: string): Segment | undefined {
  if (text === '*' || text.startsWith(':')) return undefined
  const hasSuffix = text.endsWith('.*')
  // Escaped in a pattern, where it would mean something else.
  const own = (hasSuffix ? text.slice(0, -2) : text).replace(/%(?:3A|2[ABC4])/g, decodeURIComponent)
  return { text: own, hasSuffix }
}

function toSource({ text, hasSuffix }: Segment): string {
  return text.replace(/[$()*+.?[\]^{|}\\-]/g, '\\$&') + (hasSuffix ? '(?:\\.[^/]*)?' : '')
}

/** Tests that a route matches some path that begins with these segments, the last of which may be a part of one. */
function canBegin({ segments, isOpen }: Route<unknown>, given: readonly string[]): boolean {
  const part = given.at(-1) ?? ''
  const whole = given.length - 1
  if (!isOpen && whole > segments.length) return false
  const isPossible = segments.slice(0, whole).every((segment, index) => {
    const text = given[index] ?? ''
    return !segment || text === segment.text || (segment.hasSuffix && text.startsWith(`${segment.text}.`))
  })
  // A suffix that is cut off after a slash may take the slash with it.
  if (!isPossible || part === '') return isPossible
  const next = segments[whole]
  if (whole >= segments.length) return isOpen
  return !next || next.text.startsWith(part) || (next.hasSuffix && part.startsWith(`${next.text}.`))
}
