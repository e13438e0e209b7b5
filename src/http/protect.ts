import type { DecisionTrace, RequestLimiter } from '../engine/limiter.ts'
import type { UpstreamHealth } from '../engine/upstream-health.ts'
import type { Admitted, Refused, Verdict } from '../model/verdict.ts'
import type { ReceivedRequest } from '../request/received-request.ts'
import type { RequestPath } from '../request/target.ts'
import type { CallContext } from '../runtime/call-context.ts'
import { type Observer, trackResponse } from './exchange.ts'
import type { HoldUntilEnd } from './hold-until-end.ts'
import { type HeaderFormat, setRateLimitHeaders } from './rate-limit-headers.ts'

export interface ProtectOptions {
  readonly limiter: Pick<RequestLimiter, 'decide' | 'findCharges' | 'charge'>
  readonly health: UpstreamHealth | undefined
  /** Undefined if no policy holds slots. */
  readonly holdUntilEnd: HoldUntilEnd | undefined
  /** Responses are fetched without decoding their bodies. Default: false. */
  readonly keepsEncoding?: boolean
  readonly headerFormat: HeaderFormat
  readonly ipv6Prefix: number
  readonly now: () => number
  readonly observer?: Observer | undefined
}

/** Its signal is aborted when the client disconnects. */
export type AbortableRequest = ReceivedRequest & Pick<Request, 'signal'>

export interface Answers {
  /**
   * Answers an admitted request with a response whose headers can be changed.
   * @param signal aborts when the client disconnects; passed if the response must be followed to its end
   */
  next(verdict: Admitted, signal?: AbortSignal): Promise<Response>
  refuse(verdict: Refused): Response | Promise<Response>
}

export function createProtect(options: ProtectOptions) {
  const { limiter, health, holdUntilEnd, keepsEncoding = false, headerFormat, ipv6Prefix, now, observer } = options

  return async function protect(
    request: AbortableRequest,
    path: RequestPath,
    context: CallContext,
    answers: Answers,
  ): Promise<Response> {
    const trace: DecisionTrace | undefined = observer && { matches: [], charges: [] }
    let verdict: Verdict
    try {
      verdict = await limiter.decide(request, path, context, trace && { trace })
    } catch (error) {
      observer?.onUndecided('failed', context)
      throw error
    }
    const observed = trace && { request, verdict, trace }
    if (observed) observer?.onDecided(observed, context)
    let response: Response
    if (verdict.outcome !== 'admitted') response = await answers.refuse(verdict)
    else {
      const { hold, settle, findFailure } = verdict
      if (health || hold || settle || findFailure) {
        // When the client disconnects, the platform ends the request. This must go on: slots must be released, and the
        // request counted to its end.
        const answering = followUp(request, path, verdict, context, answers)
        context.waitUntil(answering.catch(() => {}))
        ;({ response, verdict } = await answering)
      } else response = await answers.next(verdict)
      if (observed) observer?.onAnswered(observed, response.status, context)
    }
    setRateLimitHeaders(response.headers, verdict, headerFormat, now)
    return response
  }

  async function followUp(
    request: AbortableRequest,
    path: RequestPath,
    verdict: Admitted,
    context: CallContext,
    answers: Answers,
  ) {
    const { hold, findFailure, settle } = verdict
    const mustAnswer = findFailure !== undefined || settle !== undefined
    const onHead = trackResponse(request, verdict, { health, ipv6Prefix, context })
    try {
      // A client must not escape a failure or its actual cost by disconnecting.
      const response = await answers.next(verdict, mustAnswer ? undefined : request.signal)
      const current = onHead(response)
      // The body has no reader, so the sender may stop.
      if (mustAnswer && request.signal.aborted) context.waitUntil(response.body?.cancel() ?? Promise.resolve())
      if (!current.hold || !holdUntilEnd) return { response, verdict: current }
      const held = holdUntilEnd(response, current.hold, { request, path, context, keepsEncoding, limiter, now })
      return { response: held, verdict: current }
    } catch (error) {
      // Whoever catches it answers so.
      onHead({ status: 500, headers: new Headers() })
      if (hold) context.waitUntil(hold.release())
      throw error
    }
  }
}

/** Copies a response of `fetch`, so that its headers can be changed. The runtime remembers whether its body is encoded. */
export function copyResponse(response: Response): Response {
  const { webSocket, headers } = response
  return webSocket ? new Response(null, { status: 101, webSocket, headers }) : new Response(response.body, response)
}
