import type { Hold } from '../limiter/hold.ts'
import type { WaitUntil } from '../wait-until.ts'

/**
 * Keeps a request's slots until its response has ended, was cancelled or broke off; a WebSocket's until it is closed.
 * @param request its signal is aborted when the client has gone away
 */
export function holdUntilEnd(response: Response, hold: Hold, request: Request, waitUntil: WaitUntil): Response {
  if (response.webSocket) return holdWebSocket(response, response.webSocket, hold, waitUntil)
  // A body in answer to HEAD is never read.
  if (!response.body || request.method === 'HEAD') {
    waitUntil(hold.release())
    return response
  }
  const { readable, writable } = passage(response.headers)
  const ended = response.body.pipeTo(writable, { signal: request.signal }).catch(() => {
    // Either side may break off: the slot is free all the same.
  })
  waitUntil(ended.then(() => hold.release()))
  return new Response(readable, response)
}

/** A stream that keeps the length of what goes through, where it is known. */
function passage(headers: Headers): TransformStream<Uint8Array, Uint8Array> {
  const length = Number(headers.get('Content-Length') ?? Number.NaN)
  // The length is that of the encoded body, and what goes through here is decoded.
  return Number.isSafeInteger(length) && length >= 0 && !headers.has('Content-Encoding')
    ? new FixedLengthStream(length)
    : new IdentityTransformStream()
}

function holdWebSocket(response: Response, upstream: WebSocket, hold: Hold, waitUntil: WaitUntil): Response {
  const { 0: client, 1: server } = new WebSocketPair()
  const renewal = setInterval(() => waitUntil(hold.renew()), hold.deadlineMs / 3)
  let isOpen = true
  const end = () => {
    if (!isOpen) return
    isOpen = false
    clearInterval(renewal)
    waitUntil(hold.release())
  }
  upstream.accept()
  server.accept()
  connect(upstream, server, end)
  connect(server, upstream, end)
  return new Response(null, { status: 101, webSocket: client, headers: response.headers })
}

function connect(from: WebSocket, to: WebSocket, end: () => void): void {
  from.addEventListener('message', ({ data }) => to.send(data))
  from.addEventListener('close', ({ code, reason }) => {
    end()
    try {
      to.close(code, reason)
    } catch {
      // Some codes must not be sent, such as those that tell of the absence of one (RFC 6455 §7.4.1).
      to.close()
    }
  })
  from.addEventListener('error', () => {
    end()
    to.close(1011)
  })
}
