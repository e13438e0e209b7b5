/** Takes a request to its response: decides it, has it answered, and sets headers. */
import { createUntold } from '../../core/model/cost.ts'
import type { Admitted, Verdict } from '../../core/model/verdict.ts'
import type { StartReports } from '../../core/runtime/call-context.ts'
import type { UpstreamHealth } from '../../core/shedding/upstream-health.ts'
import type { Exchange } from '../request/received-request.ts'
import type { DecisionTrace, RequestLimiter } from '../request/request-limiter.ts'
import {
  type AbortableRequest,
  keepSlots,
  type Observer,
  readNothing,
  releaseAfter,
  trackResponse,
} from './exchange.ts'
import type { FollowResponse } from './follow-response.ts'
import { type HeaderFormat, setRateLimitHeaders } from './rate-limit-headers.ts'

export interface ProtectOptions {
  readonly limiter: Pick<RequestLimiter, 'decide'>
  readonly health: UpstreamHealth | undefined
  /** Undefined if no policy needs the end of a response. */
  readonly followResponse: FollowResponse | undefined
  /** True where a proxy keeps the responses of the API: what they would tell is untold. */
  readonly isUnseen?: boolean
  readonly startReports?: StartReports | undefined
  readonly headerFormat: HeaderFormat
  readonly ipv6Prefix: number
  readonly now: () => number
  readonly observer?: Observer | undefined
}

/**
 * Answers a request as its verdict says, with a response whose headers can be changed.
 * @param signal aborts when the client disconnects; left out if the response must be awaited even after that
 */
export type Responder = (verdict: Verdict, signal?: AbortSignal) => Response | Promise<Response>

export function createProtect(options: ProtectOptions) {
  const { limiter, health, followResponse, isUnseen = false, startReports, headerFormat, now, observer } = options

  return async function protect(exchange: Exchange<AbortableRequest>, answer: Responder): Promise<Response> {
    const { request, context } = exchange
    const trace: DecisionTrace | undefined = observer && { matches: [], charges: [] }
    let verdict: Verdict
    try {
      verdict = await limiter.decide(exchange, trace && { trace })
    } catch (error) {
      observer?.onUndecided('failed', context)
      throw error
    }
    const observed = trace && { request, verdict, trace }
    if (observed) observer?.onDecided(observed, context)
    let response: Response
    if (verdict.outcome !== 'admitted') response = await answer(verdict)
    else {
      if (health || verdict.hold || verdict.settlement) {
        // When the client disconnects, the platform ends the request. This must go on: slots must be released, and the
        // request counted to its end.
        const answering = followUp(exchange, verdict, answer)
        context.waitUntil(answering.catch(() => {}))
        ;({ response, verdict } = await answering)
      } else response = await answer(verdict)
      if (observed) observer?.onAnswered(observed, response.status, context)
    }
    setRateLimitHeaders(response.headers, verdict, headerFormat, now)
    return response
  }

  async function followUp(exchange: Exchange<AbortableRequest>, admitted: Admitted, answer: Responder) {
    const { request, context } = exchange
    const verdict = followResponse ? keepSlots(admitted, context) : admitted
    const { settlement } = verdict
    const close = verdict.hold || settlement ? startReports?.(context) : undefined
    const mustAnswer = settlement !== undefined && !settlement.isAborted
    const onHead = trackResponse(exchange, verdict, options)
    const startMs = now()
    try {
      // A client must not escape a failure or its actual cost by disconnecting.
      const response = await answer(verdict, mustAnswer ? undefined : request.signal)
      const current = onHead(response, isUnseen || (settlement?.isAborted && request.signal.aborted))
      const { hold, cost } = current
      if ((cost || hold) && followResponse) {
        return {
          response: followResponse(response, { ...current, ...(close && { close }) }, exchange, startMs),
          verdict: current,
        }
      }
      close?.()
      if (cost && isUnseen) context.waitUntil(cost.settle(() => createUntold('no_response')))
      // The body has no reader, so the sender may stop.
      if (mustAnswer && request.signal.aborted) context.waitUntil(response.body?.cancel() ?? Promise.resolve())
      return { response, verdict: current }
    } catch (error) {
      close?.()
      // Whoever catches it answers so.
      const { hold, cost } = onHead({ status: 500, headers: new Headers() })
      const settled = cost?.settle(readNothing)
      if (settled) context.waitUntil(settled)
      if (hold) context.waitUntil(releaseAfter(settled, hold))
      throw error
    }
  }
}

/** Copies a response of `fetch`, so that its headers can be changed. The runtime remembers whether its body is encoded. */
export function copyResponse(response: Response): Response {
  const { webSocket, headers } = response
  return webSocket ? new Response(null, { status: 101, webSocket, headers }) : new Response(response.body, response)
}
