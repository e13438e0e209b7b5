import type { AbortableRequest } from '../http/protect.ts'
import type { RequestHeaders } from './request-headers.ts'

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
