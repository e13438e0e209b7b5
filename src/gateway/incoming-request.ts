import type { AbortableRequest } from '../http/protect.ts'

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

/** A request as the runtime hands it over. What is asked for more than once is read from it only once. */
export class IncomingRequest implements AbortableRequest {
  readonly raw: Request
  readonly headers: RequestHeaders
  readonly method: string
  readonly url: string

  constructor(raw: Request, headers: RequestHeaders) {
    this.raw = raw
    this.headers = headers
    this.method = raw.method
    this.url = raw.url
  }

  get body(): Request['body'] {
    return this.raw.body
  }

  get signal(): AbortSignal {
    return this.raw.signal
  }

  get cf(): unknown {
    return this.raw.cf
  }

  clone(): Request {
    return this.raw.clone()
  }
}
