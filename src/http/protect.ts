import { formatWindow } from '../limit/tiers.ts'
import type { Config } from '../config/load-config.ts'
import { callerAddress } from '../request/identity/address.ts'
import type { Source } from '../request/identity/source.ts'
import type { Limiter } from '../limiter/limiter.ts'
import type { TierReport, Verdict } from '../limiter/verdict.ts'
import { tellsOverload, type UpstreamHealth } from '../limiter/shedding/upstream-health.ts'
import type { WaitUntil } from '../store/call-context.ts'
import { holdUntilEnd } from './hold-until-end.ts'
import { ambiguousTarget, problemResponse, QUOTA_EXCEEDED, retryAfter, TEMPORARY_REDUCED_CAPACITY } from './problem.ts'
import type { ProxyHandler } from '../gateway/proxy.ts'
import { addRateLimitFields } from './rate-limit-fields.ts'
import type { Target } from '../gateway/target.ts'

export interface GatewayOptions {
  readonly limiter: Limiter
  readonly proxy: ProxyHandler
  /** Undefined: the upstream is not watched. */
  readonly health: UpstreamHealth | undefined
  readonly dialect: Config['dialect']
  readonly ipv6Prefix: Config['ipv6Prefix']
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
}

/** How soon to come back while the store is away. */
const UNAVAILABLE_RETRY_MS = 1_000

type Admitted = Extract<Verdict, { kind: 'admitted' }>

export type Gateway = (request: Request, target: Target, waitUntil: WaitUntil) => Promise<Response>

/** Makes the main job: decide, then proxy or refuse, and say how the limits stand. */
export function createGateway({ limiter, proxy, health, dialect, ipv6Prefix, now }: GatewayOptions): Gateway {
  return async function gateway(request, target, waitUntil) {
    const verdict = await limiter.decide(request, target.path, waitUntil)
    if (verdict.lost) waitUntil(verdict.lost.release())
    const response = verdict.kind === 'admitted' ? await forward(request, target, verdict, waitUntil) : refusal(verdict)
    if (verdict.degraded !== undefined) response.headers.set('Sluice-Degraded', verdict.degraded)
    if ('tiers' in verdict) addRateLimitFields(response.headers, dialect, verdict.tiers, now())
    return response
  }

  function forward(request: Request, target: Target, verdict: Admitted, waitUntil: WaitUntil): Promise<Response> {
    // If the client goes away, the platform ends a request and all that belongs to it.
    if (!health && !verdict.hold && !verdict.settlement) return proxy(request, target, waitUntil.deadlines)
    // But not this: what was taken must be given back, and what was begun counted to its end.
    const response = followUp(request, target, verdict, waitUntil)
    waitUntil(response)
    return response
  }

  async function followUp(
    request: Request,
    target: Target,
    { hold, settlement }: Admitted,
    waitUntil: WaitUntil,
  ): Promise<Response> {
    const end = health?.begin(callerAddress(request.headers, ipv6Prefix))
    const response = await proxy(request, target, waitUntil.deadlines, request.signal)
    end?.(tellsOverload(response, request))
    if (settlement) waitUntil(settlement.settle(response.headers))
    return hold ? holdUntilEnd(response, hold, request, waitUntil, now) : response
  }
}

function refusal(verdict: Exclude<Verdict, { kind: 'admitted' }>): Response {
  switch (verdict.kind) {
    case 'limited':
      return problemResponse({
        type: QUOTA_EXCEEDED,
        status: 429,
        title: 'Too Many Requests',
        detail: `Over the limit of ${verdict.violated.map(limitInWords).join(' and ')}.`,
        extensions: {
          'violated-policies': verdict.violated.map(({ name }) => name),
          retry_after_ms: verdict.retryAfterMs,
        },
        headers: retryAfter(verdict.retryAfterMs),
      })
    case 'reserved':
      return problemResponse({
        type: TEMPORARY_REDUCED_CAPACITY,
        status: 503,
        title: 'Service Unavailable',
        detail: 'What is left of the capacity is reserved for more important requests.',
        extensions: { retry_after_ms: verdict.retryAfterMs },
        headers: retryAfter(verdict.retryAfterMs),
      })
    case 'shed':
      return problemResponse({
        type: TEMPORARY_REDUCED_CAPACITY,
        status: 503,
        title: 'Service Unavailable',
        detail: 'The API behind this gateway is overloaded, and more important requests go first.',
        headers: retryAfter(verdict.retryAfterMs),
      })
    case 'unidentified':
      return problemResponse({
        status: verdict.status,
        title: verdict.status === 401 ? 'Unauthorized' : 'Caller Unknown',
        detail: `This API counts requests by ${verdict.policy.by.map(sourceInWords).join(' and ')}, and this one lacks it.`,
        // RFC 9110 §15.5.2: a 401 must name a way to authenticate.
        ...(verdict.status === 401 && { headers: { 'WWW-Authenticate': 'Bearer' } }),
      })
    case 'bad-cost':
      return problemResponse({
        status: 400,
        title: 'Bad Request',
        detail: `The field ${verdict.header} must be an integer from 1 to ${verdict.max}.`,
      })
    case 'ambiguous':
      return ambiguousTarget()
    case 'unavailable':
      return problemResponse({
        type: TEMPORARY_REDUCED_CAPACITY,
        status: 503,
        title: 'Service Unavailable',
        detail: 'Limits cannot be checked at the moment, so no request is let through.',
        headers: retryAfter(UNAVAILABLE_RETRY_MS),
      })
  }
}

function limitInWords({ policy, limit, windowMs }: TierReport): string {
  return policy.algorithm === 'concurrency' ? `${limit} at once` : `${limit} per ${formatWindow(windowMs)}`
}

function sourceInWords(source: Source): string {
  switch (source.kind) {
    case 'token':
      return 'Authorization'
    case 'header':
      return `the field ${source.name}`
    case 'query':
      return `the query parameter ${source.name}`
    case 'form':
      return `the form field ${source.name}`
    default:
      return source.kind
  }
}
