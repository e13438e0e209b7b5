/** As many as Apache and Tomcat take: each costs time to copy, whoever sends it. */
const MAX_FIELDS = 100

/**
 * The fields of a request. Their names are read from the runtime once: to ask it for a field that is not there costs as
 * much as for one that is.
 */
export class RequestHeaders implements Pick<Headers, 'get' | 'has'> {
  /** In lower case. */
  readonly names: ReadonlySet<string>
  readonly raw: Headers

  constructor(raw: Headers, names: ReadonlySet<string>) {
    this.raw = raw
    this.names = names
  }

  /** @returns undefined if there are more than 100 */
  static of(raw: Headers): RequestHeaders | undefined {
    const names = new Set<string>()
    // Stops early if there are more, because each of them is made a string.
    for (const name of raw.keys()) if (names.add(name).size > MAX_FIELDS) return undefined
    return new RequestHeaders(raw, names)
  }

  has(name: string): boolean {
    return this.names.has(name.toLowerCase())
  }

  get(name: string): string | null {
    return this.has(name) ? this.raw.get(name) : null
  }
}
