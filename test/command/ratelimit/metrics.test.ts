import { describe, expect, test } from 'vitest'
import { HitCounts } from '../../../src/ratelimit-service/hit-counts.ts'
import { send } from '../../support/http-client.ts'
import { descriptor, type Fields, shareDomains } from '../../support/rate-limit-client.ts'

const METRICS_TOKEN = 'm'.repeat(32)
const limit = (count: number) => ({ rate_limit: { unit: 'hour', requests_per_unit: count } })

/** Descriptors by domain. */
const DOMAINS: Readonly<Record<string, readonly object[]>> = {
  detailed: [
    { key: 'k', detailed_metric: true, ...limit(10) },
    { key: 'k', value: 'v', ...limit(20) },
    { key: 'plain', ...limit(10) },
  ],
  values: [
    {
      key: 'route',
      value_to_metric: true,
      descriptors: [
        {
          key: 'method',
          value_to_metric: true,
          descriptors: [{ key: 'subject', ...limit(60) }],
        },
      ],
    },
    {
      key: 'user',
      value_to_metric: true,
      descriptors: [
        { key: 'action', value: 'read*', value_to_metric: true, descriptors: [{ key: 'resource', ...limit(60) }] },
      ],
    },
    { key: 'file', value: 'pre*', ...limit(60) },
  ],
  shared: [
    {
      key: 'route',
      value: 'api/*',
      share_threshold: true,
      value_to_metric: true,
      descriptors: [{ key: 'method', ...limit(60) }],
    },
    { key: 'deep', value: 'x*', share_threshold: true, detailed_metric: true, ...limit(60) },
  ],
  counts: [
    { key: 'few', ...limit(10) },
    { key: 'many', ...limit(100) },
    { key: 'tried', shadow_mode: true, ...limit(2) },
    { key: 'none', ...limit(0) },
    { key: 'free', rate_limit: { unlimited: true } },
  ],
}

const site = shareDomains(DOMAINS, { STATISTICS: 'on', METRICS_TOKEN })

const readMetrics = (token: string) =>
  send(site.serving.url, { path: '/_sluice/ratelimit-metrics', headers: { Authorization: `Bearer ${token}` } })

/** @returns samples of a metric by the key of their rule */
async function readSamples(name: string, domain: string): Promise<Readonly<Record<string, number>>> {
  const { body } = await readMetrics(METRICS_TOKEN)
  const pattern = new RegExp(`^sluice_ratelimit_${name}_total{domain="${domain}",key="(.*)"} (\\d+)$`, 'gm')
  return Object.fromEntries([...body.toString().matchAll(pattern)].map(([, key, value]) => [key, Number(value)]))
}

const ask = (domain: string, entries: readonly string[], fields?: Fields) =>
  site.client.ask(domain, [descriptor(entries, fields)])

describe('metrics name', () => {
  test('all values of a rule with detailed_metric, and of others those that the file names', async () => {
    for (const value of ['a', 'b', 'v']) await ask('detailed', ['k', value])
    for (const value of ['a', 'b']) await ask('detailed', ['plain', value])
    expect(await readSamples('hits', 'detailed')).toEqual({ k_a: 1, k_b: 1, k_v: 1, plain: 2 })
  })

  test('values of keys with value_to_metric, also those that a wildcard matches', async () => {
    await ask('values', ['route', 'api', 'method', 'GET', 'subject', '123'])
    await ask('values', ['route', 'web', 'method', 'POST', 'subject', '456'])
    await ask('values', ['user', 'alice', 'action', 'readfile', 'resource', 'documents'])
    await ask('values', ['file', 'prefixed'])
    expect(await readSamples('hits', 'values')).toEqual({
      'route_api.method_GET.subject': 1,
      'route_web.method_POST.subject': 1,
      'user_alice.action_readfile.resource': 1,
      'file_pre*': 1,
    })
  })

  test('the wildcard of values that share a threshold', async () => {
    for (const value of ['api/v1', 'api/v2']) await ask('shared', ['route', value, 'method', 'GET'])
    for (const value of ['x1', 'x2']) await ask('shared', ['deep', value])
    expect(await readSamples('hits', 'shared')).toEqual({ 'route_api/*.method': 2, 'deep_x*': 2 })
  })
})

test('hits are counted, those over a limit, near it, and in shadow mode', async () => {
  await ask('counts', ['few', 'a'], { hitsAddend: { value: 8 } })
  await ask('counts', ['few', 'a'])
  await ask('counts', ['few', 'a'], { hitsAddend: { value: 4 } })
  await ask('counts', ['few', 'a'], { hitsAddend: { value: 0 } })
  for (let time = 0; time < 3; time++) await ask('counts', ['tried', 'a'])
  await ask('counts', ['many', 'a'], { hitsAddend: { value: 95 } })
  await ask('counts', ['many', 'a'], { hitsAddend: { value: 5 } })
  await ask('counts', ['none', 'a'])
  await ask('counts', ['free', 'a'])
  const read = (name: string) => readSamples(name, 'counts')
  expect(await read('hits')).toEqual({ few: 13, many: 100, tried: 3, none: 1, free: 1 })
  expect(await read('over_limit_hits')).toEqual({ few: 4, many: 0, tried: 1, none: 1, free: 0 })
  expect(await read('near_limit_hits')).toEqual({ few: 1, many: 20, tried: 1, none: 0, free: 0 })
  expect(await read('shadow_hits')).toEqual({ few: 0, many: 0, tried: 1, none: 0, free: 0 })
})

test('metrics are for those who have METRICS_TOKEN', async () => {
  expect((await readMetrics('x')).status).toBe(401)
  const { status, headers } = await readMetrics(METRICS_TOKEN)
  expect([status, headers['content-type']]).toEqual([200, expect.stringContaining('openmetrics-text')])
})

test('HitCounts counts values that are too many or too long as one', () => {
  const counts = new HitCounts()
  const hits = { hits: 1, fitting: 1, rateLimit: { isShadow: false } }
  for (let value = 0; value < 10_005; value++) counts.record('d', `k_${value}`, hits)
  expect(counts.list()).toHaveLength(10_001)
  counts.record('d', 'k'.repeat(60_000), hits)
  expect(counts.list()).toHaveLength(10_001)
  expect(counts.list().at(-1)).toMatchObject({ domain: 'd', key: 'other', hits: 6 })
})
