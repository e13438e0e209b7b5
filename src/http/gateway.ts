import type { Config } from '../config/load-config.ts'
import type { Limiter } from '../limiter/limiter.ts'
import type { TierReport, Verdict } from '../limiter/verdict.ts'
import { problemResponse, QUOTA_EXCEEDED, retryAfter, TEMPORARY_REDUCED_CAPACITY } from './problem.ts'
import type { ProxyHandler } from './proxy.ts'
import { addRateLimitFields } from './rate-limit-fields.ts'

export interface GatewayOptions {
  readonly limiter: Limiter
  readonly proxy: ProxyHandler
  readonly dialect: Config['dialect']
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
}

/** How soon to come back while the store is away. */
const UNAVAILABLE_RETRY_MS = 1_000

/** Makes the main job: decide, then proxy or refuse, and say how the limits stand. */
export function createGateway({
  limiter,
  proxy,
  dialect,
  now,
}: GatewayOptions): (request: Request) => Promise<Response> {
  return async function gateway(request) {
    const verdict = await limiter.decide(request)
    const response = verdict.kind === 'admitted' ? await proxy(request) : refusal(verdict)
    if ('tiers' in verdict) addRateLimitFields(response.headers, dialect, verdict.tiers, now())
    return response
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
    case 'unidentified':
      return problemResponse({
        status: 401,
        title: 'Unauthorized',
        detail: 'This API counts requests by their Authorization, and this one has none.',
        headers: { 'WWW-Authenticate': 'Bearer' },
      })
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

function limitInWords({ limit, windowMs }: TierReport): string {
  return `${limit} per ${windowMs} ms`
}
