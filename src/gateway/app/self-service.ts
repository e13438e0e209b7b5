/** `GET /_sluice/limits`: what is left for the caller. */

import type { RequestCharge } from '../../core/model/charge.ts'
import { toLimitStatus } from '../../core/model/verdict.ts'
import type { Config } from '../../http/config/load-config.ts'
import { readCallerAddress } from '../../http/request/identity/address.ts'
import type { RequestLimiter } from '../../http/request/request-limiter.ts'
import { createPathReader } from '../../http/request/target.ts'
import { createProblem, createProblemResponse, createTemporary } from '../../http/response/problem.ts'
import { setRateLimitHeaders } from '../../http/response/rate-limit-headers.ts'
import { createRefusal } from '../../http/response/refusal.ts'
import { createAddressLimit } from '../api/address-limit.ts'
import type { RouteHandler } from '../api/route.ts'

/** Answers of each isolate to an address: each costs a call to the store, whatever the caller's own limits. */
const ANSWERS = { limit: 60, windowMs: 60_000 }

const WRONG_METHOD = createProblem('method_not_allowed', 405, 'Method not allowed; use GET.', {
  headers: { Allow: 'GET, HEAD, OPTIONS' },
})
const WRONG_PARAMETER = createProblem(
  'invalid_input',
  400,
  'Parameters are path, which begins with "/", and method, in capital letters.',
)

export function createSelfService(
  config: Pick<Config, 'policies' | 'headerFormat' | 'ipv6Prefix' | 'literalInPaths'>,
  limiter: Pick<RequestLimiter, 'findCharges' | 'decideCharges'>,
  now: () => number,
): RouteHandler {
  const { policies, headerFormat, ipv6Prefix, literalInPaths } = config
  const findWaitMs = createAddressLimit(ANSWERS, now)
  const readPath = createPathReader(literalInPaths)
  const sources = policies.flatMap(({ by, plans }) => (plans ? [...by, plans.source] : by))
  const named = sources.flatMap((source) => (source.kind === 'header' ? source.name : []))
  const preflight = {
    'Access-Control-Allow-Methods': 'GET, HEAD',
    // The star does not include Authorization, nor anything for a page that sends cookies.
    'Access-Control-Allow-Headers': ['*', 'Authorization', ...new Set(named)].join(', '),
  }

  return async function answerLimits(request, { scheme, host }, context) {
    const { method, headers, cf } = request
    if (method === 'OPTIONS')
      return new Response(null, { status: 204, headers: { ...WRONG_METHOD.headers, ...preflight } })
    if (method !== 'GET' && method !== 'HEAD') return createProblemResponse(WRONG_METHOD)
    const waitMs = findWaitMs(readCallerAddress(request, ipv6Prefix))
    if (waitMs !== undefined) {
      const detail = `Rate limit exceeded: ${ANSWERS.limit} requests per 1m.`
      return createProblemResponse(createTemporary('limit_exceeded', 429, detail, waitMs))
    }

    const { path = '/', method: about = 'GET', ...others } = Object.fromEntries(new URL(request.url).searchParams)
    const url = `${scheme}://${host}${path}`
    const isReadable = path.startsWith('/') && /^[A-Z]{1,32}$/.test(about) && URL.canParse(url)
    if (!isReadable || Object.keys(others).length > 0) return createProblemResponse(WRONG_PARAMETER)
    const { origin, pathname } = new URL(url)
    const queried = { method: about, url: origin + pathname, headers, cf, body: null, clone: () => ({ body: null }) }
    const exchange = { request: queried, path: readPath(pathname), context }
    const charges = await limiter.findCharges(exchange, { skips: isElsewhere })
    const verdict =
      'outcome' in charges
        ? charges
        : await limiter.decideCharges(charges.map(withoutShadow), context, { action: 'peek', permits: 1 })
    // The reason of a block is for those who call the API.
    if (verdict.outcome === 'blocked') return createRefusal({ outcome: 'blocked', status: verdict.status })
    const response =
      'limits' in verdict
        ? Response.json({ limits: verdict.limits.map(toLimitStatus) }, { headers: { 'Cache-Control': 'no-store' } })
        : createRefusal(verdict)
    setRateLimitHeaders(response.headers, verdict, headerFormat, now)
    return response
  }
}

/** This request has neither the query nor the body that the policy counts by. */
function isElsewhere({ by }: RequestCharge['policy']): boolean {
  return by.some(({ kind }) => kind === 'query' || kind === 'form' || kind === 'json')
}

/** Otherwise, the log would report a request that shadow mode admits. */
function withoutShadow(charge: RequestCharge): RequestCharge {
  return { ...charge, policy: { ...charge.policy, mode: 'enforce' } }
}
