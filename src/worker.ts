/**
 * The gateway, as a Worker.
 * @module sluice/worker
 */
import type { ExecutionContext } from 'hono'
import type { AdminOptions } from './admin/admin.ts'
import { ConfigError } from './config/config-error.ts'
import { type Config, type Environment, isFetcher, loadConfig, OBJECTS, type StoreKind } from './config/load-config.ts'
import type { ShadowStoreCounts } from './engine/shadowed-store.ts'
import { type AppOptions, createApp } from './gateway/app.ts'
import type { OpenStatistics } from './gateway/statistics.ts'
import { problemResponse } from './http/problem.ts'
import type { Store } from './model/store.ts'
import { isRefusedForLong } from './request/policy/refused-for-long.ts'
import type { GatewayRulesOptions } from './rules/gateway-rules.ts'
import { consoleLog, type Log, throttle } from './runtime/log.ts'
import type { AnalyticsDataset } from './statistics/analytics.ts'
import type { ObjectNamespace } from './store/durable-object/objects.ts'
import { MemoryStore } from './store/memory/memory-store.ts'

interface Told {
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
  readonly log: Log
}

interface Handler {
  fetch(request: Request, env: Environment, ctx: ExecutionContext): Response | Promise<Response>
}

export { LimitObject } from './store/durable-object/limit-object.ts'

let handler: Handler | undefined

/** Handles every request that a route of Cloudflare's sends to it, as its variables say. */
export default {
  fetch(request: Request, env: Environment, ctx: ExecutionContext) {
    return handler ? handler.fetch(request, env, ctx) : startWith(request, env, ctx)
  },
}

/**
 * Once an isolate, whose environment does not change. Requests that come meanwhile start one as well, since a promise
 * that requests share may hang on Workers; the first that is ready serves all.
 */
async function startWith(request: Request, env: Environment, ctx: ExecutionContext): Promise<Response> {
  const started = await start(env)
  handler ??= started
  return handler.fetch(request, env, ctx)
}

async function start(env: Environment): Promise<Handler> {
  try {
    return await createHandler(env)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const { variable, message } = error
    consoleLog('error', { event: 'misconfigured', message })
    return {
      // The value goes only to the log: the public has no business with it.
      fetch: () =>
        problemResponse({
          status: 500,
          title: 'Misconfigured',
          detail: `${variable} is not as expected; the log says more.`,
        }),
    }
  }
}

/** What only some configurations need is imported here, when they ask for it. */
async function createHandler(env: Environment): Promise<Handler> {
  const config = loadConfig(env)
  const upstream = isFetcher(env.UPSTREAM) ? env.UPSTREAM : globalThis
  const now = () => Date.now()
  const log = throttle(consoleLog, now)
  const readClaim = await claimReaderOf(config, { now, log })
  const { own, readShadow } = await openStores(config, env, { now, log })
  const statistics = await statisticsOf(config, env, { now, log, readShadow, readClaim })
  const { holdUntilEnd, limitRefusals } = await returnsFor(config)
  const measured = statistics?.measured(own) ?? own
  const store = limitRefusals?.(measured, now) ?? measured
  const createOperate = await operatorsOf({ config, env, counters: statistics?.counters })
  const createObserver = statistics?.createObserver
  const createLeases = await leasesFor(config, now)
  const govern = await governorOf({
    config,
    env,
    store: own,
    readClaim,
    watchShadow: statistics?.watchShadow,
    now,
    log,
  })
  const health = await healthOf(config, now)
  const call: AppOptions['fetch'] = (request, init) => upstream.fetch(request, init)
  const all = { config, store, fetch: call, now, log }
  return createApp({ ...all, createLeases, readClaim, health, holdUntilEnd, govern, createOperate, createObserver })
}

async function governorOf(options: GatewayRulesOptions): Promise<AppOptions['govern']> {
  const { rules } = options.config
  if (!rules) return undefined
  const { gatewayRules } = await import('./rules/gateway-rules.ts')
  return gatewayRules(options, rules)
}

async function statisticsOf(
  { statistics: config, store, redis, keyPrefix }: Config,
  env: Environment,
  told: Told & Pick<OpenStores, 'readShadow'> & Pick<AppOptions, 'readClaim'>,
): Promise<OpenStatistics | undefined> {
  const analytics = isDataset(env.ANALYTICS) ? env.ANALYTICS : undefined
  if (!config.isOn && config.logShare === 0 && !analytics) return undefined
  const { openStatistics } = await import('./gateway/statistics.ts')
  const shared = { redis, 'durable-object': { namespace: env[OBJECTS] as ObjectNamespace }, memory: undefined }[store]
  return openStatistics({ config, shared, keyPrefix, analytics, ...told })
}

/** Whether a binding is one of Workers Analytics Engine. */
function isDataset(binding: unknown): binding is AnalyticsDataset {
  return typeof binding === 'object' && binding !== null && 'writeDataPoint' in binding
}

async function operatorsOf(options: Omit<AdminOptions, 'admin'>): Promise<AppOptions['createOperate']> {
  const { config, counters } = options
  const { admin, metrics } = config
  const createAdmin = admin && (await import('./admin/admin.ts')).createAdmin
  const createMetrics = metrics && (await import('./admin/metrics/metrics.ts')).createMetrics
  if (!createAdmin && !createMetrics) return undefined
  const measure = counters && metrics && createMetrics?.(metrics, counters)
  return (gateway) => {
    const operate = admin && createAdmin?.({ ...options, admin }, gateway)
    return async (...asked) => (await measure?.(...asked)) ?? operate?.(...asked)
  }
}

async function healthOf({ isShedding }: Config, now: () => number): Promise<AppOptions['health']> {
  if (!isShedding) return undefined
  const { UpstreamHealth } = await import('./engine/shedding/upstream-health.ts')
  return new UpstreamHealth(now)
}

async function returnsFor({ policies, rules }: Config): Promise<Partial<typeof import('./gateway/returned-units.ts')>> {
  // Rules may bring any policy.
  return !rules && policies.every(isRefusedForLong) ? {} : import('./gateway/returned-units.ts')
}

async function leasesFor({ leases: size }: Config, now: () => number): Promise<AppOptions['createLeases']> {
  if (size === undefined) return undefined
  const { leasesOf } = await import('./engine/leases.ts')
  return leasesOf(size, now)
}

async function claimReaderOf({ jwt }: Config, told: Told): Promise<AppOptions['readClaim']> {
  if (!jwt) return undefined
  const { loadTokenVerifier } = await import('./request/identity/jwt/verify-tokens.ts')
  return loadTokenVerifier(jwt, { fetch: (url, init) => fetch(url, init), ...told })
}

interface OpenStores {
  /** Decides. */
  readonly own: Store
  /** Tells of the store that is charged beside; undefined: there is none. */
  readonly readShadow: (() => ShadowStoreCounts) | undefined
}

async function openStores(config: Config, env: Environment, { now, log }: Told): Promise<OpenStores> {
  const { store: kind, storeShadow, storeTimeoutMs: timeoutMs } = config
  const own = await openStore(kind, config, env, now)
  if (!storeShadow) return { own, readShadow: undefined }
  const shadow = await openStore(storeShadow, config, env, now)
  const { ShadowedStore } = await import('./engine/shadowed-store.ts')
  const shadowed = new ShadowedStore({ store: own, shadow, now, timeoutMs, log })
  return { own: shadowed, readShadow: () => shadowed.counts }
}

async function openStore(
  kind: StoreKind,
  { redis, policies, rules, storeTimeoutMs: timeoutMs }: Config,
  env: Environment,
  now: () => number,
): Promise<Store> {
  switch (kind) {
    case 'redis': {
      if (!redis) throw new Error('a store over Redis without Redis')
      const algorithms = new Set(policies.map(({ algorithm }) => algorithm))
      // Rules may bring any.
      const isPlain = !rules && policies.every(({ algorithm, block }) => algorithm === 'sliding-window' && !block)
      const moreLua = isPlain ? undefined : (await import('./store/redis/more-lua.ts')).LUA
      const { upstashStore } = await import('./store/redis/upstash-backend.ts')
      return upstashStore({ ...redis, algorithms, moreLua, timeoutMs })
    }
    case 'durable-object': {
      const { objectStore } = await import('./store/durable-object/object-backend.ts')
      return objectStore(env[OBJECTS] as ObjectNamespace, timeoutMs)
    }
    case 'memory': {
      const message = 'no store that isolates share: limits hold in each by itself'
      consoleLog('warn', { event: 'in_memory_store', message })
      return new MemoryStore(now)
    }
  }
}
