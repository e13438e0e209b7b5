import type { UpstreamHealth } from '../engine/upstream-health.ts'
import { StoreError } from '../model/store.ts'
import type { Admitted, SlotHold, Verdict } from '../model/verdict.ts'
import { callerAddress } from '../request/identity/identify.ts'
import type { ReceivedRequest } from '../request/received-request.ts'
import type { CallContext } from '../runtime/call-context.ts'
import { Deadlines } from '../runtime/deadlines.ts'
import type { Log } from '../runtime/log.ts'
import { addRateLimitHeaders, type HeaderFormat } from './rate-limit-headers.ts'

/** The fields of a response, whatever it is made of. */
export type ResponseFields = Pick<Headers, 'get' | 'has' | 'set' | 'append'>

/** What is known of a response before its body. */
export interface ResponseHead {
  readonly status: number
  readonly headers: ResponseFields
}

/** Whether the response to an admitted request must be waited for, even if its client has gone away. */
export function isAwaited({ hold, settlement, failures }: Admitted, health: UpstreamHealth | undefined): boolean {
  return health !== undefined || hold !== undefined || settlement !== undefined || failures !== undefined
}

/**
 * An admitted request goes to what answers it.
 * @returns to be called when the head of the response is known, or without it if the client has gone or there will be
 * none. It returns the verdict as it then stands, including what the response has charged.
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
    const failure = head && isUpstreamResponse(head) ? failures?.of(head.status) : undefined
    if (!failure) return verdict
    const charged = failure.charge()
    context.waitUntil(charged)
    return { ...verdict, tiers: failure.tiers, ...(hold && { hold: releasedAfter(charged, hold) }) }
  }
}

/** So that no more can fail beyond a limit than there are slots: a request that may still be charged keeps its slot. */
function releasedAfter(charged: Promise<void>, hold: SlotHold): SlotHold {
  return {
    ...hold,
    async release() {
      await charged.catch(() => {})
      await hold.release()
    },
  }
}

/**
 * Reports in a response how the limits stand.
 * @param now milliseconds since the Unix epoch
 */
export function setRateLimitHeaders(
  headers: ResponseFields,
  verdict: Verdict,
  dialect: HeaderFormat,
  now: () => number,
): void {
  if (verdict.degraded !== undefined) headers.set('Sluice-Degraded', verdict.degraded)
  if ('tiers' in verdict) addRateLimitHeaders(headers, dialect, verdict.tiers, now)
}

/**
 * Whether an answer, including the proxy's own, says that the upstream has too much to do. One that failed or came too
 * late says so only for a request without a body: a client may have broken its body off, or kept it back. A 429 says
 * that one caller asks too much.
 */
export function signalsOverload(
  { status, headers }: { readonly status: number; readonly headers: Pick<Headers, 'has'> },
  { body }: Pick<ReceivedRequest, 'body'>,
): boolean {
  if (status === 502 || status === 504) return body === null
  return status === 503 && headers.has('Retry-After')
}

const UNANSWERED = new WeakSet<object>()

/** Marks a response that stands in for one that did not come. It says nothing about the request. */
export function markSynthetic(response: Response): Response {
  UNANSWERED.add(response)
  return response
}

/** Whether a response, or its head, was really given by what lies behind. */
export function isUpstreamResponse(response: object): boolean {
  return !UNANSWERED.has(response)
}

/**
 * What one request lends to the calls that are made for it.
 * @param keepAlive keeps the platform from ending the request before the work is done
 * @param request its signal is aborted when the client has gone away
 */
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
        log('error', { event: 'after_response', message: error instanceof StoreError ? error.message : 'failed' })
      })
      keepAlive(logged)
    },
  }
}
