import { HonoBase as Hono } from 'hono/hono-base'
import type { GatewayConfig } from '../config/load-config.ts'
import { type ComposedLimiter, composeLimiter, type LimiterParts } from '../engine/compose-limiter.ts'
import type { Govern, Governed } from '../engine/governed.ts'
import { isConnectionStray } from '../http/hop-by-hop.ts'
import type { Observer } from '../http/observer.ts'
import { createPassedTest } from '../http/passed-fields.ts'
import { NOT_SERVED, problemResponse } from '../http/problem.ts'
import { createProtect, type ProtectOptions } from '../http/protect.ts'
import { requestContext } from '../http/request-context.ts'
import type { Store } from '../model/store.ts'
import { createPathReader, createTargetReader, type Target } from '../request/target.ts'
import type { CallContext } from '../runtime/call-context.ts'
import type { Log } from '../runtime/log.ts'
import type { Reason } from './gateway-problem.ts'
import type { Health } from './health.ts'
import { IncomingRequest } from './incoming-request.ts'
import { OneRoute } from './one-route.ts'
import { createProxy, type ProxyOptions } from './proxy.ts'
import { ReceivedFields } from './received-fields.ts'
import { hasPassed, viaName } from './via.ts'

export interface AppOptions
  extends Pick<LimiterParts, 'createLeases' | 'readClaim' | 'health'>,
    Pick<ProtectOptions, 'holdUntilEnd'> {
  readonly config: GatewayConfig
  readonly store: Store
  /** Calls the upstream. */
  readonly fetch: ProxyOptions['fetch']
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
  readonly log: Log
  /** Makes what follows the rules; left out, there are none. */
  readonly govern?: Govern | undefined
  /** Makes what operators talk to; left out, there is nothing of that kind. */
  readonly createOperate?: CreateOperate | undefined
  /** Makes what is told of each request; left out, nobody is told. */
  readonly createObserver?: CreateObserver | undefined
}

export type CreateObserver = (gateway: Pick<ComposedLimiter, 'decider'>) => Observer

/**
 * Answers what is asked of the gateway itself, other than its health.
 * @returns undefined if nothing is served at this target
 */
export type Operate = (request: Request, target: Target, context: CallContext) => Promise<Response | undefined>

export type CreateOperate = (gateway: OperatedGateway) => Operate

/** What of a running gateway operators see and change. */
export interface OperatedGateway extends ComposedLimiter {
  readonly store: Store
  /** Undefined: no rules are followed. */
  readonly governed: Governed | undefined
  readonly readHealth: () => Promise<Health>
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
  readonly log: Log
}

/** Where the gateway itself answers; no spelling of it is asked of the upstream. */
const OWN_PATH = /[/\\]_sluice(?![\w.~-])/i

/** A host and port (RFC 9110 §7.2), as they occur: a name is of letters, digits, "-", "." and "_". */
const HOST = /^(?:[\w.-]+|\[[\da-f:.]+\])(?::\d*)?$/i

/** Puts the gateway together. Everything that does I/O is handed in. */
export function createApp({
  config,
  store,
  fetch,
  now,
  log,
  createLeases,
  readClaim,
  health,
  holdUntilEnd,
  govern,
  createOperate,
  createObserver,
}: AppOptions): Hono {
  const { upstreamUrl, upstreamTimeoutMs: timeoutMs, dialect, ipv6Prefix } = config
  const composed = composeLimiter(config, { store, now, log, createLeases, readClaim, health })
  const { decider } = composed
  const governed = govern?.(composed)
  const { limiter } = governed ?? composed
  const observer = createObserver?.(composed)
  const protect = createProtect({ limiter, health, holdUntilEnd, dialect, ipv6Prefix, now, observer })
  const name = viaName(config)
  const isPassed = createPassedTest(config.forwardHeaders)
  const proxy = createProxy({ upstreamUrl, timeoutMs, fetch, secret: config.upstreamSecret, isPassed, name, log })
  const targetOf = createTargetReader(createPathReader(config.literalInPaths))
  const hasBasePath = upstreamUrl !== undefined && new URL(upstreamUrl).pathname !== '/'
  let readKnownHealth: (() => Promise<Health>) | undefined
  const readHealth = async () => {
    const { createHealthReader } = await import('./health.ts')
    readKnownHealth ??= createHealthReader(decider, now)
    return readKnownHealth()
  }
  const operate = createOperate?.({ ...composed, governed, store, readHealth, now, log })

  // Routed by the canonical path, as policies are, so that no spelling of /_sluice reaches the upstream.
  const app = new Hono({ getPath: () => '/', router: new OneRoute() })
  app.all('/', async (c) => {
    const { raw } = c.req
    const refuse = async (reason: Reason) => {
      observer?.undecided('bad_request', c.executionCtx)
      return (await import('./gateway-problem.ts')).gatewayProblem(reason)
    }
    const fields = ReceivedFields.of(raw.headers)
    if (!fields) return refuse('headers')
    let request = new IncomingRequest(raw, fields)
    if (/^TRAC[EK]$/.test(request.method)) return refuse('method')
    const target = targetOf(request.url)
    if (typeof target === 'string') return refuse(target)
    // An absolute target has a host of its own, beside which Host must still be one (RFC 9112 §3.2).
    if (!HOST.test(target.host) || !HOST.test(fields.get('Host') ?? target.host)) return refuse('host')
    const { canonical, ambiguity } = target.path
    if (canonical === '/_sluice/health' && /^(?:GET|HEAD)$/.test(request.method)) {
      return (await import('./health.ts')).healthResponse(await readHealth())
    }
    const context = requestContext((work) => c.executionCtx.waitUntil(work), log, raw)
    if (canonical === '/_sluice' || canonical.startsWith('/_sluice/')) {
      return (await operate?.(raw, target, context)) ?? problemResponse(NOT_SERVED)
    }
    if (ambiguity && ((hasBasePath && ambiguity.mayGoUp) || OWN_PATH.test(ambiguity.decoded))) {
      return refuse('ambiguous')
    }
    if (isConnectionStray(fields)) return refuse('connection')
    if (hasPassed(fields.get('Via'), name)) return refuse('loop')
    if (request.method === 'OPTIONS' && fields.has('Max-Forwards')) {
      const counted = (await import('./max-forwards.ts')).countDown(request)
      if (counted instanceof Response) return counted
      request = counted
    }
    try {
      return await protect(request, target.path, context, {
        next: (_, signal) => proxy(request, target, context.deadlines, signal),
      })
    } finally {
      // The runtime would drop their timer with the request, which costs more.
      context.deadlines.end()
    }
  })
  app.onError(async (error) => {
    log('error', { event: 'unexpected_error', error: error.name })
    return (await import('./gateway-problem.ts')).gatewayProblem('failed')
  })
  return app
}
