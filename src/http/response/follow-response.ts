/** Follows a response to its end: measures it on its way to the client, settles what it has cost, and releases slots. */
import type { UntoldReason } from '../../core/model/cost.ts'
import { type CallContext, Deadlines } from '../../core/runtime/call-context.ts'
import type { Exchange } from '../request/received-request.ts'
import type { RequestLimiter } from '../request/request-limiter.ts'
import { createPassage } from './create-passage.ts'
import type { AbortableRequest, Answered } from './exchange.ts'
import { joinWebSockets } from './join-web-sockets.ts'
import { createMeter, MAX_READ_ON_MS, type Meter, trackCharges } from './meter.ts'

export type FollowResponse = ReturnType<typeof createFollowResponse>

export interface FollowOptions {
  readonly limiter: Pick<RequestLimiter, 'findCharges' | 'decideCharges'>
  /** Bodies are read as the upstream has encoded them; else the runtime decodes what is read, and encodes it again. */
  readonly keepsEncoding: boolean
  readonly now: () => number
}

/** RFC 6455 §7.4.1. */
const POLICY_VIOLATION = 1008

/**
 * Makes a function that passes a response on as it comes, and charges it and holds its slots until it has ended or broken
 * off; those of a WebSocket until its client's side has ended. If the client goes, the rest of a body that may tell a cost
 * is still read, unless it is to be aborted. When the slots of a WebSocket are renewed, it is closed with 1008 if the
 * caller would now be refused for a block, a penalty or an invalid token.
 */
export function createFollowResponse({ limiter, keepsEncoding, now }: FollowOptions) {
  /** @param startMs when the request came */
  return function followResponse(
    response: Response,
    answered: Answered,
    exchange: Exchange<AbortableRequest>,
    startMs: number,
  ): Response {
    const { request, context } = exchange
    const { cost, settlement } = answered
    const meter = cost && createMeter(response, cost.terms, now, startMs)
    const end = trackCharges(answered, meter, context)
    const { body, webSocket } = response
    if (webSocket)
      return followWebSocket(response, webSocket, answered, exchange, meter, () => context.waitUntil(end()))
    // The body of a response to HEAD is never read.
    if (!body || request.method === 'HEAD') {
      context.waitUntil(end())
      return response
    }
    const { readable, writable } = createPassage(response.headers, keepsEncoding)
    const ended = meter
      ? copyBody(body, writable, meter, request.signal, settlement?.isAborted === true)
      : // Either side may abort: slots are released in any case.
        body.pipeTo(writable, { signal: request.signal }).catch(() => undefined)
    context.waitUntil(ended.then((ending) => end(ending ?? undefined)))
    return new Response(readable, response)
  }

  function followWebSocket(
    response: Response,
    upstream: WebSocket,
    { hold }: Answered,
    exchange: Exchange,
    meter: Meter | undefined,
    end: () => void,
  ): Response {
    const { context } = exchange
    const { 0: outgoing, 1: client } = new WebSocketPair()
    const endIfRefused = async () => {
      if (!(await isRefusedNow(exchange))) return
      for (const side of [client, upstream]) side.close(POLICY_VIOLATION, 'No longer admitted')
    }
    const checks = hold && setInterval(() => context.waitUntil(endIfRefused()), hold.renewEveryMs)
    let hasEnded = false
    joinWebSockets(upstream, client, now, {
      onEnd() {
        if (hasEnded) return
        hasEnded = true
        clearInterval(checks)
        end()
      },
      onMessage: (bytes, from) => meter?.count(from === client ? 'bytes:request' : 'bytes', bytes),
    })
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

/** Resolves when either side has ended, however it did. @returns why not all of the body was seen, if so */
async function copyBody(
  body: ReadableStream<Uint8Array>,
  writable: WritableStream<Uint8Array>,
  meter: Meter,
  signal: AbortSignal,
  isAborted: boolean,
): Promise<UntoldReason | undefined> {
  const reader = body.getReader()
  const writer = writable.getWriter()
  let gone: UntoldReason | undefined
  let timer: ReturnType<typeof setTimeout> | undefined
  const cancel = () => void reader.cancel().catch(() => {})
  const isReadOn = () => meter.isExpecting && !isAborted
  const leave = () => {
    if (gone) return
    gone = 'left'
    writer.abort().catch(() => {})
    if (!isReadOn()) return cancel()
    timer = setTimeout(() => {
      gone = 'too_late'
      cancel()
    }, MAX_READ_ON_MS)
  }
  writer.closed.catch(leave)
  signal.addEventListener('abort', leave)
  if (signal.aborted) leave()
  try {
    for (let chunk = await reader.read(); chunk.value; chunk = await reader.read()) {
      meter.see(chunk.value)
      if (!gone) await writer.write(chunk.value).catch(leave)
      else if (!isReadOn()) await reader.cancel()
    }
    if (!gone) await writer.close()
    return gone === 'too_late' || (gone && !isReadOn()) ? gone : undefined
  } catch (error) {
    await writer.abort(error).catch(() => {})
    return gone === 'too_late' ? gone : 'broken'
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', leave)
  }
}
