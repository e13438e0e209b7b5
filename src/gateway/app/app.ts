/** The Hono app: refuses what cannot be read in one way only, decides the rest, and forwards what is admitted. */
import type { ExecutionContext } from 'hono'
import { HonoBase as Hono } from 'hono/hono-base'
import { LinearRouter } from 'hono/router/linear-router'
import type { DecisionWatch } from '../../core/engine/decision-watch.ts'
import type { Store } from '../../core/model/store.ts'
import type { CallContext } from '../../core/runtime/call-context.ts'
import { createLoader } from '../../core/runtime/create-loader.ts'
import type { Log } from '../../core/runtime/log.ts'
import type { Config, Environment } from '../../http/config/load-config.ts'
import type { ObservedRequest } from '../../http/request/rate-limit.ts'
import type { ComposedLimiter } from '../../http/request/request-limiter.ts'
import { createPathReader, createTargetReader } from '../../http/request/target.ts'
import { createRequestContext } from '../../http/response/exchange.ts'
import { isConnectionStray } from '../../http/response/forwarded-headers.ts'
import { IncomingRequest, RequestHeaders } from '../../http/response/incoming-request.ts'
import { createProtect, type ProtectOptions } from '../../http/response/protect.ts'
import type { ObservedDecision } from '../../library/decision.ts'
import type { RouteHandler } from '../api/route.ts'
import type { LiveRulesEngine } from '../rules/live-rules-engine.ts'
import type { Reason } from './gateway-problem.ts'
import { createHealthResponse, type Health } from './health.ts'
import { createViaName, isLoop, type UpstreamProxy } from './proxy.ts'

export interface App {
  fetch(request: Request, env: Environment, context: ExecutionContext): Response | Promise<Response>
}

export interface AppOptions extends Omit<ProtectOptions, 'headerFormat' | 'ipv6Prefix'> {
  readonly config: Config
  readonly proxy: UpstreamProxy
  readonly readHealth: () => Promise<Health>
  /** Answers of the gateway itself, by path below `/_sluice/`. */
  readonly routes: ReadonlyMap<string, RouteHandler>
  /** Answers everything else below `/_sluice`. */
  readonly operators: RouteHandler | undefined
  readonly log: Log
}

/** Tells a function of each decision: of a proxy's request as the middleware does, of a question as the library does. */
export interface DecisionHook extends DecisionWatch {
  onDecision(decision: ObservedRequest | Omit<ObservedDecision, 'charged'>): void
}

export interface GatewayContext extends ComposedLimiter {
  readonly watch: DecisionHook | undefined
  readonly store: Store
  readonly rulesEngine: LiveRulesEngine | undefined
  readonly readHealth: () => Promise<Health>
  readonly now: () => number
  readonly log: Log
}

const loadRefusal = createLoader(() => import('../../http/response/refusal.ts'))
const loadProblem = createLoader(() => import('./gateway-problem.ts'))

const ROOT = '/_sluice/'

/** Paths of the gateway itself; no spelling of them is forwarded to the upstream. */
const OWN_PATH = /[/\\]_sluice(?![\w.~-])/i

/** A host and port (RFC 9110 §7.2); names consist of letters, digits, "-", "." and "_". */
const HOST = /^(?:[\w.-]+|\[[\da-f:.]+\])(?::\d*)?$/i

export function createApp({ config, proxy, readHealth, routes, operators, log, ...options }: AppOptions): App {
  const { upstreamUrl, headerFormat, ipv6Prefix } = config
  const protect = createProtect({ ...options, headerFormat, ipv6Prefix })
  const name = createViaName(config)
  const readTarget = createTargetReader(createPathReader(config.literalInPaths))
  const hasBasePath = upstreamUrl !== undefined && new URL(upstreamUrl).pathname !== '/'

  // Routed by the canonical path, as policies are, so that no spelling of /_sluice reaches the upstream.
  const getPath = ({ url }: Request) => {
    const target = readTarget(url)
    return typeof target === 'string' ? '/' : target.path.canonical
  }
  const app = new Hono({ getPath, router: new LinearRouter() })

  app.get('/_sluice/health', async ({ req, executionCtx }) => {
    const received = receive(req.raw)
    return typeof received === 'string' ? refuse(received, executionCtx) : createHealthResponse(await readHealth())
  })
  app.get('/_sluice/errors', async () => (await loadProblem()).serveErrors())
  app.all('/_sluice/*', async ({ req: { raw }, executionCtx }) => {
    const received = receive(raw)
    if (typeof received === 'string') return refuse(received, executionCtx)
    const { target } = received
    const handle = routes.get(target.path.canonical.slice(ROOT.length)) ?? operators
    const context = createRequestContext((work) => executionCtx.waitUntil(work), log, raw)
    try {
      return (await handle?.(raw, target, context)) ?? answerProblem('not-served')
    } finally {
      context.deadlines.end()
    }
  })
  app.all('*', async ({ req: { raw }, executionCtx }) => {
    const received = receive(raw)
    if (typeof received === 'string') return refuse(received, executionCtx)
    const { target, fields } = received
    const { ambiguity } = target.path
    if (ambiguity && ((hasBasePath && ambiguity.mayGoUp) || OWN_PATH.test(ambiguity.decoded))) {
      return refuse('ambiguous', executionCtx)
    }
    if (isConnectionStray(fields)) return refuse('connection', executionCtx)
    if (isLoop(fields.get('Via'), name)) return refuse('loop', executionCtx)
    let request = new IncomingRequest(raw, fields)
    if (request.method === 'OPTIONS' && fields.has('Max-Forwards')) {
      const counted = (await loadProblem()).countDown(request)
      if (counted instanceof Response) return counted
      request = counted
    }
    const context = createRequestContext((work) => executionCtx.waitUntil(work), log, raw)
    try {
      return await protect({ request, path: target.path, context }, (verdict, signal) =>
        verdict.outcome === 'admitted'
          ? proxy(request, target, context.deadlines, signal, verdict.settlement)
          : loadRefusal().then(({ createRefusal }) => createRefusal(verdict, fields)),
      )
    } finally {
      // The runtime would drop the timer with the request, which costs more.
      context.deadlines.end()
    }
  })
  app.onError(async (error) => {
    log('error', { event: 'unexpected_error', error: error.name })
    return answerProblem('failed')
  })
  return app

  async function refuse(reason: Reason, context: Pick<CallContext, 'waitUntil'>): Promise<Response> {
    options.observer?.onUndecided('bad_request', context)
    return answerProblem(reason)
  }

  async function answerProblem(reason: Reason): Promise<Response> {
    return (await loadProblem()).createGatewayProblem(reason)
  }

  /** @returns why it cannot be handled, or what has been read of it */
  function receive(raw: Request) {
    const fields = RequestHeaders.read(raw.headers)
    if (!fields) return 'headers'
    if (/^TRAC[EK]$/.test(raw.method)) return 'method'
    const target = readTarget(raw.url)
    if (typeof target === 'string') return target
    // An absolute target has its own host, but Host must still be valid (RFC 9112 §3.2).
    return HOST.test(target.host) && HOST.test(fields.get('Host') ?? target.host) ? { fields, target } : 'malformed'
  }
}
