import type { IncomingMessage, ServerResponse } from 'node:http'
import { startUpstream, type Upstream } from '../../support/upstream.ts'

export const HUGE_BYTES = 100 * 1024 * 1024
const CHUNK = Buffer.alloc(64 * 1024, 'x')
const ENDLESS_EVERY_MS = 20

export interface FaultyUpstream extends Upstream {
  /** Time to answer a request that asks for no fault, ms. */
  delayMs: number
  /** Exchanges that have begun and neither ended nor broken off. */
  readonly open: number
  /** When the request with this `X-Request` arrived, by `performance.now()`; undefined if it did not. */
  arrivedMs(id: string): number | undefined
}

/**
 * An API that answers after a while, and that fails at some paths: `/up/hang` never answers, `/up/reset` cuts the
 * connection (`/up/reset-body` in the middle of its answer), `/up/huge` sends 100 MiB, `/up/endless` never ends its
 * body, `/up/slow` answers after a second, `/up/upload` when it has read all of the request.
 */
export async function startFaultyUpstream(): Promise<FaultyUpstream> {
  const arrivals = new Map<string, number>()
  let open = 0
  let delayMs = 0

  const upstream = await startUpstream((request, response) => {
    open++
    response.once('close', () => open--)
    arrivals.set(String(request.headers['x-request']), performance.now())
    request.resume()
    answer(request, response, delayMs)
  })
  return {
    ...upstream,
    get delayMs() {
      return delayMs
    },
    set delayMs(ms) {
      delayMs = ms
    },
    get open() {
      return open
    },
    arrivedMs: (id) => arrivals.get(id),
  }
}

function answer(request: IncomingMessage, response: ServerResponse, delayMs: number): void {
  switch (request.url) {
    case '/up/hang':
      return
    case '/up/reset':
      request.socket.resetAndDestroy()
      return
    case '/up/reset-body':
      response.writeHead(200, { 'content-length': 2 * CHUNK.length })
      response.write(CHUNK, () => request.socket.resetAndDestroy())
      return
    case '/up/huge':
      response.writeHead(200, { 'content-length': HUGE_BYTES })
      sendHuge(response, HUGE_BYTES)
      return
    case '/up/endless': {
      const timer = setInterval(() => response.write('tick\n'), ENDLESS_EVERY_MS)
      response.once('close', () => clearInterval(timer))
      return
    }
    case '/up/upload':
      request.once('end', () => response.end('got it'))
      return
    case '/up/slow':
      setTimeout(() => response.end('at last'), 1_000)
      return
    default:
      setTimeout(() => response.end('hello'), delayMs)
  }
}

/** Writes as fast as it is read, and no faster. */
function sendHuge(response: ServerResponse, leftBytes: number): void {
  let left = leftBytes
  while (left > 0 && !response.destroyed) {
    const chunk = CHUNK.subarray(0, Math.min(left, CHUNK.length))
    left -= chunk.length
    if (!response.write(chunk)) {
      response.once('drain', () => sendHuge(response, left))
      return
    }
  }
  response.end()
}
