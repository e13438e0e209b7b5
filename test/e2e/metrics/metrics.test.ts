import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { createClient } from '@redis/client'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { COUNT_NAMES } from '../../../src/statistics/count-names.ts'
import { startOf } from '../../../src/store/counters.ts'
import { nodeRedisClient } from '../../../src/store/redis/clients/node-redis.ts'
import { RedisCounters } from '../../../src/store/redis/counters/redis-counters.ts'
import { findPrometheus } from '../../../tools/find-prometheus.ts'
import { PLANTED } from '../../setup/secret-watch.ts'
import { startGateway } from '../../support/gateway.ts'
import { send } from '../../support/http-client.ts'
import { ADMIN_TOKEN, operate } from '../../support/operator.ts'
import type { PointOfPresence } from '../../support/point-of-presence.ts'
import { type ScrapingPrometheus, startPrometheus } from '../../support/prometheus.ts'
import { startUpstream, type Upstream } from '../../support/upstream.ts'

const KEY_PREFIX = `metrics-${randomUUID()}`
const METRICS_TOKEN = `${PLANTED}-of-metrics-0123456789abcdef`
const OPS = join(import.meta.dirname, '../../../ops')
const run = promisify(execFile)

const redis = createClient({ url: `redis://127.0.0.1:${inject('redisPort')}` })
let upstream: Upstream
let gateway: PointOfPresence

/** What isolates have counted; a pattern may hold signs that the text must escape. */
const COUNTS = new Map([
  [COUNT_NAMES.requests.admitted, 900],
  [COUNT_NAMES.requests.limited, 100],
  [COUNT_NAMES.degraded('local, open'), 3],
  [COUNT_NAMES.upstream5xx, 4],
  [COUNT_NAMES.policy('login', 'limited', 'POST /a\\b"c'), 100],
  [COUNT_NAMES.tier('login-1m'), 100],
  [COUNT_NAMES.storeCalls, 800],
  [COUNT_NAMES.storeFailures, 1],
  [COUNT_NAMES.latency(0), 600],
  [COUNT_NAMES.latency(3), 190],
  [COUNT_NAMES.latency(12), 9],
  [COUNT_NAMES.latencyMs, 71_500],
  [COUNT_NAMES.savedByDenyCache, 60],
  [COUNT_NAMES.savedByLeases, 140],
  [COUNT_NAMES.permitsLeased, 150],
])

beforeAll(async () => {
  await redis.connect()
  const counters = new RedisCounters({ client: nodeRedisClient(redis), keyPrefix: KEY_PREFIX, timeoutMs: 60_000 })
  const minute = { startMs: startOf('minute', Date.now()), counts: COUNTS, sketches: new Map() }
  await counters.add({ source: 'test', number: 1, minutes: [minute] })
  upstream = await startUpstream((_request, response) => response.end())
  gateway = await startGateway({
    ...{ UPSTREAM_URL: upstream.url, STATISTICS: 'on', METRICS_TOKEN, ADMIN_TOKEN, KEY_PREFIX },
  })
})
afterAll(async () => {
  await Promise.all([gateway.stop(), upstream.stop()])
  redis.destroy()
})

const scrape = (token: string | undefined, method = 'GET', path = '/_sluice/metrics') =>
  send(gateway.url, { method, path, headers: token === undefined ? {} : { Authorization: `Bearer ${token}` } })

test('/_sluice/metrics tells in OpenMetrics what all isolates have counted', async () => {
  const { status, headers, body } = await scrape(METRICS_TOKEN)
  expect(status).toBe(200)
  expect(headers['content-type']).toBe('application/openmetrics-text; version=1.0.0; charset=utf-8')
  expect(headers['cache-control']).toBe('no-store')
  const lines = body.toString().split('\n')
  expect(lines).toEqual(
    expect.arrayContaining([
      '# TYPE sluice_requests counter',
      'sluice_requests_total{outcome="admitted"} 900',
      'sluice_requests_total{outcome="limited"} 100',
      'sluice_requests_total{outcome="shed"} 0',
      'sluice_degraded_requests_total{decided="local, open"} 3',
      'sluice_policy_requests_total{policy="login",route="POST /a\\\\b\\"c",outcome="limited"} 100',
      '# UNIT sluice_store_latency_seconds seconds',
      'sluice_store_latency_seconds_bucket{le="0.001"} 600',
      'sluice_store_latency_seconds_bucket{le="0.01"} 790',
      'sluice_store_latency_seconds_bucket{le="5.0"} 790',
      'sluice_store_latency_seconds_bucket{le="+Inf"} 799',
      'sluice_store_latency_seconds_sum 71.5',
      'sluice_store_latency_seconds_count 799',
      'sluice_saved_calls_total{by="leases"} 140',
      'sluice_shadow_requests_total{refused_by="shadow"} 0',
    ]),
  )
  expect(lines.slice(-2)).toEqual(['# EOF', ''])
  expect(body.toString()).not.toContain(PLANTED)
  const head = await scrape(METRICS_TOKEN, 'HEAD')
  expect([head.status, head.body.length]).toEqual([200, 0])
})

test('/_sluice/metrics is for who has its token alone, and the token is for nothing else', async () => {
  for (const token of [undefined, '', METRICS_TOKEN.slice(1), ADMIN_TOKEN]) {
    const { status, headers } = await scrape(token)
    expect([status, headers['www-authenticate']]).toEqual([401, 'Bearer realm="sluice-metrics"'])
  }
  expect((await scrape(METRICS_TOKEN, 'POST')).status).toBe(405)
  expect((await operate(gateway.url, '/status')).status).toBe(200)
  expect((await scrape(METRICS_TOKEN, 'GET', '/_sluice/admin/status')).status).toBe(401)
  const without = await startGateway({ UPSTREAM_URL: upstream.url, STATISTICS: 'on' })
  const answer = await send(without.url, { path: '/_sluice/metrics', headers: { Authorization: 'Bearer ' } })
  expect(answer.status).toBe(404)
  await without.stop()
})

describe('a real Prometheus', () => {
  let prometheus: ScrapingPrometheus

  beforeAll(async () => {
    prometheus = await startPrometheus(gateway.url, METRICS_TOKEN)
  })
  afterAll(() => prometheus.stop())

  type Result = { readonly metric: Record<string, string>; readonly value: readonly [number, string] }[]
  const query = async (expression: string) =>
    ((await prometheus.ask('/query', { query: expression })).data as { result: Result }).result

  test('scrapes it, and reads every number and label', async () => {
    await expect
      .poll(() => query('up').catch(() => []), { interval: 200 })
      .toMatchObject([{ value: [expect.any(Number), '1'] }])
    const { activeTargets } = (await prometheus.ask('/targets')).data as { activeTargets: { lastError: string }[] }
    expect(activeTargets).toMatchObject([{ lastError: '', health: 'up' }])
    expect(await query('sluice_requests_total{outcome="limited"}')).toMatchObject([
      { value: [expect.any(Number), '100'] },
    ])
    expect(await query('sluice_policy_requests_total')).toMatchObject([
      { metric: { policy: 'login', route: 'POST /a\\b"c', outcome: 'limited' }, value: [expect.any(Number), '100'] },
    ])
    expect(await query('histogram_quantile(0.5, sluice_store_latency_seconds_bucket)')).toHaveLength(1)
    const metadata = (await prometheus.ask('/metadata')).data as Record<string, { type: string; help: string }[]>
    expect(metadata.sluice_store_latency_seconds).toMatchObject([{ type: 'histogram', unit: 'seconds' }])
  })

  test('understands each expression of the dashboard and of the alerts, and has what they ask for', async () => {
    await expect.poll(() => query('up').catch(() => []), { interval: 200 }).toHaveLength(1)
    const dashboard = JSON.parse(await readFile(join(OPS, 'grafana-dashboard.json'), 'utf8')) as {
      panels: { title: string; targets: { expr: string }[] }[]
    }
    const alerts = await readFile(join(OPS, 'alerts.yml'), 'utf8')
    const expressions = dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr))
    expect(expressions.length).toBeGreaterThan(15)
    const values: Record<string, string> = { job: 'sluice', policy: '.*', __rate_interval: '1m' }
    for (const expression of expressions) {
      await query(expression.replaceAll(/\$(\w+)/g, (_, name: string) => values[name] ?? 'unknown'))
    }
    const names = new Set([...expressions, alerts].join(' ').match(/\bsluice_\w+/g))
    expect(names.size).toBeGreaterThanOrEqual(10)
    for (const name of names) expect(await query(`count(${name})`), name).toHaveLength(1)
  })
})

describe('promtool', () => {
  const promtool = async (...args: string[]) => {
    const tool = await findPrometheus()
    const { stdout } = await run(tool.promtool, args, { cwd: OPS })
    return stdout
  }

  test('finds no mistake in ops/', async () => {
    expect(await promtool('check', 'config', '--syntax-only', 'prometheus.yml')).toContain('SUCCESS')
    expect(await promtool('check', 'rules', 'alerts.yml')).toContain('SUCCESS: 9 rules found')
  })

  test('sees each alert fire when it should, and none on a good day', async () => {
    expect(await promtool('test', 'rules', 'alerts.test.yml')).toContain('SUCCESS')
  })
})
