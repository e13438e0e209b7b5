import { randomUUID } from 'node:crypto'
import { inject } from 'vitest'
import { findPeriodStart } from '../../src/core/store/counters.ts'
import { RedisCounters } from '../../src/core/store/redis/counters/redis-counters.ts'
import { adaptNodeRedis } from '../../src/core/store/redis/tcp-clients.ts'
import { COUNT_NAMES } from '../../src/gateway/statistics/metrics.ts'
import { PLANTED } from '../setup/secret-watch.ts'
import type { DirectGateway } from './direct-gateway.ts'
import { startGateway } from './gateway.ts'
import { ADMIN_TOKEN } from './operator.ts'
import { connectRedis } from './redis-client.ts'
import { startUpstream } from './upstream.ts'

export const METRICS_TOKEN = `${PLANTED}-of-metrics-0123456789abcdef`

/** What isolates have counted; a pattern may hold signs that the text must escape. */
const COUNTS = new Map([
  [COUNT_NAMES.requests.admitted, 900],
  [COUNT_NAMES.requests.limited, 100],
  [COUNT_NAMES.degraded('local, open'), 3],
  [COUNT_NAMES.upstream5xx, 4],
  [COUNT_NAMES.policy('login', 'limited', 'POST /a\\b"c'), 100],
  [COUNT_NAMES.policy('trial', 'shadow_limited', '*'), 40],
  [COUNT_NAMES.limit('login-1m'), 100],
  [COUNT_NAMES.units('tokens'), 4_321],
  [COUNT_NAMES.storeCalls, 800],
  [COUNT_NAMES.storeFailures, 1],
  [COUNT_NAMES.latency(1), 600],
  [COUNT_NAMES.latency(10), 190],
  [COUNT_NAMES.latency(5_001), 9],
  [COUNT_NAMES.latencyMs, 71_500],
  [COUNT_NAMES.avoided.refusalCache, 60],
  [COUNT_NAMES.avoided.leases, 140],
  [COUNT_NAMES.permitsLeased, 150],
])

/** A gateway with statistics, whose isolates have counted this already. */
export async function startCountedGateway(): Promise<Pick<DirectGateway, 'url' | 'stop'>> {
  const keyPrefix = `metrics-${randomUUID()}`
  const redis = await connectRedis(inject('redisPort'))
  const counters = new RedisCounters({ client: adaptNodeRedis(redis), keyPrefix, timeoutMs: 60_000 })
  const minute = { startMs: findPeriodStart('minute', Date.now()), counts: COUNTS, sketches: new Map() }
  await counters.add({ source: 'test', number: 1, minutes: [minute] })
  redis.destroy()
  const upstream = await startUpstream((_request, response) => response.end())
  const gateway = await startGateway({
    ...{ UPSTREAM_URL: upstream.url, STATISTICS: 'on', METRICS_TOKEN, ADMIN_TOKEN, KEY_PREFIX: keyPrefix },
  })
  return {
    url: gateway.url,
    async stop() {
      await Promise.all([gateway.stop(), upstream.stop()])
    },
  }
}
