import type { Pattern } from '../../model/policy.ts'
import { foldCase } from './canonical-path.ts'

interface Route<T> {
  readonly method: string
  readonly path: RegExp
  /** What a path must have in each segment; undefined: anything. */
  readonly segments: readonly (Segment | undefined)[]
  /** Whether more may follow. */
  readonly isOpen: boolean
  readonly ignoresCase: boolean
  readonly value: T
}

interface Segment {
  readonly text: string
  /** Whether a suffix, such as ".json", may follow. */
  readonly hasSuffix: boolean
}

/**
 * Finds everything whose pattern matches a request. Routers of web frameworks look for one handler, and differ where
 * patterns overlap; here, no policy may hide another one.
 */
export class PatternRouter<T> {
  readonly #routes: Route<T>[] = []
  #ignoresCase = false

  add({ method, path }: Pattern, value: T, ignoresCase = false): void {
    const route = { method, ...compile(ignoresCase ? foldCase(path) : path), ignoresCase, value }
    this.#ignoresCase ||= ignoresCase
    this.#routes.push(route)
    // HEAD does all that GET does except send the body (RFC 9110 §9.3.2), so what holds for GET holds for it.
    if (method === 'GET') this.#routes.push({ ...route, method: 'HEAD' })
  }

  /** The values in the order in which they were added. @param path a canonical path, with or without a slash at its end */
  match(method: string, path: string): T[] {
    const folded = this.#ignoresCase ? foldCase(path) : path
    const values: T[] = []
    for (const route of this.#routes) {
      if (isAbout(route, method) && route.path.test(route.ignoresCase ? folded : path)) values.push(route.value)
    }
    return values
  }

  /**
   * The values of the patterns that match some path with this beginning. @param prefix whole segments, and a part of
   * one
   */
  matchSomeOf(method: string, prefix: string): T[] {
    const segments = prefix.split('/').slice(1)
    const folded = this.#ignoresCase ? foldCase(prefix).split('/').slice(1) : segments
    return this.#routes
      .filter((route) => isAbout(route, method) && canBegin(route, route.ignoresCase ? folded : segments))
      .map(({ value }) => value)
  }
}

function isAbout({ method }: Route<unknown>, asked: string): boolean {
  return method === '*' || method === asked
}

function compile(path: string): Pick<Route<unknown>, 'path' | 'segments' | 'isOpen'> {
  const texts = path.split('/').slice(1)
  const isOpen = texts.at(-1) === '*'
  const segments = (isOpen ? texts.slice(0, -1) : texts).map(toSegment)
  const source = segments.map((segment) => `/${segment ? toSource(segment) : '[^/]+'}`).join('')
  // Some routers take the nothing after a trailing slash for a parameter.
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

/** Whether it matches some path that begins with these segments, the last of which may be a part of one. */
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
