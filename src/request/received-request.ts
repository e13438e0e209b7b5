/** What is read of a request to decide it. A `Request` as Cloudflare hands it over is one. */
export interface ReceivedRequest {
  readonly method: string
  readonly url: string
  readonly headers: Pick<Headers, 'get' | 'has'>
  readonly body: unknown
  /** A copy, whose body can be read without taking it from the other readers. */
  clone(): { readonly body: ReadableStream<Uint8Array> | null }
  /** Whose it is, as far as that can be believed; null if that is unknown. Left out, it is as `CF-Connecting-IP` says. */
  readonly address?: string | null
  /**
   * What a parser of the application has made of the body already: its fields, or a promise of them. Null if the body was
   * read, and it is not known what was in it. Left out, the body can still be read.
   */
  readonly parsedBody?: unknown
  /** What the application's own functions are asked about. */
  readonly context?: unknown
}
