/** Follows a response of Node until nobody works on it, for all middleware that it passes. */
import { Buffer } from 'node:buffer'
import type { ServerResponse } from 'node:http'
import type { Http2ServerResponse } from 'node:http2'
import type { AnyIncoming } from './node-request.ts'

/** Responses of HTTP/1.1 and HTTP/2 have the same methods. */
export type AnyResponse = ServerResponse | Http2ServerResponse

/** Sees the chunks that a handler writes, whether its client is still there or not. */
export function followBody(response: AnyResponse, see: (chunk: Uint8Array) => void): void {
  // The `end()` of HTTP/2 calls `write()`.
  const names = 'stream' in response ? (['write'] as const) : (['write', 'end'] as const)
  for (const name of names) {
    const original = response[name] as (...args: unknown[]) => never
    response[name] = (...args: unknown[]) => {
      const [chunk, encoding] = args
      if (typeof chunk === 'string')
        see(Buffer.from(chunk, typeof encoding === 'string' ? (encoding as BufferEncoding) : 'utf8'))
      else if (chunk instanceof Uint8Array) see(chunk)
      return original.apply(response, args)
    }
  }
}

type HeaderValue = number | string | readonly string[]

/** Calls a listener before the head of a response is written, with all headers in the response. */
export function followHead(response: ServerResponse, listener: () => void): void {
  const writeHead = response.writeHead as (...args: readonly unknown[]) => ServerResponse
  let isWritten = false
  response.writeHead = (status: number, ...rest: unknown[]) => {
    const [message] = rest
    const given = typeof message === 'string' ? rest[1] : (rest[1] ?? message)
    response.statusCode = status
    const names = new Set<string>()
    for (const [name, value] of listHeaders(given)) {
      // As Node does.
      if (!name) continue
      const isRepeated = names.size === names.add(name.toLowerCase()).size
      response.setHeader(name, isRepeated ? [response.getHeader(name) ?? [], value].flat().map(String) : value)
    }
    if (!isWritten) listener()
    isWritten = true
    return writeHead.call(response, status, ...(typeof message === 'string' ? [message] : []))
  }
}

/** Lists headers in each form that `writeHead()` takes: an object, pairs, or names and values in turn. */
function listHeaders(headers: unknown): readonly (readonly [name: string, value: HeaderValue])[] {
  if (!Array.isArray(headers)) return Object.entries(headers ?? {})
  if (Array.isArray(headers[0])) return headers
  return headers.flatMap((name, index) => (index % 2 === 0 ? [[name, headers[index + 1]]] : []))
}

const FOLLOWED = new WeakMap<AnyResponse, FollowedResponse>()

/** All middleware of a response share its listeners: Node warns of more than ten. */
export class FollowedResponse {
  readonly #request: AnyIncoming
  readonly #response: ServerResponse
  #isClosed: boolean
  /** The handler has returned a promise, which has settled. */
  #isSettled = false
  #isResetByHandler = false
  readonly #counted: object[] = []
  readonly #onClose: (() => void)[] = []
  readonly #onHandled: ((isAnswered: boolean) => void)[] = []

  static follow(request: AnyIncoming, response: AnyResponse): FollowedResponse {
    const known = FOLLOWED.get(response) ?? new FollowedResponse(request, response)
    FOLLOWED.set(response, known)
    return known
  }

  private constructor(request: AnyIncoming, response: AnyResponse) {
    this.#request = request
    this.#response = response as ServerResponse
    this.#isClosed = 'stream' in response ? response.stream.closed : response.closed
    if ('stream' in response) this.#watchStream(response.stream)
    const close = () => {
      this.#isClosed = true
      for (const listener of this.#onClose.splice(0)) listener()
    }
    // Where no connection is behind it, as on AWS Lambda, a response only finishes.
    for (const event of ['finish', 'close']) this.#response.once(event, close)
  }

  /** Calls a listener when the response has ended or its client has gone, which may have been before. */
  onClose(listener: () => void): void {
    if (this.#isClosed) listener()
    else this.#onClose.push(listener)
  }

  /** Remembers that a limiter has counted the request. @returns true if it had before */
  wasCountedBy(limiter: object): boolean {
    return this.#counted.includes(limiter) || this.#counted.push(limiter) === 0
  }

  /** Creates a signal that aborts when the response has ended or its client has gone. */
  createSignal(): AbortSignal {
    const gone = new AbortController()
    this.onClose(() => gone.abort())
    return gone.signal
  }

  /**
   * Calls a listener when the handler of a response whose client went before the head has ended. Handlers work on: until
   * they end the response or pipe into it, or their promise settles.
   * @param listener gets true if the handler ended the response
   */
  onHandled(listener: (isAnswered: boolean) => void): void {
    const response = this.#response
    // What is piped into a closed response stops, and nobody ends the response.
    if (this.#isSettled || this.isDestroyedByHandler() || response.listenerCount('unpipe') > 0) {
      listener(false)
      return
    }
    if (this.#onHandled.push(listener) > 1) return
    const { end } = response
    const onEnd = () => {
      response.end = end
      response.off('pipe', onEnd)
      this.#handle(true)
    }
    response.once('pipe', onEnd)
    response.end = function releaseAndEnd(...args: unknown[]) {
      onEnd()
      return end.apply(response, args as never)
    } as typeof end
  }

  /**
   * Calls a listener once when a handler has ended whose client went after the head: it ends the response, its promise
   * settles, or the time is over, as nobody can tell if it works on.
   * @param listener gets true if the time is over
   */
  onEnded(maxMs: number, listener: (isLate: boolean) => void): void {
    let timer: NodeJS.Timeout | undefined
    const endOnce = (isLate: boolean) => {
      if (timer === undefined) return
      clearTimeout(timer)
      timer = undefined
      listener(isLate)
    }
    timer = setTimeout(() => endOnce(true), maxMs).unref()
    this.onHandled(() => endOnce(false))
  }

  /** Follows a handler that returns a promise. @returns what it returned, whose failure is still to be handled */
  readonly followHandler = (handled: unknown): unknown => {
    if (!(handled instanceof Promise)) return handled
    return handled.finally(() => {
      this.#isSettled = true
      this.#handle(false)
    })
  }

  #handle(isAnswered: boolean): void {
    for (const listener of this.#onHandled.splice(0)) listener(isAnswered)
  }

  /** The handler, or the server, has destroyed the response, its request or its connection, which a client had not left. */
  isDestroyedByHandler(): boolean {
    if ('stream' in this.#request) return this.#isResetByHandler
    const { socket } = this.#request
    return socket?.destroyed === true && !socket.readableEnded && !socket.errored
  }

  /**
   * A stream that its client resets, or whose connection is lost, is closed before Node destroys it. It then has a code,
   * which one whose session the handler destroys has not.
   */
  #watchStream(stream: Http2ServerResponse['stream']): void {
    stream.once('aborted', () => {
      this.#isResetByHandler ||= stream.session?.destroyed === true && stream.rstCode === 0
    })
    for (const name of ['close', 'destroy'] as const) {
      const original = stream[name] as (...args: unknown[]) => never
      stream[name] = (...args: unknown[]) => {
        this.#isResetByHandler ||= !stream.closed && stream.session?.destroyed === false
        return original.apply(stream, args)
      }
    }
  }
}
