import { Hono } from 'hono/tiny'
import type { Config } from '../config/load-config.ts'
import { Deadlines } from '../store/deadlines.ts'
import { createGateway } from '../http/protect.ts'
import { createHealth } from './health.ts'
import { isConnectionStray } from './hop-by-hop.ts'
import { ambiguousTarget, type Problem, problemResponse } from '../http/problem.ts'
import { createProxy, type ProxyOptions } from './proxy.ts'
import { createTargetReader, hasTooManyFields, type NoTarget, type Target } from './target.ts'
import { hasPassed, loopDetected, viaName } from './via.ts'
import { Limiter } from '../limiter/limiter.ts'
import { type Log, throttle } from '../decide/log.ts'
import { GuardedStore } from '../decide/guarded-store.ts'
import { createPathReader } from '../request/policy/request-path.ts'
import { UpstreamHealth } from '../limiter/shedding/upstream-health.ts'
import { DenyCache } from '../decide/deny-cache.ts'
import { Leases } from '../decide/leases.ts'
import { MemoryStore } from '../store/memory/memory-store.ts'
import { type Store, StoreError } from '../store/store.ts'
import type { WaitUntil } from '../store/call-context.ts'

export interface AppOptions {
  readonly config: Config
  readonly store: Store
  /** Calls the upstream. */
  readonly fetch: ProxyOptions['fetch']
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
  readonly log: Log
}

/** Where the gateway itself answers; in no spelling is it asked of the upstream. */
const OWN_PATH = /[/\\]_sluice(?![\w.~-])/i

/** Puts the gateway together. Everything that does I/O is handed in. */
export function createApp({ config, store: unguarded, fetch, now, log: everything }: AppOptions): Hono {
  const { upstreamUrl, upstreamTimeoutMs: timeoutMs, dialect, ipv6Prefix } = config
  const log = throttle(everything, now)
  const store = new GuardedStore({ store: unguarded, now, timeoutMs: config.storeTimeoutMs, log })
  const health = config.isShedding ? new UpstreamHealth(now) : undefined
  const asked = new DenyCache(store, now)
  const decider = config.leases === undefined ? asked : new Leases(asked, now, config.leases)
  const limiter = new Limiter({ config, store, decider, fallback: new MemoryStore(now), health, now, log })
  const name = viaName(config)
  const proxy = createProxy({ upstreamUrl, timeoutMs, fetch, name, log })
  const gateway = createGateway({ limiter, proxy, health, dialect, ipv6Prefix, now })

  const targetOf = createTargetReader(createPathReader(config.literalInPaths))
  const hasBasePath = upstreamUrl !== undefined && new URL(upstreamUrl).pathname !== '/'
  // Asked for by the router, and again by what it leads to.
  let latest: { readonly request: Request; readonly target: Target | NoTarget } | undefined
  const latestTargetOf = (request: Request) => {
    if (latest?.request !== request) {
      latest = { request, target: hasTooManyFields(request.headers) ? 'too-many-fields' : targetOf(request.url) }
    }
    return latest.target
  }

  // Routed by the canonical path, as policies are: no spelling of /_sluice reaches the upstream.
  const app = new Hono({
    getPath(request) {
      const target = latestTargetOf(request)
      return typeof target === 'string' ? '/' : target.path.canonical
    },
  })
  app.get('/_sluice/health', createHealth(store, now))
  app.all('/_sluice/*', () =>
    problemResponse({ status: 404, title: 'Not Found', detail: 'Sluice serves nothing at this path.' }),
  )
  app.all('*', async (c) => {
    const request = c.req.raw
    const target = latestTargetOf(request)
    if (typeof target === 'string') return problemResponse(NO_TARGET[target])
    const { ambiguity } = target.path
    if (ambiguity && ((hasBasePath && ambiguity.mayGoUp) || OWN_PATH.test(ambiguity.decoded))) return ambiguousTarget()
    if (isConnectionStray(request.headers)) {
      const detail = 'The field Connection names a field that is not about the connection, or too many.'
      return problemResponse({ status: 400, title: 'Bad Request', detail })
    }
    if (hasPassed(request.headers.get('Via'), name)) return loopDetected()
    const deadlines = new Deadlines()
    const waitLong = (work: Promise<unknown>) => {
      const logged = work.catch((error: unknown) => {
        log('error', { event: 'after_response', message: error instanceof StoreError ? error.message : 'failed' })
      })
      c.executionCtx.waitUntil(logged)
    }
    const waitUntil: WaitUntil = Object.assign(waitLong, { deadlines })
    try {
      return await gateway(request, target, waitUntil)
    } finally {
      deadlines.end()
    }
  })
  app.onError((error) => {
    log('error', { event: 'unexpected_error', error: error.name })
    const detail = 'The gateway failed on this request.'
    return problemResponse({ status: 500, title: 'Internal Server Error', detail })
  })
  return app
}

const NO_TARGET: Readonly<Record<NoTarget, Problem>> = {
  malformed: { status: 400, title: 'Bad Request', detail: 'Target and Host of the request make no URL.' },
  'too-long': { status: 414, title: 'URI Too Long', detail: 'The URL of the request is too long.' },
  'too-many-fields': {
    status: 431,
    title: 'Request Header Fields Too Large',
    detail: 'The request has too many fields.',
  },
}
