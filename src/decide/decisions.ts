/** Decisions for other programs and for proxies, below `/_sluice/`. Loaded only if there is a DECIDE_TOKEN. */

import { createTokenCheck, readBearerToken } from '../admin/auth.ts'
import type { Described } from '../admin/open-api.ts'
import { HEADERS } from '../admin/operation.ts'
import type { Config } from '../config/load-config.ts'
import type { App, GatewayContext, RouteHandler } from '../gateway/app.ts'
import type { Observer } from '../http/exchange.ts'
import { createProblem, createProblemResponse } from '../http/problem.ts'
import { AUTHORIZE, createAuthorize, PATH, TOKEN_FIELD, toForwarded } from './authorize.ts'
import { createDecide, DECIDE } from './decide.ts'

const UNAUTHORIZED = createProblem('unauthorized', 401, 'Missing or invalid DECIDE_TOKEN (Authorization: Bearer).', {
  headers: { 'WWW-Authenticate': 'Bearer realm="sluice-decide"' },
})

const STRAY = createProblem('not_found', 404, `${TOKEN_FIELD} is for ${PATH}.`)

const ABOUT = {
  title: 'Sluice, for programs and proxies',
  description: 'Decisions, by the limits of the configuration or by others. Errors are application/problem+json.',
  url: '/_sluice',
  securitySchemes: {
    token: { type: 'http', scheme: 'bearer', description: 'DECIDE_TOKEN.' },
    proxy: { type: 'apiKey', in: 'header', name: TOKEN_FIELD, description: 'DECIDE_TOKEN; for `/authorize` alone.' },
  },
}

/** Adds the routes of decisions to those of a gateway. @returns the gateway, as proxies may ask it */
export function openDecisions(
  app: App,
  routes: Map<string, RouteHandler>,
  config: Config,
  gateway: GatewayContext,
  statistics: { readonly observer: Observer } | undefined,
): App {
  const isToken = createTokenCheck(config.decideToken ?? '')
  routes
    .set('decide', protectRoute('POST', createDecide(config, gateway)))
    .set('openapi.json', protectRoute('GET', describeDecisions))
    .set('authorize', createAuthorize(isToken, config, statistics?.observer, gateway))
  return guard(app)

  function protectRoute(method: string, handle: RouteHandler): RouteHandler {
    const wrongMethod = createProblem('method_not_allowed', 405, `Method not allowed; use ${method}.`, {
      headers: { Allow: method },
    })
    return async (request, ...rest) => {
      if (!isToken(readBearerToken(request) ?? '')) return createProblemResponse(UNAUTHORIZED)
      return request.method === method ? handle(request, ...rest) : createProblemResponse(wrongMethod)
    }
  }
}

/**
 * Refuses what a proxy asks at any other path: dot segments of a client may have led out of the prefix that the proxy
 * has put before its path, and the proxy would take a response of the API for a permission.
 */
function guard(app: App): App {
  return {
    fetch(request, ...rest) {
      if (!request.headers.has(TOKEN_FIELD)) return app.fetch(request, ...rest)
      const { pathname } = new URL(request.url)
      if (pathname.startsWith(`${PATH}/`)) return app.fetch(toForwarded(request), ...rest)
      return pathname === PATH ? app.fetch(request, ...rest) : createProblemResponse(STRAY)
    },
  }
}

async function describeDecisions(): Promise<Response> {
  const { describeApi } = await import('../admin/open-api.ts')
  const operations: readonly Described[] = [DECIDE, AUTHORIZE]
  return Response.json(describeApi(operations, ABOUT), { headers: HEADERS })
}
