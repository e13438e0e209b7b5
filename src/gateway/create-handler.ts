/** All parts of a gateway, put together: what the Worker and `sluice serve` run. */

import { holdsSlots } from '../core/algorithms/algorithm-table.ts'
import { consoleLog, throttle } from '../core/runtime/log.ts'
import type { Backend } from '../core/store/backend.ts'
import { type Config, type Environment, isBinding, loadConfig, type Service } from '../http/config/load-config.ts'
import { isRefusedEarly } from '../http/request/charge-builder.ts'
import { composeLimiter } from '../http/request/request-limiter.ts'
import type { RouteHandler } from './api/route.ts'
import { type App, createApp } from './app/app.ts'
import { createHealthReader } from './app/health.ts'
import { openBackend } from './app/open-backend.ts'
import { createProxy } from './app/proxy.ts'

/** No response waits for a flush of statistics; the next one is due after ten seconds. */
const FLUSH_TIMEOUT_MS = 4_000

/**
 * Creates all parts, from the bottom to the top. Parts that few configurations need are imported on demand.
 * @param open opens the store in place of the one that the variables name
 * @throws {OptionError} for a wrong variable
 */
export async function createHandler(
  env: Environment,
  open?: (config: Config, now: () => number) => Backend,
): Promise<App> {
  const mayHaveCalendar = /day|week|month|year|zone|starts/.test(JSON.stringify(env.POLICIES))
  const { readCalendarLimits } = mayHaveCalendar ? await import('../core/options/calendar.ts') : {}
  const config = loadConfig(env, readCalendarLimits)
  const now = () => Date.now()
  const log = throttle(consoleLog, now)
  const { policies, jwt, rules, admin, metrics, storeTimeoutMs: timeoutMs } = config

  // Token claims and upstream health
  const { loadTokenVerifier } = jwt ? await import('../http/request/identity/jwt/verify-tokens.ts') : {}
  const readClaim = jwt && (await loadTokenVerifier?.(jwt, { fetch: (url, init) => fetch(url, init), now, log }))
  const { UpstreamHealth } = config.isShedding ? await import('../core/shedding/upstream-health.ts') : {}
  const health = UpstreamHealth && new UpstreamHealth(() => performance.now())

  // Stores
  const backend = open?.(config, now) ?? (await openBackend[config.store](config, env, now))
  const copy = config.storeMirror && (await openBackend[config.storeMirror](config, env, now))

  // Statistics
  const analytics = isBinding<AnalyticsEngineDataset>(env.ANALYTICS, 'writeDataPoint') ? env.ANALYTICS : undefined
  const counters = config.statistics.isOn
    ? await backend.counters({ keyPrefix: config.keyPrefix, timeoutMs: FLUSH_TIMEOUT_MS })
    : undefined
  const isObserved = counters || config.statistics.logShare > 0 || analytics
  const { openStatistics } = isObserved ? await import('./statistics/open-statistics.ts') : {}
  const statistics = openStatistics?.({ config, counters, analytics, readClaim, now, log })
  const recorder = statistics?.recorder

  // Limiter, and the stages around its store. Runtime rules may bring any policy.
  const { withMirror } = copy ? await import('../core/engine/stages/mirror.ts') : {}
  const mirrored = copy && withMirror?.(backend.limits, { mirror: copy.limits, watch: recorder, now, timeoutMs, log })
  const limits = mirrored ?? backend.limits
  const store = recorder?.withTiming(limits) ?? limits
  const isEarly = rules !== undefined || config.decideToken !== undefined || policies.some(isRefusedEarly)
  const repeats = isEarly ? (await import('../core/engine/stages/early-refusals.ts')).createEarlyRefusals : 'certain'
  const mayHoldSlots = rules !== undefined || policies.some(holdsSlots)
  const { createHoldUntilEnd } = mayHoldSlots ? await import('../http/response/hold-until-end.ts') : {}
  const leases = config.leases ? (await import('../core/engine/stages/leases.ts')).withLeases(config.leases) : undefined
  const composed = composeLimiter({ ...config, store, now, log, repeats, leases, watch: recorder, readClaim, health })
  const { openRules } = rules ? await import('./rules/open-rules.ts') : {}
  const parts = { config, env, backend, mirror: copy, composed, readClaim, now, log }
  const rulesEngine = rules && (await openRules?.({ ...parts, rules }))

  // Gateway
  const readHealth = createHealthReader(store, composed.engine, now)
  const gateway = { ...composed, rulesEngine, store, readHealth, now, log }
  const routes = new Map<string, RouteHandler>()
  if (metrics && counters) routes.set('metrics', (await import('./admin/metrics.ts')).createMetrics(metrics, counters))
  const operators = admin && (await import('./admin/admin.ts')).createAdmin({ admin, config, env, counters }, gateway)
  const limiter = rulesEngine ?? composed.limiter
  const { createSelfService } = config.isSelfService ? await import('./app/self-service.ts') : {}
  if (createSelfService) routes.set('limits', createSelfService(config, limiter, now))
  const decisions = config.decideToken ? await import('./decide/decisions.ts') : undefined
  decisions?.addDecisions(routes, config, gateway, statistics?.observer)
  const upstream = isBinding<Service>(env.UPSTREAM, 'fetch') ? env.UPSTREAM : globalThis
  const proxy = createProxy({ config, fetch: (request, init) => upstream.fetch(request, init), log })
  const { rewriteLocations } = config.rewritesLocation ? await import('./app/rewrite-locations.ts') : {}
  const { withCors } = config.corsOrigins ? await import('./app/cors.ts') : {}
  const create = withCors?.(createApp, limiter) ?? createApp
  const app = create({
    config,
    limiter,
    health,
    holdUntilEnd: createHoldUntilEnd?.({ limiter, keepsEncoding: true, now }),
    observer: statistics?.observer,
    proxy: rewriteLocations?.(proxy, config) ?? proxy,
    readHealth,
    routes,
    operators,
    now,
    log,
  })
  return decisions?.refuseStray(app) ?? app
}
