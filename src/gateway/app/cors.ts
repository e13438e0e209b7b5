/**
 * CORS (WHATWG Fetch §3.3) for what the gateway itself answers. What the API allows, it allows by itself: its responses
 * keep their headers.
 */

import type { Context, Next } from 'hono'
import type { RequestPolicy } from '../../core/model/policy.ts'
import { readParameter } from '../../http/request/identity/reading.ts'
import { type Exchange, type ReceivedRequest, readMethods } from '../../http/request/received-request.ts'
import type { RequestLimiter } from '../../http/request/request-limiter.ts'
import { isSynthetic } from '../../http/response/exchange.ts'
import { HEADER_FORMATS } from '../../http/response/rate-limit-headers.ts'
import type { RouteHandler } from '../api/route.ts'
import type { LiveRulesEngine } from '../rules/live-rules-engine.ts'
import type { AppOptions } from './app.ts'

/** Has an app answer pages of the configured origins so that they can read it. @returns the changed options of the app */
export function withCors(
  options: AppOptions,
  limiter: Pick<RequestLimiter, 'decide' | 'findCharges' | 'decideCharges'>,
  rulesEngine: Pick<LiveRulesEngine, 'readActivePolicies'> | undefined,
): AppOptions {
  const { config, proxy, routes, operators, middleware = [] } = options
  const origins = new Set(config.corsOrigins)
  // Browsers show scripts only a few other headers of another origin.
  const exposed = [...HEADER_FORMATS[config.headerFormat].names, 'Retry-After', 'Sluice-Degraded'].join(', ')
  /** Requests whose answer is the API's, or an operator's. */
  const foreign = new WeakSet<Request>()

  function findAllowed(origin: string | null): string | undefined {
    if (origin === null) return undefined
    return origins.has(origin) ? origin : origins.has('*') ? '*' : undefined
  }

  /**
   * No browser sends credentials, a body or another method with it; a request that does is counted, and so is what names a
   * caller, a plan or a cost.
   */
  async function isPreflight({ request, path, context }: Exchange): Promise<boolean> {
    const { method, headers, body } = request
    const mayBe =
      method === 'OPTIONS' &&
      headers.has('Access-Control-Request-Method') &&
      findAllowed(headers.get('Origin')) !== undefined &&
      !headers.has('Authorization') &&
      !headers.has('Cookie') &&
      // Some proxies send `Content-Length: 0` without a body.
      (body === null || headers.get('Content-Length') === '0') &&
      path.ambiguity === undefined &&
      readMethods(request, ['OPTIONS']).isCertain
    if (!mayBe) return false
    const { policies } = (await rulesEngine?.readActivePolicies({ request, context })) ?? config
    const query = new URL(request.url).search.slice(1)
    return !policies.some((policy) => isNamedTo(policy, headers, query))
  }

  const markForeign =
    (handle: RouteHandler): RouteHandler =>
    (request, ...others) => {
      foreign.add(request)
      return handle(request, ...others)
    }

  return {
    ...options,
    limiter: {
      async decide(exchange, decideOptions) {
        if (!(await isPreflight(exchange))) return limiter.decide(exchange, decideOptions)
        const found = await limiter.findCharges(exchange, { ...decideOptions, skips: isForOthers })
        if (!('outcome' in found)) return limiter.decideCharges(found, exchange.context)
        // The page could not read why it is shed, as it can of the request that follows.
        return found.outcome === 'shed' ? { outcome: 'admitted', limits: [] } : found
      },
    },
    async proxy(request, ...others) {
      const response = await proxy(request, ...others)
      if (isSynthetic(response)) return response
      foreign.add(request.raw)
      const origin = request.headers.get('Origin')
      const allowed = response.headers.get('Access-Control-Allow-Origin')
      if (findAllowed(origin) !== undefined && (allowed === '*' || allowed === origin)) {
        response.headers.append('Access-Control-Expose-Headers', exposed)
      }
      return response
    },
    routes: new Map([...routes].map(([name, handle]) => [name, name === 'limits' ? handle : markForeign(handle)])),
    operators: operators && markForeign(operators),
    middleware: [...middleware, setCorsHeaders],
  }

  async function setCorsHeaders(c: Context, next: Next): Promise<void> {
    await next()
    const { raw } = c.req
    const allowed = findAllowed(raw.headers.get('Origin'))
    if (allowed === undefined || foreign.has(raw)) return
    const { headers } = c.res
    headers.set('Access-Control-Allow-Origin', allowed)
    // A page of an origin that is named may be logged in by cookies; one of any origin must not read for its visitor.
    if (allowed !== '*') headers.set('Access-Control-Allow-Credentials', 'true')
    headers.set('Access-Control-Expose-Headers', exposed)
    headers.append('Vary', 'Origin')
  }
}

/** Only policies that name the method count preflights. */
function isForOthers({ match }: RequestPolicy): boolean {
  return !match?.some(({ method }) => method === 'OPTIONS')
}

/** Tests that a request has what a policy counts by, takes a plan from, or reads a cost from, in its headers or its query. */
function isNamedTo({ by, plans, cost }: RequestPolicy, headers: ReceivedRequest['headers'], query: string): boolean {
  const sources = [...by, ...(plans ? [plans.source] : []), ...(cost.kind === 'header' ? [cost] : [])]
  return sources.some((source) => {
    if (source.kind === 'header') return headers.has(source.name)
    return source.kind === 'query' && readParameter(query, source.name).kind !== 'none'
  })
}
