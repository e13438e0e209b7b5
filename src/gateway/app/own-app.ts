/** The Hono app below `/_sluice`: answers of the gateway itself. Loaded with the first request for one. */
import { HonoBase as Hono } from 'hono/hono-base'
import { LinearRouter } from 'hono/router/linear-router'
import type { CallContext } from '../../core/runtime/call-context.ts'
import type { Log } from '../../core/runtime/log.ts'
import type { RequestTarget } from '../../http/request/target.ts'
import { createRequestContext } from '../../http/response/exchange.ts'
import type { RouteHandler } from '../api/route.ts'
import { createGatewayProblem, type Reason, serveErrors } from './gateway-problem.ts'
import { createHealthResponse, type Health } from './health.ts'

export interface OwnAppOptions {
  readonly readHealth: () => Promise<Health>
  /** Answers of the gateway itself, by path below `/_sluice/`. */
  readonly routes: ReadonlyMap<string, RouteHandler>
  /** Answers everything else below `/_sluice`. */
  readonly operators: RouteHandler | undefined
  readonly log: Log
  /** Reads the canonical path of a request that has one. */
  readonly getPath: (request: Request) => string
  /** @returns why a request cannot be handled, or what has been read of it */
  readonly receive: (raw: Request) => Reason | { readonly target: RequestTarget }
  readonly refuse: (reason: Reason, context: Pick<CallContext, 'waitUntil'>) => Promise<Response>
}

const ROOT = '/_sluice/'

export function createOwnApp({ readHealth, routes, operators, log, getPath, receive, refuse }: OwnAppOptions): Hono {
  const app = new Hono({ getPath, router: new LinearRouter() })

  app.get('/_sluice/health', async ({ req, executionCtx }) => {
    const received = receive(req.raw)
    return typeof received === 'string' ? refuse(received, executionCtx) : createHealthResponse(await readHealth())
  })
  app.get('/_sluice/errors', serveErrors)
  app.all('/_sluice/*', async ({ req: { raw }, executionCtx }) => {
    const received = receive(raw)
    if (typeof received === 'string') return refuse(received, executionCtx)
    const { target } = received
    const handle = routes.get(target.path.canonical.slice(ROOT.length)) ?? operators
    const context = createRequestContext((work) => executionCtx.waitUntil(work), log, raw)
    try {
      return (await handle?.(raw, target, context)) ?? createGatewayProblem('not-served')
    } finally {
      context.deadlines.end()
    }
  })
  app.onError((error) => {
    throw error
  })
  return app
}
