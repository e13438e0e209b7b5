import { type ClientRequest, type IncomingMessage, request as startRequest } from 'node:http'
import { PLANTED } from './callers.ts'

let exchanges = 0

/** One request to the gateway, in the hands of a scenario, on a connection of its own. */
export class Exchange {
  readonly id = `exchange-${++exchanges}`
  readonly request: ClientRequest
  /** Rejects if the connection breaks first. */
  readonly response: Promise<IncomingMessage>
  readonly #startMs = performance.now()

  /** @param method with a body for POST, which is then the scenario's to write and end */
  constructor(gateway: URL, path: string, method: 'GET' | 'POST') {
    const headers = {
      authorization: `Bearer ${PLANTED.caller}-${path}`,
      'x-request': this.id,
      'accept-encoding': 'identity',
    }
    this.request = startRequest(new URL(path, gateway).href, { method, headers, agent: false })
    this.response = new Promise((resolve, reject) => {
      this.request.once('response', resolve)
      this.request.on('error', reject)
    })
    // Whoever does not ask for the answer does not care for the error either.
    this.response.catch(() => {})
    if (method === 'GET') this.request.end()
  }

  /** Goes away without a word. A connection that is merely closed might still be read from. */
  leave(): void {
    this.request.socket?.resetAndDestroy()
  }

  /** Reads the answer to its end, or until it breaks off. */
  async read(): Promise<{ status: number; beganMs: number; bytes: number; isWhole: boolean }> {
    const response = await this.response
    const beganMs = performance.now() - this.#startMs
    let bytes = 0
    try {
      for await (const chunk of response) bytes += (chunk as Buffer).length
    } catch {
      // Broken off: `complete` tells.
    }
    return { status: response.statusCode ?? 0, beganMs, bytes, isWhole: response.complete }
  }

  /** Reads so many bytes, or what there is, and leaves. @returns bytes read */
  async readAndLeave(leastBytes: number): Promise<{ status: number; bytes: number }> {
    const response = await this.response
    let bytes = 0
    try {
      for await (const chunk of response) {
        bytes += (chunk as Buffer).length
        if (bytes >= leastBytes) break
      }
    } catch {
      // Broken off: the bytes tell.
    }
    this.leave()
    return { status: response.statusCode ?? 0, bytes }
  }
}
