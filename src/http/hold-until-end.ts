import type { Hold } from '../decide/hold.ts'
import type { CallContext } from '../store/call-context.ts'
import { joinWebSockets } from './join-web-sockets.ts'

export type HoldUntilEnd = typeof holdUntilEnd

/**
 * Keeps a request's slots until its response has ended, was cancelled or broke off; a WebSocket's until its client has
 * closed it or is gone.
 * @param request its signal is aborted when the client has gone away
 * @param now milliseconds since the Unix epoch
 */
export function holdUntilEnd(
  response: Response,
  hold: Hold,
  request: Pick<Request, 'method' | 'signal'>,
  context: CallContext,
  now: () => number,
): Response {
  if (response.webSocket) return holdWebSocket(response, response.webSocket, hold, context, now)
  // The body of a response to HEAD is never read.
  if (!response.body || request.method === 'HEAD') {
    context.waitUntil(hold.release())
    return response
  }
  const { readable, writable } = passage(response.headers)
  const ended = response.body.pipeTo(writable, { signal: request.signal }).catch(() => {
    // Either side may break off: the slot is free in any case.
  })
  context.waitUntil(ended.then(() => hold.release()))
  return new Response(readable, response)
}

/** A stream that keeps the length of what goes through, if it is known and the runtime relies on it. */
function passage(headers: Headers): TransformStream<Uint8Array, Uint8Array> {
  if (typeof FixedLengthStream === 'undefined') return new TransformStream()
  const length = Number(headers.get('Content-Length') ?? Number.NaN)
  // The length is that of the encoded body, and what goes through here is decoded.
  return Number.isSafeInteger(length) && length >= 0 && !headers.has('Content-Encoding')
    ? new FixedLengthStream(length)
    : new IdentityTransformStream()
}

function holdWebSocket(
  response: Response,
  upstream: WebSocket,
  hold: Hold,
  context: CallContext,
  now: () => number,
): Response {
  const { 0: outgoing, 1: client } = new WebSocketPair()
  const renewal = setInterval(() => context.waitUntil(hold.renew()), hold.deadlineMs / 3)
  let isHeld = true
  const onEnd = () => {
    if (!isHeld) return
    isHeld = false
    clearInterval(renewal)
    context.waitUntil(hold.release())
  }
  joinWebSockets({ upstream, client, now, onEnd })
  return new Response(null, { status: 101, webSocket: outgoing, headers: response.headers })
}
