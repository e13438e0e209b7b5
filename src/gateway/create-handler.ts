/** All parts of a gateway, put together: what the Worker and `sluice serve` run. */

import { holdsSlots } from '../core/algorithms/algorithm-table.ts'
import type { StageWatch } from '../core/engine/stages/stage.ts'
import { createClocks } from '../core/runtime/clocks.ts'
import { consoleLog, throttle } from '../core/runtime/log.ts'
import type { Backend } from '../core/store/backend.ts'
import { type Config, type Environment, isBinding, loadConfig, type Service } from '../http/config/load-config.ts'
import { isMeasured, isRefusedEarly, mustAwaitResponse } from '../http/request/charge-builder.ts'
import { composeLimiter } from '../http/request/request-limiter.ts'
import type { RouteHandler } from './api/route.ts'
import { type App, createApp, type DecisionHook, type GatewayContext } from './app/app.ts'
import { loadHealth } from './app/load-health.ts'
import { openBackend } from './app/open-backend.ts'
import { createProxy, createViaName } from './app/proxy.ts'

/** No response waits for a flush of statistics; the next one is due after 20 seconds. */
const FLUSH_TIMEOUT_MS = 4_000

type OpenStores = (config: Config, now: () => number) => Backend

/** What a host other than Workers brings. */
export interface Host {
  /** Opens the store in place of the one that the variables name. */
  readonly open?: OpenStores | undefined
  /** Creates what tells a function of decisions; `next` observes them for statistics. */
  readonly createWatch?: ((next: StageWatch | undefined) => DecisionHook) | undefined
  /** Aborts when the process is about to end. */
  readonly ending?: AbortSignal | undefined
}

/**
 * Creates all parts, from the bottom to the top. Parts that few configurations need are imported on demand.
 * @returns the app, and what other servers decide by
 * @throws {OptionError} for a wrong variable
 */
export async function createHandler(
  env: Environment,
  { open, createWatch, ending }: Host = {},
): Promise<{ readonly app: App; readonly config: Config; readonly gateway: GatewayContext }> {
  const { POLICIES: tables } = env
  const mayHaveCalendar = tables !== undefined && /day|week|month|year|zone|starts/.test(JSON.stringify(tables))
  const calendar = mayHaveCalendar ? await import('../core/options/calendar.ts') : undefined
  const shards = env.REDIS_SHARDS === undefined ? undefined : await import('../http/config/shards.ts')
  const config = loadConfig(env, { ...calendar, ...shards })
  const clocks = createClocks()
  const { now, readLatestMs = now, readSteadyMs = now } = clocks
  const log = throttle(consoleLog, now)
  const { policies, jwt, rules, admin, metrics, storeTimeoutMs: timeoutMs } = config

  // Token claims and upstream health
  const readClaim = jwt
    ? await (await import('../http/request/identity/jwt/verify-tokens.ts')).loadTokenVerifier(jwt, {
        fetch: (url, init) => fetch(url, init),
        now,
        log,
      })
    : undefined
  const health = config.isShedding
    ? new (await import('../core/shedding/upstream-health.ts')).UpstreamHealth(readSteadyMs)
    : undefined

  // Stores
  const backend = open?.(config, readLatestMs) ?? (await openBackend[config.store](config, env, readLatestMs))
  const mirror = config.storeMirror && (await openBackend[config.storeMirror](config, env, readLatestMs))

  // Statistics
  const analytics = isBinding<AnalyticsEngineDataset>(env.ANALYTICS, 'writeDataPoint') ? env.ANALYTICS : undefined
  const counters = config.statistics.isOn
    ? await backend.counters({ keyPrefix: config.keyPrefix, timeoutMs: FLUSH_TIMEOUT_MS })
    : undefined
  const isObserved = counters || config.statistics.logShare > 0 || analytics
  const { observer, recorder } = isObserved
    ? (await import('./statistics/open-statistics.ts')).openStatistics({
        config,
        counters,
        analytics,
        readClaim,
        now,
        log,
        ending,
      })
    : {}

  // Limiter, and the stages around its store. Runtime rules may bring any policy.
  const { limits } = backend
  const mirrored = mirror
    ? (await import('../core/engine/stages/mirror.ts')).withMirror(limits, {
        mirror: mirror.limits,
        watch: recorder,
        now,
        timeoutMs,
        log,
      })
    : limits
  const store = recorder?.withTiming(mirrored) ?? mirrored
  const isEarly = rules !== undefined || config.decideToken !== undefined || policies.some(isRefusedEarly)
  const repeats = isEarly ? (await import('../core/engine/stages/early-refusals.ts')).createEarlyRefusals : 'certain'
  const leases = config.leases ? (await import('../core/engine/stages/leases.ts')).withLeases(config.leases) : undefined
  const mayAwait = rules !== undefined || policies.some(mustAwaitResponse)
  const { createSettlement } = mayAwait ? await import('../http/request/settlement.ts') : {}
  const watch = createWatch?.(recorder)
  const { keyPrefix, ipv6Prefix, identitySecret, mergesParameters, exempt, localShare } = config
  const composed = composeLimiter({
    policies,
    keyPrefix,
    ipv6Prefix,
    identitySecret,
    mergesParameters,
    exempt,
    storeTimeoutMs: timeoutMs,
    localShare,
    ...clocks,
    store,
    log,
    repeats,
    leases,
    watch: watch ?? recorder,
    readClaim,
    health,
    createSettlement,
  })
  const rulesEngine = rules
    ? await (await import('./rules/open-rules.ts')).openRules({
        rules,
        config,
        env,
        backend,
        mirror,
        composed,
        readClaim,
        now,
        log,
      })
    : undefined
  const limiter = rulesEngine ?? composed.limiter
  const mayHoldSlots = rules !== undefined || policies.some(holdsSlots)
  const holdUntilEnd = mayHoldSlots
    ? (await import('../http/response/hold-until-end.ts')).createHoldUntilEnd({ limiter, keepsEncoding: true, now })
    : undefined

  const mayMeasure = rules !== undefined || policies.some(({ actualCost }) => isMeasured(actualCost))
  const measureResponse = mayMeasure
    ? (await import('../http/response/measure-response.ts')).createMeasureResponse({ keepsEncoding: true, now })
    : undefined

  // Gateway
  const readShards = config.shards
    ? await (await import('./app/shard-health.ts')).openShardHealth({ config, backend, now })
    : undefined
  const readHealth = loadHealth(store, composed.engine, timeoutMs, now, readShards)
  const gateway = { ...composed, rulesEngine, store, readHealth, watch, now, log }
  const routes = new Map<string, RouteHandler>()
  if (metrics && counters) routes.set('metrics', (await import('./admin/metrics.ts')).createMetrics(metrics, counters))
  if (config.isSelfService)
    routes.set('limits', (await import('./app/self-service.ts')).createSelfService(config, limiter, now))
  const operators = admin && (await import('./admin/admin.ts')).createAdmin({ admin, config, env, counters }, gateway)
  const decisions = config.decideToken ? await import('./decide/decisions.ts') : undefined
  decisions?.addDecisions(routes, config, gateway, observer)
  const upstream = isBinding<Service>(env.UPSTREAM, 'fetch') ? env.UPSTREAM : globalThis
  const viaName = createViaName(config)
  const passing = createProxy({ config, viaName, fetch: (request, init) => upstream.fetch(request, init), log })
  const forward = mayMeasure ? (await import('./app/count-bodies.ts')).countBodies(passing) : passing
  const proxy = config.rewritesLocation
    ? (await import('./app/rewrite-locations.ts')).rewriteLocations(forward, config)
    : forward
  const create = config.corsOrigins
    ? (await import('./app/cors.ts')).withCors(createApp, limiter, rulesEngine)
    : createApp
  const app = create({
    config,
    viaName,
    limiter,
    health,
    holdUntilEnd,
    measureResponse,
    observer,
    proxy,
    readHealth,
    routes,
    operators,
    now,
    log,
  })
  return { app: decisions?.refuseStray(app) ?? app, config, gateway }
}
