import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

export interface RawAnswer {
  readonly status: number
  /** Names in lower case; of a repeated field, all values. */
  readonly headers: ReadonlyMap<string, readonly string[]>
}

/** Sends requests as they are, one after the other, on a connection that is kept while the server keeps it. */
export class RawConnection {
  readonly #host: string
  readonly #port: number
  #socket: Socket | undefined
  #received = ''

  constructor({ hostname, port }: URL) {
    this.#host = hostname
    this.#port = Number(port)
  }

  /** @throws Error if the server closes before it has answered */
  async call(bytes: string, hasBody: boolean): Promise<RawAnswer> {
    const socket = this.#socket ?? (await this.#open())
    socket.write(Buffer.from(bytes, 'latin1'))
    const answer = await this.#readHead()
    const isKept = await this.#skipBody(answer, hasBody)
    if (!isKept || this.#received !== '' || answer.headers.get('connection')?.includes('close')) this.end()
    return answer
  }

  end(): void {
    this.#socket?.destroy()
    this.#socket = undefined
    this.#received = ''
  }

  async #open(): Promise<Socket> {
    const socket = connect(this.#port, this.#host)
    await once(socket, 'connect')
    socket.setEncoding('latin1')
    // It is seen when the next request is to be answered.
    socket.on('error', () => {})
    this.#socket = socket
    return socket
  }

  /** Waits for more. @returns whether there will be any */
  async #readMore(): Promise<boolean> {
    const socket = this.#socket
    if (!socket || socket.destroyed || socket.readableEnded) return false
    const chunk: string | null = socket.read()
    if (chunk !== null) {
      this.#received += chunk
      return true
    }
    return new Promise((resolve) => {
      const done = (value: boolean) => {
        socket.off('readable', onReadable)
        socket.off('end', onEnd)
        socket.off('close', onEnd)
        resolve(value)
      }
      const onReadable = () => {
        const chunk: string | null = socket.read()
        if (chunk === null) return
        this.#received += chunk
        done(true)
      }
      const onEnd = () => done(false)
      socket.on('readable', onReadable)
      socket.on('end', onEnd)
      socket.on('close', onEnd)
    })
  }

  async #readHead(): Promise<RawAnswer> {
    let end = this.#received.indexOf('\r\n\r\n')
    while (end < 0) {
      if (!(await this.#readMore())) {
        this.end()
        throw new Error('the server closed the connection before it answered')
      }
      end = this.#received.indexOf('\r\n\r\n')
    }
    const [line = '', ...fields] = this.#received.slice(0, end).split('\r\n')
    this.#received = this.#received.slice(end + 4)
    const headers = new Map<string, string[]>()
    for (const field of fields) {
      const colon = field.indexOf(':')
      const name = field.slice(0, colon).toLowerCase()
      headers.set(name, [...(headers.get(name) ?? []), field.slice(colon + 1).trim()])
    }
    return { status: Number(line.split(' ')[1]), headers }
  }

  /** @returns whether the end of the body could be told, so that the connection can be used again */
  async #skipBody({ status, headers }: RawAnswer, hasBody: boolean): Promise<boolean> {
    if (!hasBody || status === 204 || status === 304) return true
    if (headers.has('transfer-encoding')) {
      while (!this.#received.endsWith('0\r\n\r\n')) if (!(await this.#readMore())) return false
      this.#received = ''
      return true
    }
    const length = Number(headers.get('content-length')?.[0] ?? Number.NaN)
    if (Number.isNaN(length)) return false
    while (this.#received.length < length) if (!(await this.#readMore())) return false
    this.#received = this.#received.slice(length)
    return true
  }
}
