import { expect, test } from 'vitest'
import { PLANTED } from '../setup/secret-watch.ts'
import { METRICS_TOKEN, startCountedGateway } from '../support/counted-gateway.ts'
import { startGateway } from '../support/gateway.ts'
import { send } from '../support/http-client.ts'
import { ADMIN_TOKEN, operate } from '../support/operator.ts'
import { share } from '../support/share.ts'

const gateway = share(startCountedGateway)

const scrape = (token: string | undefined, method = 'GET', path = '/_sluice/metrics') =>
  send(gateway.url, { method, path, headers: token === undefined ? {} : { Authorization: `Bearer ${token}` } })

test('/_sluice/metrics reports in OpenMetrics what all isolates have counted', async () => {
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
      'sluice_degraded_requests_total{fallback="local, open"} 3',
      'sluice_policy_requests_total{policy="login",route="POST /a\\\\b\\"c",outcome="limited"} 100',
      'sluice_policy_units_total{policy="tokens"} 4321',
      '# UNIT sluice_store_latency_seconds seconds',
      'sluice_store_latency_seconds_bucket{le="0.001"} 600',
      'sluice_store_latency_seconds_bucket{le="0.01"} 790',
      'sluice_store_latency_seconds_bucket{le="5.0"} 790',
      'sluice_store_latency_seconds_bucket{le="+Inf"} 799',
      'sluice_store_latency_seconds_sum 71.5',
      'sluice_store_latency_seconds_count 799',
      'sluice_store_calls_avoided_total{reason="lease"} 140',
      'sluice_policy_requests_total{policy="trial",route="*",outcome="shadow_limited"} 40',
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
  const without = await startGateway({ UPSTREAM_URL: 'https://api.example.com', STATISTICS: 'on' })
  const answer = await send(without.url, { path: '/_sluice/metrics', headers: { Authorization: 'Bearer ' } })
  expect(answer.status).toBe(404)
  await without.stop()
})
