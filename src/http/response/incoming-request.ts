/** A request of the runtime, read as seldom as possible. */
import type { AbortableRequest } from './exchange.ts'

/** The limit of Apache and Tomcat: each header costs time to copy. */
const MAX_FIELDS = 100

/** Reads names from the runtime once: reading a missing header costs as much as reading a present one. */
export class RequestHeaders implements Pick<Headers, 'get' | 'has'> {
  /** Lower case. */
  readonly names: ReadonlySet<string>
  readonly raw: Headers

  constructor(raw: Headers, names: ReadonlySet<string>) {
    this.raw = raw
    this.names = names
  }

  static read(raw: Headers): RequestHeaders | undefined {
    const names = new Set<string>()
    // Stops early if there are more, because each becomes a string.
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

/** A request of the runtime, whose method and URL are read only once, because each read costs a call. */
export class IncomingRequest<Fields extends AbortableRequest['headers'] = RequestHeaders> implements AbortableRequest {
  readonly raw: Request
  readonly headers: Fields
  readonly method: string
  readonly url: string

  constructor(raw: Request, headers: Fields) {
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
