/** The app: refuses what cannot be read in one way only, decides the rest, and forwards what is admitted. */
import type { ExecutionContext } from 'hono'
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
import type { LiveRulesEngine } from '../rules/live-rules-engine.ts'
import type { Reason } from './gateway-problem.ts'
import type { Health } from './health.ts'
import type { OwnAppOptions } from './own-app.ts'
import { isLoop, type UpstreamProxy } from './proxy.ts'

export interface App {
  fetch(request: Request, env: Environment, context: ExecutionContext): Response | Promise<Response>
}

export interface AppOptions
  extends Omit<ProtectOptions, 'headerFormat' | 'ipv6Prefix'>,
    Pick<OwnAppOptions, 'readHealth' | 'routes' | 'operators' | 'log'> {
  readonly config: Config
  /** Names this deployment in `Via`, which shows a loop: see `createViaName`. */
  readonly viaName: string
  readonly proxy: UpstreamProxy
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

/** The canonical path of the gateway itself. */
const OWN = '/_sluice'

/** Paths of the gateway itself; no spelling of them is forwarded to the upstream. */
const OWN_PATH = /[/\\]_sluice(?![\w.~-])/i

/** A host and port (RFC 9110 §7.2); names consist of letters, digits, "-", "." and "_". */
const HOST = /^(?:[\w.-]+|\[[\da-fA-F:.]+\])(?::\d*)?$/

export function createApp({ config, viaName, proxy, readHealth, routes, operators, log, ...options }: AppOptions): App {
  const { upstreamUrl, headerFormat, ipv6Prefix } = config
  const protect = createProtect({ ...options, headerFormat, ipv6Prefix })
  const readTarget = createTargetReader(createPathReader(config.literalInPaths))
  const hasBasePath = upstreamUrl !== undefined && new URL(upstreamUrl).pathname !== '/'

  // Routed by the canonical path, as policies are, so that no spelling of /_sluice reaches the upstream.
  const getPath = ({ url }: Request) => {
    const target = readTarget(url)
    return typeof target === 'string' ? '/' : target.path.canonical
  }
  const loadOwnApp = createLoader(async () => {
    const { createOwnApp } = await import('./own-app.ts')
    return createOwnApp({ readHealth, routes, operators, log, getPath, receive, refuse })
  })

  return {
    async fetch(raw, env, executionCtx) {
      try {
        if (isOwn(getPath(raw))) return await (await loadOwnApp()).fetch(raw, env, executionCtx)
        const response = await answer(raw, executionCtx)
        // RFC 9110 §9.3.2
        return raw.method === 'HEAD' ? new Response(null, response) : response
      } catch (error) {
        if (!(error instanceof Error)) throw error
        log('error', { event: 'unexpected_error', error: error.name })
        return answerProblem('failed')
      }
    },
  }

  /** Takes a request to the upstream, or refuses it. */
  async function answer(raw: Request, executionCtx: ExecutionContext): Promise<Response> {
    const received = receive(raw)
    if (typeof received === 'string') return refuse(received, executionCtx)
    const { target, fields } = received
    const { ambiguity } = target.path
    if (ambiguity && ((hasBasePath && ambiguity.mayGoUp) || OWN_PATH.test(ambiguity.decoded))) {
      return refuse('ambiguous', executionCtx)
    }
    if (isConnectionStray(fields)) return refuse('connection', executionCtx)
    if (isLoop(fields.get('Via'), viaName)) return refuse('loop', executionCtx)
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
  }

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
    if (raw.method === 'TRACE' || raw.method === 'TRACK') return 'method'
    const target = readTarget(raw.url)
    if (typeof target === 'string') return target
    // An absolute target has its own host, but Host must still be valid (RFC 9112 §3.2).
    return HOST.test(target.host) && HOST.test(fields.get('Host') ?? target.host) ? { fields, target } : 'malformed'
  }
}

function isOwn(path: string): boolean {
  return path === OWN || path.startsWith(`${OWN}/`)
}
