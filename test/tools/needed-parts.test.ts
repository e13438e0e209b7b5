import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test as base, describe, expect, onTestFinished } from 'vitest'
import { MAX_PLAIN_KIB, PARTS } from '../../tools/build-worker.ts'
import { findNeededParts } from '../../tools/needed-parts.ts'
import { type Bundle, buildBundle, removeBundle } from '../support/build-bundle.ts'
import { startDirectGateway } from '../support/direct-gateway.ts'
import { redisBindings } from '../support/gateway.ts'
import { startUpstream } from '../support/upstream.ts'

const REDIS = ['UPSTASH_REDIS_REST_URL', 'UPSTASH_REDIS_REST_TOKEN']
const PLAIN = { vars: { UPSTREAM_URL: 'https://api.example.com', RATE_LIMITS: '1/1h' }, secrets: { required: REDIS } }
const SECRET = 'a-secret-of-operators-0123456789-abc'

const test = base.extend<{ plain: Bundle }>({
  plain: [
    // biome-ignore lint/correctness/noEmptyPattern: Vitest reads the pattern.
    async ({}, use) => {
      const bundle = await buildBundle({ needed: await findParts(PLAIN) })
      await use(bundle)
      await removeBundle(bundle)
    },
    { scope: 'file' },
  ],
})

async function findParts(file: object, ...args: readonly string[]): Promise<ReadonlySet<string> | undefined> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-wrangler-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const config = join(folder, 'wrangler.json')
  await writeFile(config, JSON.stringify(file))
  return findNeededParts(['--config', config, ...args])
}

describe('buildWorker() with the parts that a plain configuration needs', () => {
  test('leaves all others out, and decides as ever', async ({ plain }) => {
    expect(plain.bytes).toBeLessThanOrEqual(MAX_PLAIN_KIB * 1_024)
    const upstream = await startUpstream((_, response) => response.end())
    onTestFinished(() => upstream.stop())
    const bindings = { ...PLAIN.vars, ...redisBindings(), UPSTREAM_URL: upstream.url }
    const gateway = await startDirectGateway({ bundle: plain, bindings })
    onTestFinished(() => gateway.stop())
    const statuses = []
    for (let sent = 0; sent < 2; sent++) {
      const response = await fetch(gateway.url, { headers: { Authorization: 'Bearer someone' } })
      await response.arrayBuffer()
      statuses.push(response.status)
    }
    expect(statuses).toEqual([200, 429])
  })

  test.for([
    ['ADMIN_TOKEN', { ADMIN_TOKEN: SECRET }],
    ['DECIDE_TOKEN', { DECIDE_TOKEN: SECRET }],
    ['JWT_SECRET', { JWT_SECRET: SECRET, POLICIES: [{ name: 'users', by: 'claim:sub', limits: '5/1m' }] }],
    ['LEASES', { LEASES: 'auto' }],
    ['POLICIES', { POLICIES: [{ name: 'daily', by: 'ip', algorithm: 'quota', limits: '5/day' }] }],
    ['POLICIES', { POLICIES: [{ name: 'bucket', by: 'ip', algorithm: 'token-bucket', limits: '5/1m' }] }],
    ['RULES', { RULES: 'on' }],
    ['STATISTICS', { STATISTICS: 'on' }],
    ['STORE', { STORE: 'durable-object' }],
  ] as const)(
    'refuses to start when a part is missing, and names its variable: %j',
    async ([name, added], { plain }) => {
      const bindings = { ...PLAIN.vars, ...redisBindings(), ...added }
      const gateway = await startDirectGateway({ bundle: plain, bindings, objects: 'memory' })
      onTestFinished(() => gateway.stop())
      const response = await fetch(gateway.url)
      expect([response.status, await response.json()]).toMatchObject([500, { code: 'misconfigured' }])
      await expect
        .poll(() => gateway.log)
        .toEqual([expect.stringContaining(`"message":"${name}: expected nothing, since`)])
      expect(gateway.log.join()).not.toContain(SECRET)
    },
  )
})

test('each part that can be left out is there, and is loaded by a configuration that calls for all', async () => {
  const vars = {
    ...PLAIN.vars,
    ...{ CORS_ORIGINS: '*', LEASES: 'auto', REWRITE_LOCATION: 'on', RULES: 'on', SELF_SERVICE: 'on', SHEDDING: 'on' },
    ...{ STATISTICS: 'on', STORE_MIRROR: 'durable-object' },
    POLICIES: [{ name: 'users', by: 'claim:sub', algorithm: 'quota', limits: '5/day' }],
  }
  const secrets = { required: ['REDIS_SHARDS', 'ADMIN_TOKEN', 'DECIDE_TOKEN', 'JWT_SECRET', 'METRICS_TOKEN'] }
  const objects = { bindings: [{ name: 'LIMITS', class_name: 'LimitObject' }] }
  const needed = await findParts({ vars, secrets, durable_objects: objects })
  expect(Object.keys(PARTS).filter((part) => !needed?.has(part))).toEqual([])
  expect(Object.keys(PARTS).filter((part) => !existsSync(join('src', part)))).toEqual([])
})

test.for([
  ['it does not say which secrets there are', { vars: PLAIN.vars }],
  ['variables may have been set elsewhere', { ...PLAIN, keep_vars: true }],
  ['a variable is a secret', { vars: PLAIN.vars, secrets: { required: [...REDIS, 'POLICIES'] } }],
] as const)('findNeededParts() leaves nothing out if %s', async ([, file]) => {
  expect(await findParts(file)).toBeUndefined()
})

test('findNeededParts() reads the named environment, which inherits no secrets', async () => {
  const production = { vars: { ...PLAIN.vars, RULES: 'on' }, secrets: { required: REDIS } }
  const file = { ...PLAIN, env: { production, staging: { vars: PLAIN.vars } } }
  expect([...((await findParts(file, '--env', 'production')) ?? [])]).toContain('gateway/rules/open-rules.ts')
  expect(await findParts(file, '--env', 'staging')).toBeUndefined()
  expect([...((await findParts(file)) ?? [])]).not.toContain('gateway/rules/open-rules.ts')
})

test('findNeededParts() says what the gateway would refuse', async () => {
  const file = { vars: PLAIN.vars, secrets: { required: [REDIS[0]] } }
  await expect(findParts(file)).rejects.toThrow(/^UPSTASH_REDIS_REST_TOKEN: expected .*\n.* required of \[secrets\]\.$/)
})
