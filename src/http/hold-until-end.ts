import type { Hold } from '../limiter/hold.ts'
import type { WaitUntil } from './wait-until.ts'

/**
 * Keeps a request's slots until its response has ended, was cancelled or broke off; a WebSocket's until it is closed.
 * @param client aborted when the client has gone away
 */
export function holdUntilEnd(response: Response, hold: Hold, client: AbortSignal, waitUntil: WaitUntil): Response {
  if (response.webSocket) return holdWebSocket(response, response.webSocket, hold, waitUntil)
  if (!response.body) {
    waitUntil(hold.release())
    return response
  }
  const { readable, writable } = passage(response.headers)
  const ended = response.body.pipeTo(writable, { signal: client }).catch(() => {
    // Either side may break off: the slot is free all the same.
  })
  waitUntil(ended.then(() => hold.release()))
  return new Response(readable, response)
}

/** A stream that keeps the length of what goes through, where it is known. */
function passage(headers: Headers): TransformStream<Uint8Array, Uint8Array> {
  const length = headers.get('Content-Length')
  // The length is that of the encoded body, and what goes through here is decoded.
  return length === null || headers.has('Content-Encoding')
    ? new IdentityTransformStream()
    : new FixedLengthStream(Number(length))
}

function holdWebSocket(response: Response, upstream: WebSocket, hold: Hold, waitUntil: WaitUntil): Response {
  const { 0: client, 1: server } = new WebSocketPair()
  const renewal = setInterval(() => waitUntil(hold.renew()), hold.deadlineMs / 2)
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
    // 1005, 1006 and 1015 tell of the absence of a code and must not be sent (RFC 6455 §7.4.1).
    if (code === 1005 || code === 1006 || code === 1015) to.close()
    else to.close(code, reason)
  })
  from.addEventListener('error', () => {
    end()
    to.close(1011)
  })
}
