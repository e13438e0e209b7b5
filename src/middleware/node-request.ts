/** A request of Node, as it is decided. */
import { Buffer } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import type { Http2ServerRequest } from 'node:http2'
import { MAX_BODY_BYTES, type ReceivedRequest } from '../http/request/received-request.ts'

/** Express and body parsers add these to a request. */
interface Added {
  /** Prefix of the path under which the application is mounted. */
  readonly baseUrl?: string
  readonly body?: unknown
}

/** A request of HTTP/1.1 or HTTP/2. */
export type AnyIncoming = IncomingMessage | Http2ServerRequest

/** The argument of handlers in a framework: a request of Node, or an object with one, as Fastify's request and Koa's context are. */
export type AnySubject = AnyIncoming | { readonly raw: AnyIncoming } | { readonly req: AnyIncoming }

/** Reads all values of a header: in `headers`, Node joins or drops some, which would hide that they are repeated. */
export function readHeader({ rawHeaders = [], headers, httpVersionMajor }: AnyIncoming, name: string): string | null {
  const lower = name.toLowerCase()
  const values: string[] = []
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.toLowerCase() === lower) values.push(rawHeaders[at + 1] ?? '')
  }
  // Requests that a server did not read, such as those of AWS Lambda or of a test, may have no others.
  if (rawHeaders.length === 0) values.push(...[headers[lower] ?? []].flat())
  if (values.length === 0) return null
  // Clients of HTTP/2 may send each cookie in a header of its own (RFC 9113 §8.2.3).
  return values.join(lower === 'cookie' && httpVersionMajor === 2 ? '; ' : ', ')
}

/** A request of Node. Its body and address are expensive to read, and read only when needed. */
export class NodeRequest<Subject extends AnySubject> implements ReceivedRequest {
  readonly context: readonly [subject: Subject]
  readonly headers: ReceivedRequest['headers']
  /** Its origin is arbitrary: the client's `Host` is of no use here. */
  readonly url: string
  readonly #raw: AnyIncoming
  readonly #readAddress: (subject: Subject, raw: AnyIncoming) => string | null

  /** @param subject what functions of the application get */
  constructor(subject: Subject, raw: AnyIncoming, readAddress: (subject: Subject, raw: AnyIncoming) => string | null) {
    this.context = [subject]
    this.#raw = raw
    this.url = `http://localhost${readUrl(raw)}`
    this.#readAddress = readAddress
    const get = (name: string) => readHeader(raw, name)
    this.headers = { get, has: (name) => get(name) !== null }
  }

  get method(): string {
    return this.#raw.method ?? ''
  }

  get address(): string | null {
    return this.#readAddress(this.context[0], this.#raw)
  }

  get body(): unknown {
    if ('stream' in this.#raw) return this.#raw.stream.endAfterHeaders ? null : this.#raw
    const { 'content-length': length, 'transfer-encoding': coding } = this.#raw.headers
    return coding === undefined && (length === undefined || /^0+$/.test(length)) ? null : this.#raw
  }

  get parsedBody(): unknown {
    const { body } = this.#raw as Added
    if (body !== undefined) return body
    return this.#raw.readableDidRead && !PEEKED.has(this.#raw) ? null : undefined
  }

  clone(maxBytes = MAX_BODY_BYTES): { readonly body: ReadableStream<Uint8Array> } {
    const request = this.#raw
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        // One byte more than the maximum shows that a body is too long.
        const bytes = await peek(request, maxBytes + 1)
        if (bytes.length > 0) controller.enqueue(bytes)
        controller.close()
      },
    })
    return { body }
  }
}

/** Reads path and query as the framework routes them, without the prefix at which a part is mounted. */
function readUrl({ url = '', baseUrl = '' }: AnyIncoming & Added): string {
  if (url.startsWith('/')) return baseUrl + url
  if (!URL.canParse(url)) return `/${url}`
  const { pathname, search } = new URL(url)
  return baseUrl + pathname + search
}

const PEEKED = new WeakMap<AnyIncoming, { readonly bytes: number; readonly start: Promise<Buffer> }>()

/** Reads the first bytes of a body, or a few more; they stay in it for its next reader. */
function peek(request: AnyIncoming, bytes: number): Promise<Buffer> {
  const known = PEEKED.get(request)
  if (known && known.bytes >= bytes) return known.start
  const start = known ? known.start.then(() => readStart(request, bytes)) : readStart(request, bytes)
  PEEKED.set(request, { bytes, start })
  return start
}

function readStart(request: AnyIncoming, bytes: number): Promise<Buffer> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = []
    let length = 0
    const end = () => {
      for (const event of ['readable', 'end', 'close', 'error'])
        request.off(event, event === 'readable' ? onReadable : end)
      const body = Buffer.concat(chunks)
      // In the same turn as the last chunk was read, so that the stream does not end before it is read again.
      if (length > 0 && !request.destroyed) request.unshift(body)
      resolve(body)
    }
    const isComplete = () => ('stream' in request ? request.stream.readableEnded : request.complete)
    // Reading an empty body would end it before its next reader listens.
    const isEmpty = () => isComplete() && request.readableLength === 0
    const onReadable = () => {
      for (let chunk = isEmpty() ? null : request.read(); chunk !== null; chunk = request.read()) {
        chunks.push(chunk)
        length += chunk.length
        if (length >= bytes) break
      }
      if (length >= bytes || isComplete()) end()
    }
    if (isEmpty()) return resolve(Buffer.alloc(0))
    for (const event of ['end', 'close', 'error']) request.on(event, end)
    request.on('readable', onReadable)
  })
}
