import type { Pattern } from './pattern.ts'

interface Route<T> {
  readonly method: string
  readonly path: RegExp
  readonly value: T
}

/**
 * Finds everything whose pattern matches a request. Routers of web frameworks look for one handler, and their answers
 * differ where patterns overlap; a policy must not be lost to another one.
 */
export class PatternRouter<T> {
  readonly #routes: Route<T>[] = []

  add({ method, path: text }: Pattern, value: T, ignoresCase = false): void {
    const path = toRegExp(text, ignoresCase)
    this.#routes.push({ method, path, value })
    // HEAD does all that GET does but send the body (RFC 9110 §9.3.2), so what holds for GET holds for it.
    if (method === 'GET') this.#routes.push({ method: 'HEAD', path, value })
  }

  /** The values in the order in which they were added. @param path a canonical path */
  match(method: string, path: string): T[] {
    return this.#routes
      .filter((route) => (route.method === '*' || route.method === method) && route.path.test(path))
      .map(({ value }) => value)
  }
}

function toRegExp(path: string, ignoresCase: boolean): RegExp {
  const segments = path.split('/').slice(1)
  const isOpen = segments.at(-1) === '*'
  const closed = isOpen ? segments.slice(0, -1) : segments
  const source = closed.map((segment) => `/${isWild(segment) ? '[^/]+' : escaped(segment)}`).join('')
  return new RegExp(`^${source}${isOpen ? '(?:/.*)?' : ''}$`, ignoresCase ? 'is' : 's')
}

function isWild(segment: string): boolean {
  return segment === '*' || segment.startsWith(':')
}

function escaped(segment: string): string {
  // Escaped in a pattern, so as not to be wildcards.
  const text = segment.replaceAll('%3A', ':').replaceAll('%2A', '*')
  return text.replace(/[$()*+.?[\]^{|}\\-]/g, '\\$&')
}
