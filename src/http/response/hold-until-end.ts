/** Holds slots until a response or a WebSocket has ended. */
import type { SlotHold } from '../../core/model/verdict.ts'
import { type CallContext, Deadlines } from '../../core/runtime/call-context.ts'
import type { Exchange } from '../request/received-request.ts'
import type { RequestLimiter } from '../request/request-limiter.ts'
import { createPassage } from './create-passage.ts'
import type { AbortableRequest } from './exchange.ts'
import { joinWebSockets } from './join-web-sockets.ts'

export type HoldUntilEnd = ReturnType<typeof createHoldUntilEnd>

export interface HoldOptions {
  readonly limiter: Pick<RequestLimiter, 'findCharges' | 'decideCharges'>
  /** Bodies are read as the upstream has encoded them; else the runtime decodes what is read, and encodes it again. */
  readonly keepsEncoding: boolean
  readonly now: () => number
}

/** RFC 6455 §7.4.1. */
const POLICY_VIOLATION = 1008

/**
 * Makes a function that holds a request's slots until its response has ended or was aborted; those of a WebSocket until
 * its client's side has ended. When the slots of a WebSocket are renewed, it is closed with 1008 if the caller would now
 * be refused for a block, a penalty or an invalid token.
 */
export function createHoldUntilEnd({ limiter, keepsEncoding, now }: HoldOptions) {
  return function holdUntilEnd(response: Response, hold: SlotHold, exchange: Exchange<AbortableRequest>): Response {
    const { request, context } = exchange
    if (response.webSocket) return holdWebSocket(response, response.webSocket, hold, exchange)
    // The body of a response to HEAD is never read.
    if (!response.body || request.method === 'HEAD') {
      context.waitUntil(hold.release())
      return response
    }
    const { readable, writable } = createPassage(response.headers, keepsEncoding)
    const ended = response.body.pipeTo(writable, { signal: request.signal }).catch(() => {
      // Either side may abort: the slot is released in any case.
    })
    context.waitUntil(ended.then(() => hold.release()))
    return new Response(readable, response)
  }

  function holdWebSocket(response: Response, upstream: WebSocket, hold: SlotHold, exchange: Exchange): Response {
    const { context } = exchange
    const { 0: outgoing, 1: client } = new WebSocketPair()
    const endIfRefused = async () => {
      if (!(await isRefusedNow(exchange))) return
      for (const side of [client, upstream]) side.close(POLICY_VIOLATION, 'No longer admitted')
    }
    const renewal = setInterval(() => {
      context.waitUntil(hold.renew())
      context.waitUntil(endIfRefused())
    }, hold.renewEveryMs)
    let isHeld = true
    const onEnd = () => {
      if (!isHeld) return
      isHeld = false
      clearInterval(renewal)
      context.waitUntil(hold.release())
    }
    joinWebSockets(upstream, client, now, onEnd)
    return new Response(null, { status: 101, webSocket: outgoing, headers: response.headers })
  }

  /** Would the caller be refused now for another reason than a used-up limit? */
  async function isRefusedNow({ request, path, context: { waitUntil } }: Exchange): Promise<boolean> {
    // A new context, because tokens are verified once in each, and the deadlines of the request are over.
    const context: CallContext = { waitUntil, deadlines: Deadlines.createForOne() }
    const charges = await limiter.findCharges({ request, path, context })
    if ('outcome' in charges) return charges.outcome === 'blocked' || charges.outcome === 'unidentified'
    if (!charges.some(({ penalty }) => penalty)) return false
    const verdict = await limiter.decideCharges(charges, context, { action: 'peek', permits: 1 })
    return verdict.outcome === 'limited' && verdict.violated.some(({ penaltyMs }) => penaltyMs !== undefined)
  }
}
