import type { Limiter } from '../limiter/limiter.ts'
import { tellsOverload, type UpstreamHealth } from '../limiter/shedding/upstream-health.ts'
import type { Verdict } from '../limiter/verdict.ts'
import { callerAddress } from '../request/identity/address.ts'
import type { RequestPath } from '../request/policy/request-path.ts'
import type { CallContext } from '../store/call-context.ts'
import { holdUntilEnd } from './hold-until-end.ts'
import { addRateLimitFields, type Dialect } from './rate-limit-fields.ts'
import { refusal } from './refusal.ts'

export interface ProtectOptions {
  readonly limiter: Pick<Limiter, 'decide'>
  /** Undefined: the upstream is not watched. */
  readonly health: UpstreamHealth | undefined
  readonly dialect: Dialect
  /** Leading bits of an IPv6 address that make one caller. */
  readonly ipv6Prefix: number
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
}

/**
 * Answers an admitted request.
 * @param signal aborted when the client has gone away; given if the answer must be followed to its end
 */
export type Next = (signal?: AbortSignal) => Promise<Response>

type Admitted = Extract<Verdict, { kind: 'admitted' }>

/** Lets a request through to what answers it, or refuses it. */
export type Protect = (request: Request, path: RequestPath, context: CallContext, next: Next) => Promise<Response>

/** Makes the main handler: decide, then go on or refuse, and report how the limits stand. */
export function createProtect({ limiter, health, dialect, ipv6Prefix, now }: ProtectOptions): Protect {
  return async function protect(request, path, context, next) {
    const verdict = await limiter.decide(request, path, context)
    const response = verdict.kind === 'admitted' ? await goOn(request, verdict, context, next) : refusal(verdict)
    if (verdict.degraded !== undefined) response.headers.set('Sluice-Degraded', verdict.degraded)
    if ('tiers' in verdict) addRateLimitFields(response.headers, dialect, verdict.tiers, now())
    return response
  }

  function goOn(request: Request, verdict: Admitted, context: CallContext, next: Next): Promise<Response> {
    // If the client goes away, the platform ends a request and all that belongs to it.
    if (!health && !verdict.hold && !verdict.settlement) return next()
    // This must not end then: what was taken must be given back, and what was begun must be counted to its end.
    const response = followUp(request, verdict, context, next)
    context.waitUntil(response)
    return response
  }

  async function followUp(
    request: Request,
    { hold, settlement }: Admitted,
    context: CallContext,
    next: Next,
  ): Promise<Response> {
    const end = health?.begin(callerAddress(request.headers, ipv6Prefix))
    const response = await next(request.signal)
    end?.(tellsOverload(response, request))
    if (settlement) context.waitUntil(settlement.settle(response.headers))
    return hold ? holdUntilEnd(response, hold, request, context, now) : response
  }
}
