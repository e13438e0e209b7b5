/** Remembers which resource, such as GitHub's `search`, a server named for which routes. */

/** A path's first segments say what it is about; those that follow are mostly names. */
const MAX_SEGMENTS = 3
const MAX_ROUTES = 1_000

export class ServerResources {
  /** Keyed by a method and the beginning of a path; the most recently learned is the last. */
  readonly #names = new Map<string, string>()

  /** @returns true if that is news */
  learn(route: string, name: string): boolean {
    if (this.#names.get(route) === name && this.find(route) === name) return false
    for (const start of listStarts(route)) {
      this.#names.delete(start)
      this.#names.set(start, name)
    }
    for (const start of this.#names.keys()) if (this.#names.size > MAX_ROUTES) this.#names.delete(start)
    return true
  }

  /** @returns the name for the route that has most in common with this one; undefined if none has */
  find(route: string): string | undefined {
    if (this.#names.size === 0) return undefined
    return listStarts(route)
      .map((start) => this.#names.get(start))
      .findLast((name) => name !== undefined)
  }
}

/** @param route such as `GET /repos/octocat`: with `GET /repos` and more, from the shortest to the longest */
function listStarts(route: string): string[] {
  const segments = route.split('/', MAX_SEGMENTS + 1)
  return segments.slice(1).map((_, index) => segments.slice(0, index + 2).join('/'))
}
