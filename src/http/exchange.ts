import type { DecisionTrace, Limiter } from '../engine/limiter.ts'
import type { UpstreamHealth } from '../engine/upstream-health.ts'
import { StoreError } from '../model/store.ts'
import type { Admitted, Refused, Verdict } from '../model/verdict.ts'
import { callerAddress } from '../request/identity/identify.ts'
import type { ReceivedRequest } from '../request/received-request.ts'
import type { RequestPath } from '../request/target.ts'
import type { CallContext } from '../runtime/call-context.ts'
import { Deadlines } from '../runtime/deadlines.ts'
import type { Log } from '../runtime/log.ts'
import type { HoldUntilEnd } from './hold-until-end.ts'
import { addRateLimitHeaders, type HeaderFormat } from './rate-limit-headers.ts'
import { createRefusal } from './refusal.ts'

export interface Observed {
  readonly request: ReceivedRequest
  readonly verdict: Verdict
  readonly trace: DecisionTrace
}

/** Observes each request as it is handled. Methods must be quick, wait for nothing and not throw. */
export interface Observer {
  /** Called before the response is made, because the client may disconnect meanwhile. */
  decided(observed: Observed, context: Pick<CallContext, 'waitUntil'>): void
  answered(observed: Observed, status: number, context: Pick<CallContext, 'waitUntil'>): void
  /** Called if the request cannot be read, or if handling it has failed. */
  undecided(outcome: 'bad_request' | 'failed', context: Pick<CallContext, 'waitUntil'>): void
}

export type ResponseFields = Pick<Headers, 'get' | 'has' | 'set' | 'append'>

export interface ResponseHead {
  readonly status: number
  readonly headers: ResponseFields
}

/**
 * Records that an admitted request goes to its handler.
 * @returns a function to call with the head of the response, or without it if there will be none. It returns the verdict
 * after the response, including failures that were charged.
 */
export function trackResponse(
  request: ReceivedRequest,
  verdict: Admitted,
  { health, ipv6Prefix, context }: { health: UpstreamHealth | undefined; ipv6Prefix: number; context: CallContext },
): (head?: ResponseHead) => Admitted {
  const { hold, settlement, failures } = verdict
  let end = health?.begin(callerAddress(request, ipv6Prefix))
  return (head) => {
    end?.(head !== undefined && signalsOverload(head, request))
    end = undefined
    if (head && settlement) context.waitUntil(settlement.settle(head.headers))
    const failure = head && !SYNTHETIC.has(head) ? failures?.of(head.status) : undefined
    if (!failure) return verdict
    const charged = failure.charge()
    context.waitUntil(charged)
    const { limits } = failure
    if (!hold) return { ...verdict, limits }
    // A request keeps its slot until it is charged, so that no more can fail beyond a limit than there are slots.
    const release = () => charged.catch(() => {}).then(() => hold.release())
    return { ...verdict, limits, hold: { ...hold, release } }
  }
}

export function setRateLimitHeaders(
  headers: ResponseFields,
  verdict: Verdict,
  headerFormat: HeaderFormat,
  now: () => number,
): void {
  if (verdict.degraded !== undefined) headers.set('Sluice-Degraded', verdict.degraded)
  if ('limits' in verdict) addRateLimitHeaders(headers, headerFormat, verdict.limits, now)
}

/**
 * Responses that signal an overload of the upstream, including the proxy's own. A failed or late one does so only for a
 * request without a body: a client may have aborted its body, or withheld it. A 429 is about one caller only.
 */
export function signalsOverload(
  { status, headers }: { readonly status: number; readonly headers: Pick<Headers, 'has'> },
  { body }: Pick<ReceivedRequest, 'body'>,
): boolean {
  if (status === 502 || status === 504) return body === null
  return status === 503 && headers.has('Retry-After')
}

/** Copies a response of `fetch`, so that its headers can be changed. */
export function copyResponse(response: Response): Response {
  const { webSocket, headers } = response
  return webSocket ? new Response(null, { status: 101, webSocket, headers }) : new Response(response.body, response)
}

const SYNTHETIC = new WeakSet<object>()

/** Marks a response that the gateway made itself in place of a missing one. It is no failure of the request. */
export function markSynthetic(response: Response): Response {
  SYNTHETIC.add(response)
  return response
}

export function requestContext(
  keepAlive: (work: Promise<unknown>) => void,
  log: Log,
  request?: Pick<Request, 'signal'>,
): CallContext {
  return {
    deadlines: new Deadlines(),
    isClientGone: () => request?.signal.aborted === true,
    waitUntil(work) {
      const logged = work.catch((error: unknown) => {
        log('error', { event: 'background_error', message: error instanceof StoreError ? error.message : 'failed' })
      })
      keepAlive(logged)
    },
  }
}

export interface ProtectOptions {
  readonly limiter: Pick<Limiter, 'decide' | 'findCharges' | 'charge'>
  readonly health: UpstreamHealth | undefined
  /** Undefined if no policy holds slots. */
  readonly holdUntilEnd: HoldUntilEnd | undefined
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
  /** Answers a refused request; by default with problem details. */
  readonly refuse?: ((verdict: Refused) => Response | Promise<Response>) | undefined
}

export function createProtect(options: ProtectOptions) {
  const { limiter, health, holdUntilEnd, headerFormat, ipv6Prefix, now, observer } = options

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
      observer?.undecided('failed', context)
      throw error
    }
    const observed = trace && { request, verdict, trace }
    if (observed) observer?.decided(observed, context)
    let response: Response
    if (verdict.outcome !== 'admitted') response = await (answers.refuse ?? createRefusal)(verdict)
    else {
      const { hold, settlement, failures } = verdict
      if (health || hold || settlement || failures) {
        // When the client disconnects, the platform ends the request. This must go on: slots must be released, and the
        // request counted to its end.
        const answering = followUp(request, path, verdict, context, answers)
        context.waitUntil(answering)
        ;({ response, verdict } = await answering)
      } else response = await answers.next(verdict)
      if (observed) observer?.answered(observed, response.status, context)
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
    const { hold, failures } = verdict
    const onHead = trackResponse(request, verdict, { health, ipv6Prefix, context })
    try {
      // A client must not keep its request from counting as a failure by disconnecting.
      const response = await answers.next(verdict, failures ? undefined : request.signal)
      const current = onHead(response)
      // The body has no reader, so the sender may stop.
      if (failures && request.signal.aborted) context.waitUntil(response.body?.cancel() ?? Promise.resolve())
      if (!current.hold || !holdUntilEnd) return { response, verdict: current }
      const held = holdUntilEnd(response, current.hold, { request, path, context, limiter, now })
      return { response: held, verdict: current }
    } catch (error) {
      onHead()
      if (hold) context.waitUntil(hold.release())
      throw error
    }
  }
}
