import { METHOD_NAME_ALL } from 'hono/router'
import { TrieRouter } from 'hono/router/trie-router'
import type { Pattern } from './pattern.ts'

/** Finds everything whose pattern matches a request, by Hono's own router. */
export class PatternRouter<T> {
  readonly #router = new TrieRouter<T>()

  add({ method, path }: Pattern, value: T): void {
    this.#router.add(method === '*' ? METHOD_NAME_ALL : method, path, value)
    // HEAD does all that GET does but send the body (RFC 9110 §9.3.2), so what holds for GET holds for it.
    if (method === 'GET') this.#router.add('HEAD', path, value)
  }

  /** @param path a canonical path */
  match(method: string, path: string): T[] {
    return this.#router.match(method, path)[0].map(([value]) => value)
  }
}
