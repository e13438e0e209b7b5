import type { DecisionTrace, Limiter } from '../engine/limiter.ts'
import type { UpstreamHealth } from '../engine/upstream-health.ts'
import type { Admitted, Refused, Verdict } from '../model/verdict.ts'
import type { ReceivedRequest } from '../request/received-request.ts'
import type { RequestPath } from '../request/target.ts'
import type { CallContext } from '../runtime/call-context.ts'
import { isAwaited, setRateLimitHeaders, trackResponse } from './exchange.ts'
import type { HoldUntilEnd } from './hold-until-end.ts'
import type { HeaderFormat } from './rate-limit-headers.ts'
import { createRefusal } from './refusal.ts'

/** Something that happens to a request. */
export interface Observed {
  readonly request: ReceivedRequest
  readonly verdict: Verdict
  readonly trace: DecisionTrace
}

/** Is told what happens to each request, while it happens: it must be quick, wait for nothing and not throw. */
export interface Observer {
  /** What was decided. It is told before anything answers, because the client may go away meanwhile. */
  decided(observed: Observed, context: Pick<CallContext, 'waitUntil'>): void
  /** The status of the response to a request that was admitted. */
  answered(observed: Observed, status: number, context: Pick<CallContext, 'waitUntil'>): void
  /** The request was refused because it cannot be read, or the gateway itself has failed on it. */
  undecided(outcome: 'bad_request' | 'failed', context: Pick<CallContext, 'waitUntil'>): void
}

export interface ProtectOptions {
  readonly limiter: Pick<Limiter, 'decide' | 'findCharges' | 'charge'>
  /** Undefined: what answers is not watched. */
  readonly health: UpstreamHealth | undefined
  /** Undefined: no policy can make a request hold slots. */
  readonly holdUntilEnd: HoldUntilEnd | undefined
  readonly dialect: HeaderFormat
  /** Leading bits of an IPv6 address that make one caller. */
  readonly ipv6Prefix: number
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
  /** Is told what happens to each request. */
  readonly observer?: Observer | undefined
}

/** @returns a request whose signal is aborted when the client has gone away */
export type AbortableRequest = ReceivedRequest & Pick<Request, 'signal'>

export interface Answers {
  /**
   * Answers an admitted request, by a response whose fields can be added to.
   * @param signal aborted when the client has gone away; given if the answer must be followed to its end
   */
  next(verdict: Admitted, signal?: AbortSignal): Promise<Response>
  /** Answers one that is refused; left out, by a problem. */
  readonly refuse?: ((verdict: Refused) => Response | Promise<Response>) | undefined
}

interface Answered {
  readonly response: Response
  readonly verdict: Verdict
}

/** Lets a request through to what answers it, or refuses it. */
export type Protector = (
  request: AbortableRequest,
  path: RequestPath,
  context: CallContext,
  answers: Answers,
) => Promise<Response>

/** Makes the main handler: decide, then go on or refuse, and report how the limits stand. */
export function createProtect(options: ProtectOptions): Protector {
  const { limiter, health, holdUntilEnd, dialect, ipv6Prefix, now, observer } = options

  return async function protect(request, path, context, answers) {
    const trace: DecisionTrace | undefined = observer && { matches: [], charges: [] }
    let verdict: Verdict
    try {
      verdict = await limiter.decide(request, path, context, trace && { trace })
    } catch (error) {
      observer?.undecided('failed', context)
      throw error
    }
    const observed = trace && { request, verdict, trace }
    if (observed) observer?.decided(observed, context)
    const answered =
      verdict.kind === 'admitted'
        ? await goOn(request, path, verdict, context, answers)
        : { response: await (answers.refuse ?? createRefusal)(verdict), verdict }
    if (observed && verdict.kind === 'admitted') observer?.answered(observed, answered.response.status, context)
    setRateLimitHeaders(answered.response.headers, answered.verdict, dialect, now)
    return answered.response
  }

  async function goOn(
    request: AbortableRequest,
    path: RequestPath,
    verdict: Admitted,
    context: CallContext,
    answers: Answers,
  ): Promise<Answered> {
    // If the client goes away, the platform ends a request and all that belongs to it.
    if (!isAwaited(verdict, health)) return { response: await answers.next(verdict), verdict }
    // This must not end then: what was taken must be given back, and what was begun must be counted to its end.
    const answered = followUp(request, path, verdict, context, answers)
    context.waitUntil(answered)
    return answered
  }

  async function followUp(
    request: AbortableRequest,
    path: RequestPath,
    verdict: Admitted,
    context: CallContext,
    answers: Answers,
  ): Promise<Answered> {
    const { hold, failures } = verdict
    const onHead = trackResponse(request, verdict, { health, ipv6Prefix, context })
    try {
      // By going away, a client must not keep its request from counting as a failure.
      const response = await answers.next(verdict, failures ? undefined : request.signal)
      const told = onHead(response)
      // Nobody reads the body, so the sender may stop.
      if (failures && request.signal.aborted) context.waitUntil(response.body?.cancel() ?? Promise.resolve())
      return {
        response:
          told.hold && holdUntilEnd
            ? holdUntilEnd(response, told.hold, { request, path, context, limiter, now })
            : response,
        verdict: told,
      }
    } catch (error) {
      onHead()
      if (hold) context.waitUntil(hold.release())
      throw error
    }
  }
}
