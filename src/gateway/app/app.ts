/** The Hono app: refuses what cannot be read in one way only, decides the rest, and forwards what is admitted. */
import type { Context, ExecutionContext, MiddlewareHandler } from 'hono'
import { HonoBase as Hono } from 'hono/hono-base'
import { LinearRouter } from 'hono/router/linear-router'
import type { DecisionWatch } from '../../core/engine/decision-watch.ts'
import type { Store } from '../../core/model/store.ts'
import type { CallContext, Timers } from '../../core/runtime/call-context.ts'
import type { Log } from '../../core/runtime/log.ts'
import type { Config, Environment } from '../../http/config/load-config.ts'
import type { ObservedRequest } from '../../http/request/rate-limit.ts'
import type { ComposedLimiter } from '../../http/request/request-limiter.ts'
import { createPathReader, createTargetReader, type RequestTarget } from '../../http/request/target.ts'
import { createRequestContext } from '../../http/response/exchange.ts'
import { isConnectionStray } from '../../http/response/forwarded-headers.ts'
import { IncomingRequest, RequestHeaders } from '../../http/response/incoming-request.ts'
import { createProtect, type ProtectOptions } from '../../http/response/protect.ts'
import { createRefusal } from '../../http/response/refusal.ts'
import type { ObservedDecision } from '../../library/decision.ts'
import type { RouteHandler } from '../api/route.ts'
import type { LiveRulesEngine } from '../rules/live-rules-engine.ts'
import { countDown, createGatewayProblem, type Reason, serveErrors } from './gateway-problem.ts'
import { createHealthResponse, type Health } from './health.ts'
import { isLoop, type UpstreamProxy } from './proxy.ts'

export interface App {
  fetch(request: Request, env: Environment, context: ExecutionContext): Response | Promise<Response>
}

export interface AppOptions extends Omit<ProtectOptions, 'headerFormat' | 'ipv6Prefix'> {
  readonly config: Config
  /** Names this deployment in `Via`, which shows a loop: see `createViaName`. */
  readonly viaName: string
  readonly proxy: UpstreamProxy
  readonly readHealth: () => Promise<Health>
  /** Answers of the gateway itself, by path below `/_sluice/`. */
  readonly routes: ReadonlyMap<string, RouteHandler>
  /** Answers everything else below `/_sluice`. */
  readonly operators: RouteHandler | undefined
  /** Surrounds all answers. */
  readonly middleware?: readonly MiddlewareHandler[]
  readonly timers?: Timers | undefined
  /** Tests that a request comes with the variables of the app. */
  readonly isOwnEnvironment?: ((env: Environment | undefined) => boolean) | undefined
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

const ROOT = '/_sluice/'

/** Paths of the gateway itself; no spelling of them is forwarded to the upstream. */
const OWN_PATH = /[/\\]_sluice(?![\w.~-])/i

/** A host and port (RFC 9110 §7.2); names consist of letters, digits, "-", "." and "_". */
const HOST = /^(?:[\w.-]+|\[[\da-fA-F:.]+\])(?::\d*)?$/

/** A request that can be read in one way only, as far as it has been read. */
interface ReadableRequest {
  readonly fields: RequestHeaders
  readonly target: RequestTarget
}

export function createApp(app: AppOptions): Hono {
  const { config, viaName, proxy, readHealth, routes, operators, middleware = [], timers, log, ...options } = app
  const { upstreamUrl, headerFormat, ipv6Prefix } = config
  const protect = createProtect({ ...options, headerFormat, ipv6Prefix })
  const readTarget = createTargetReader(createPathReader(config.literalInPaths))
  const hasBasePath = upstreamUrl !== undefined && new URL(upstreamUrl).pathname !== '/'

  // Routed by the canonical path, as policies are, so that no spelling of /_sluice reaches the upstream.
  const getPath = ({ url }: Request) => {
    const target = readTarget(url)
    return typeof target === 'string' ? '/' : target.path.canonical
  }
  const hono = new Hono({ getPath, router: new LinearRouter() })
  for (const handler of middleware) hono.use(handler)
  return hono
    .get('/_sluice/health', createHandler(answerHealth))
    .get('/_sluice/errors', serveErrors)
    .all('/_sluice/*', createHandler(answerItself))
    .all('*', createHandler(limitAndForward))
    .onError((error) => {
      log('error', { event: 'unexpected_error', error: error.name })
      return createGatewayProblem('failed')
    })

  /** Refuses requests that could be read in several ways, before anything else looks at them. */
  function createHandler(
    answer: (raw: Request, received: ReadableRequest, context: ExecutionContext) => Promise<Response>,
  ) {
    return ({ req: { raw }, env, executionCtx }: Context) => {
      const received = receive(raw, env)
      return typeof received === 'string' ? refuse(received, executionCtx) : answer(raw, received, executionCtx)
    }
  }

  async function answerHealth(): Promise<Response> {
    return createHealthResponse(await readHealth())
  }

  async function answerItself(
    raw: Request,
    { target }: ReadableRequest,
    executionCtx: ExecutionContext,
  ): Promise<Response> {
    const answer = routes.get(target.path.canonical.slice(ROOT.length)) ?? operators
    const context = createContext(raw, executionCtx)
    try {
      return (await answer?.(raw, target, context)) ?? createGatewayProblem('not-served')
    } finally {
      context.deadlines.end()
    }
  }

  /** One handler for both: between two, Hono would merge the headers of two responses. */
  async function limitAndForward(raw: Request, { target, fields }: ReadableRequest, executionCtx: ExecutionContext) {
    const { ambiguity } = target.path
    if (ambiguity && ((hasBasePath && ambiguity.mayGoUp) || OWN_PATH.test(ambiguity.decoded))) {
      return refuse('ambiguous', executionCtx)
    }
    if (isConnectionStray(fields)) return refuse('connection', executionCtx)
    if (isLoop(fields.get('Via'), viaName)) return refuse('loop', executionCtx)
    let request = new IncomingRequest(raw, fields)
    if (request.method === 'OPTIONS' && fields.has('Max-Forwards')) {
      const counted = countDown(request)
      if (counted instanceof Response) return counted
      request = counted
    }
    const context = createContext(raw, executionCtx)
    const { deadlines } = context
    try {
      return await protect({ request, path: target.path, context }, (verdict, signal) =>
        verdict.outcome === 'admitted'
          ? proxy(request, target, { deadlines, executionCtx, signal, settlement: verdict.settlement })
          : createRefusal(verdict, fields),
      )
    } finally {
      // The runtime would drop the timer with the request, which costs more.
      deadlines.end()
    }
  }

  function createContext(raw: Request, executionCtx: Pick<ExecutionContext, 'waitUntil'>): CallContext {
    return createRequestContext((work) => executionCtx.waitUntil(work), log, raw, timers)
  }

  function refuse(reason: Reason, context: Pick<CallContext, 'waitUntil'>): Response {
    options.observer?.onUndecided('bad_request', context)
    return createGatewayProblem(reason)
  }

  function receive(raw: Request, env: Environment | undefined): Reason | ReadableRequest {
    if (app.isOwnEnvironment?.(env) === false) return 'foreign-variables'
    const fields = RequestHeaders.read(raw.headers)
    if (!fields) return 'headers'
    if (raw.method === 'TRACE' || raw.method === 'TRACK') return 'method'
    const target = readTarget(raw.url)
    if (typeof target === 'string') return target
    // An absolute target has its own host, but Host must still be valid (RFC 9112 §3.2).
    return HOST.test(target.host) && HOST.test(fields.get('Host') ?? target.host) ? { fields, target } : 'malformed'
  }
}
