import { signalsOverload } from '../engine/shedding/tells-overload.ts'
import type { UpstreamHealth } from '../engine/shedding/upstream-health.ts'
import type { Admitted, SlotHold, Verdict } from '../model/verdict.ts'
import { callerAddress } from '../request/identity/identify.ts'
import type { ReceivedRequest } from '../request/received-request.ts'
import type { CallContext } from '../runtime/call-context.ts'
import { addRateLimitHeaders, type HeaderFormat } from './rate-limit-headers.ts'
import { isUpstreamResponse } from './unanswered.ts'

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
