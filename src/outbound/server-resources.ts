/** Remembers which resource, such as GitHub's `search`, a server named for which routes. */

/** A path's first segments say what it is about; those that follow are mostly names. */
const MAX_SEGMENTS = 3
const MAX_ROUTES = 1_000

export class ServerResources {
  /** Keyed by a method and the beginning of a path; the most recently learned is the last. */
  readonly #names = new Map<string, string>()

  learn(route: string, name: string): void {
    for (const start of listStarts(route)) {
      this.#names.delete(start)
      this.#names.set(start, name)
    }
    for (const start of this.#names.keys()) if (this.#names.size > MAX_ROUTES) this.#names.delete(start)
  }

  /** @returns the name for the route that has most in common with this one; undefined if none has */
  find(route: string): string | undefined {
    if (this.#names.size === 0) return undefined
    let name: string | undefined
    for (const start of listStarts(route)) name = this.#names.get(start) ?? name
    return name
  }
}

/** @param route such as `GET /repos/octocat`: with `GET /repos` and more, from the shortest to the longest */
function listStarts(route: string): string[] {
  const starts: string[] = []
  const [method = '', ...segments] = route.split('/', MAX_SEGMENTS + 1)
  let start = method
  for (const segment of segments) {
    start += `/${segment}`
    starts.push(start)
  }
  return starts
}
