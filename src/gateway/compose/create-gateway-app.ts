/** Makes the app: what it answers itself, and what it forwards. */
import { holdsSlots } from '../../core/algorithms/algorithm-table.ts'
import type { RequestPolicy } from '../../core/model/policy.ts'
import { type Environment, isBinding, type Service } from '../../http/config/load-config.ts'
import { isHeldOpen, isKnownAtEnd } from '../../http/request/charge-builder.ts'
import type { RouteHandler } from '../api/route.ts'
import { type App, type AppOptions, createApp, type GatewayContext } from '../app/app.ts'
import { countBodies } from '../app/count-bodies.ts'
import { createHealthReader } from '../app/health.ts'
import { createProxy, createViaName, type ProxyOptions } from '../app/proxy.ts'
import { rewriteLocations } from '../app/rewrite-locations.ts'
import type { Decider } from './create-decider.ts'
import type { Stores } from './open-stores.ts'
import type { Host, Setting } from './setting.ts'

export async function createGatewayApp(
  { env, config, host, clocks: { now }, log }: Setting,
  { backend, store, counters, observer }: Stores,
  { composed, rulesEngine, limiter, health, watch }: Decider,
): Promise<{ readonly app: App; readonly gateway: GatewayContext }> {
  const { admin, metrics, decideToken } = config
  const readShards = config.shards
    ? await (await import('../app/shard-health.ts')).openShardHealth({ config, backend, now })
    : undefined
  const readHealth = createHealthReader(store, composed.engine, config.storeTimeoutMs, now, readShards)
  const gateway: GatewayContext = { ...composed, rulesEngine, store, readHealth, watch, now, log }

  const routes = new Map<string, RouteHandler>()
  if (metrics && counters) routes.set('metrics', (await import('../admin/metrics.ts')).createMetrics(metrics, counters))
  if (config.isSelfService)
    routes.set('limits', (await import('../app/self-service.ts')).createSelfService(config, limiter, now))
  const decisions = decideToken ? await import('../decide/decisions.ts') : undefined
  decisions?.addDecisions(routes, config, gateway, observer)
  const operators = admin && (await import('../admin/admin.ts')).createAdmin({ admin, config, env, counters }, gateway)

  const viaName = createViaName(config)
  const forward = countBodies(createProxy({ config, viaName, fetch: findUpstream(env, host), log }))
  // Runtime rules may bring any policy.
  const mayFollow = config.rules !== undefined || config.policies.some(isFollowed)
  const followResponse = mayFollow
    ? (await import('../../http/response/follow-response.ts')).createFollowResponse({
        limiter,
        keepsEncoding: true,
        now,
      })
    : undefined
  const startReports =
    config.store === 'redis' && (config.rules !== undefined || config.policies.some(isHeldOpen))
      ? (await import('../app/open-responses.ts')).createOpenReports({ config, backend, now })
      : undefined
  const { timers, isOwnEnvironment } = host
  const options: AppOptions = {
    ...{ config, viaName, limiter, health, observer, readHealth, routes, operators, now, log },
    ...{ timers, isOwnEnvironment },
    proxy: config.rewritesLocation ? rewriteLocations(forward, config) : forward,
    ...{ followResponse, startReports },
    middleware: decisions ? [decisions.refuseStray(() => app)] : [],
  }
  const readable = config.corsOrigins
    ? (await import('../app/cors.ts')).withCors(options, limiter, rulesEngine)
    : options
  const app = createApp(readable)
  return { app, gateway }
}

/** Tests that a policy holds slots until a response ends, or charges what is known only then. */
function isFollowed(policy: RequestPolicy): boolean {
  return holdsSlots(policy) || isKnownAtEnd(policy.actualCost)
}

/** An app that runs here is called as the runtime calls a Worker; anything else gets what `fetch` takes. */
function findUpstream(env: Environment, { upstream }: Host): ProxyOptions['fetch'] {
  if (upstream) {
    return async (input, init, { cf }, { executionCtx }) => {
      return upstream.fetch(new Request(input, cf ? { ...init, cf } : init), env, executionCtx)
    }
  }
  const bound = isBinding<Service>(env.UPSTREAM, 'fetch') ? env.UPSTREAM : globalThis
  return (input, init) => bound.fetch(input, init)
}
