/** Decisions for other programs and for proxies, below `/_sluice/`. Loaded only if there is a DECIDE_TOKEN. */

import type { MiddlewareHandler } from 'hono'
import type { Config } from '../../http/config/load-config.ts'
import type { Observer } from '../../http/response/exchange.ts'
import { createProblem, createProblemResponse } from '../../http/response/problem.ts'
import { createTokenCheck } from '../api/auth.ts'
import type { ApiOperation } from '../api/operation.ts'
import type { RouteHandler } from '../api/route.ts'
import { createGuard, HEADERS } from '../api/route.ts'
import type { App, GatewayContext } from '../app/app.ts'
import { AUTHORIZE, createAuthorize, PATH, TOKEN_FIELD, toForwarded, toKnownRefusal } from './authorize.ts'
import { createDecisionHandler, DECIDE } from './decide.ts'

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

/** Adds the routes of decisions to those of a gateway, whose app `refuseStray` must then guard. */
export function addDecisions(
  routes: Map<string, RouteHandler>,
  config: Config,
  gateway: GatewayContext,
  observer: Observer | undefined,
): void {
  const isToken = createTokenCheck(config.decideToken ?? '')
  const guard = createGuard(isToken, 'DECIDE_TOKEN', 'sluice-decide')
  routes
    .set('decide', guard(['POST'], createDecisionHandler(config, gateway)))
    .set('openapi.json', guard(['GET'], describeDecisions))
    .set('authorize', createAuthorize(isToken, config, observer, gateway))
}

/**
 * Refuses what a proxy asks at any other path: dot segments of a client may have led out of the prefix that the proxy
 * has put before its path, and the proxy would take a response of the API for a permission.
 * @param getApp the app whose middleware it is
 */
export function refuseStray(getApp: () => App): MiddlewareHandler {
  return async function refuse(c, next) {
    const { raw } = c.req
    const { pathname, searchParams: query } = new URL(raw.url)
    if (pathname === PATH) {
      await next()
      // What is refused before it is decided as well, such as too many headers.
      if (query.get('refusals') !== '403') return undefined
      const response = toKnownRefusal(c.res)
      // Hono would add the fields of the one before.
      c.res = undefined
      c.res = response
      return undefined
    }
    if (!raw.headers.has(TOKEN_FIELD)) return next()
    return pathname.startsWith(`${PATH}/`)
      ? getApp().fetch(toForwarded(raw), c.env, c.executionCtx)
      : createProblemResponse(STRAY)
  }
}

async function describeDecisions(): Promise<Response> {
  const { describeApi } = await import('../api/open-api.ts')
  const operations: readonly ApiOperation[] = [DECIDE, AUTHORIZE]
  return Response.json(describeApi(operations, ABOUT), { headers: HEADERS })
}
