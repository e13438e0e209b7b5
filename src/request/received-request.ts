/** What is read of a request to decide it. A `Request` as Cloudflare hands it over is one. */
export interface ReceivedRequest {
  readonly method: string
  readonly url: string
  readonly headers: Pick<Headers, 'get' | 'has'>
  readonly body: unknown
  /** A copy, whose body can be read without taking it from the other readers. */
  clone(): { readonly body: ReadableStream<Uint8Array> | null }
  /** The caller's address, as far as it can be believed; null if unknown. Default: what `CF-Connecting-IP` says. */
  readonly address?: string | null
  /**
   * The fields that a parser of the application has already read from the body, or a promise of them. Null if the body
   * was read, but its content is unknown. If left out, the body can still be read.
   */
  readonly parsedBody?: unknown
  /** What Cloudflare knows of where it comes from; left out elsewhere. */
  readonly cf?: unknown
  /** What the application's own functions are asked about. */
  readonly context?: unknown
}
