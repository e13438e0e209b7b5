import { once } from 'node:events'
import { type AddressInfo, createServer, connect as dial, type Socket } from 'node:net'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { type KeyRow, KeyWatch, OwnKeys } from '../../src/command/top/key-watch.ts'
import { createDigest } from '../../src/core/runtime/digest.ts'
import { RedisDocuments } from '../../src/core/store/redis/documents/redis-documents.ts'
import { LUA } from '../../src/core/store/redis/more-lua.ts'
import { RedisStore } from '../../src/core/store/redis/redis-store.ts'
import { adaptNodeRedis } from '../../src/core/store/redis/tcp-clients.ts'
import type { CallerCharge } from '../../src/gateway/callers/caller-charges.ts'
import { NO_RULES } from '../../src/gateway/rules/document.ts'
import { createRulesReader } from '../../src/gateway/rules/rule-effects.ts'
import { loadConfig } from '../../src/http/config/load-config.ts'
import { startRedisServer } from '../../tools/redis-server.ts'
import { startRestFront } from '../../tools/rest-front.ts'
import { EVERY_ALGORITHM } from '../support/charges.ts'
import { connectRedis } from '../support/redis-client.ts'
import { share } from '../support/share.ts'
import { connectBytes, fill, openDatabase } from '../support/upkeep.ts'
import { runCommand, runInside } from './run-command.ts'

const POLICIES = [
  { name: 'all', limits: '10/1d' },
  { name: 'bucket', limits: '60/1m', algorithm: 'token-bucket', burst: 10 },
  { name: 'slots', limits: '3', algorithm: 'concurrency' },
  { name: 'fixed', limits: '100/1h', algorithm: 'fixed-window' },
  { name: 'ban', limits: '1/1s', penalty: '1d' },
]
const config = loadConfig({
  UPSTREAM_URL: 'https://api.example',
  KEY_PREFIX: 'a.b',
  POLICIES: JSON.stringify(POLICIES),
})
const ownKeys = new OwnKeys(config)

const server = share(() => startRedisServer({ args: ['--enable-debug-command', 'yes'] }))
const redis = share(
  () => connectRedis(server.port),
  (client) => client.close(),
)
const bytes = share(
  () => connectBytes(server.port),
  (client) => client.destroy(),
)
const connection = share(
  () => openDatabase(`redis://127.0.0.1:${server.port}`),
  (database) => database.close(),
)
const store = share(
  () => new RedisStore({ client: adaptNodeRedis(redis), algorithms: EVERY_ALGORITHM, moreLua: LUA, timeoutMs: 60_000 }),
  () => {},
)
beforeEach(() => redis.flushAll())

let slot = 1
async function consume(key: string, times: number): Promise<void> {
  const requested = ownKeys.findCharge(key)
  if (!requested) throw new Error(`no policy has ${key}`)
  for (let i = 0; i < times; i++) {
    const rule = requested.algorithm === 'concurrency' ? { ...requested, slot: slot++ } : requested
    await store.decide({ action: 'take', permits: 1, charges: [rule] })
  }
}

const active = { ownKeys, rules: NO_RULES, applyRules: createRulesReader(NO_RULES, config, Date.now) }

function watch(sample = 1_000, rows = 3) {
  const watching = new KeyWatch({ connection, store, sample, rows })
  return { look: () => watching.look(active) }
}

test('KeyWatch lists the busiest, and those at their limits, of its own prefix only, and changes nothing', async () => {
  await fill(bytes, 'other', 500)
  await fill(bytes, 'axb:all:w:{', 5)
  await consume('a.b:all:w:{few}', 2)
  await consume('a.b:all:w:{more}', 5)
  await consume('a.b:all:w:{most}', 10)
  await consume('a.b:fixed:f:{fixed}', 3)
  const before = await redis.sendCommand(['DEBUG', 'DIGEST'])
  const looking = watch()
  await looking.look()
  const found = await looking.look()
  expect(found).toMatchObject({ keys: 4, share: 1, passes: 2, withoutTtl: 0, unknown: 0 })
  const busiest = found.busiest.filter(({ policy }) => policy === 'all').map(({ digest }) => digest)
  expect(busiest.slice(0, 2)).toEqual(['most', 'more'])
  expect(found.atLimit).toEqual([
    expect.objectContaining({ digest: 'most', used: 10, limit: 10, looks: 2, looksAtLimit: 2 }),
  ])
  expect(found.atLimit[0]?.retryAfterMs).toBeGreaterThan(86_000_000)
  expect(await redis.sendCommand(['DEBUG', 'DIGEST'])).toEqual(before)
})

test('KeyWatch takes a penalty for a limit that is reached', async () => {
  await consume('a.b:ban:w:{banned}', 2)
  const { atLimit } = await watch().look()
  expect(atLimit).toEqual([expect.objectContaining({ digest: 'banned', looksAtLimit: 1 })])
  expect(atLimit[0]?.retryAfterMs).toBeGreaterThan(86_000_000)
})

test('KeyWatch reports keys without a TTL, of policies that are gone, and of those that hold something else', async () => {
  await consume('a.b:all:w:{one}', 1)
  await redis.set('a.b:all:w:{other}', 'no stream')
  await redis.set('a.b:gone:w:{one}', 'x', { expiration: { type: 'EX', value: 100 } })
  await redis.set('a.b:all:f:{letter}', 'x', { expiration: { type: 'EX', value: 100 } })
  const found = await watch().look()
  expect(found).toMatchObject({ keys: 4, withoutTtl: 1, unknown: 2 })
  expect(found.busiest.map(({ digest }) => digest)).toEqual(['one'])
})

test('KeyWatch takes no exception to rules and their audit log, which have no TTL, nor to statistics', async () => {
  for (const name of ['rules', 'audit']) await redis.hSet(`a.b:${name}`, { version: '1', '1:at': '1' })
  for (const name of ['statistics:minutes:1', 'statistics:totals']) {
    await redis.set(`a.b:${name}`, 'x', { expiration: { type: 'EX', value: 100 } })
  }
  expect(await watch().look()).toMatchObject({ keys: 4, withoutTtl: 0, unknown: 0 })
})

test('KeyWatch goes on through a large database look by look, and drops what has become idle', async () => {
  await fill(bytes, 'other', 5_000)
  for (let i = 0; i < 100; i++) await consume(`a.b:all:w:{${i}}`, 1 + (i % 7))
  await consume('a.b:slots:c:{holds}', 2)
  const looking = watch(20)
  const first = await looking.look()
  expect(first.share).toBeLessThan(1)
  let found = first
  for (let look = 0; found.passes < 1 && look < 1_000; look++) found = await looking.look()
  expect(found).toMatchObject({ keys: 101, share: 1 })
  expect(found.busiest.map(({ used }) => used)).toEqual([7, 7, 7])
  await redis.flushAll()
  expect(await looking.look()).toMatchObject({ keys: 0, busiest: [], atLimit: [] })
})

test('sluice top shows one look where nobody reads along, and sends nothing that holds up a server', async () => {
  await consume('a.b:all:w:{most}', 10)
  await redis.configResetStat()
  const env = { KEY_PREFIX: 'a.b', POLICIES: JSON.stringify(POLICIES) }
  const args = ['top', '--redis', `redis://127.0.0.1:${server.port}`]
  const text = await runInside(args, { env })
  const front = await startRestFront({ redisPort: server.port, token: 'planted-secret-top' })
  const overRest = await runInside(['top', '--redis', front.url, '--json'], {
    env: { ...env, UPSTASH_REDIS_REST_TOKEN: front.token },
  })
  await front.stop()
  const json = await runInside([...args, '--json'], { env })
  expect([text.code, json.code]).toEqual([0, 0])
  expect(text.stdout).toMatch(/keys of Sluice: 1, 0 without a time to live; pass 1 at 100 %/)
  expect(text.stdout).toMatch(/all +most +0\.00 +all-1d +10 +10 +[\d.]+[dh] +1 of 1/)
  expect(JSON.parse(json.stdout)).toMatchObject({
    keys: 1,
    withoutTtl: 0,
    server: { keys: 1 },
    atLimit: [{ digest: 'most' }],
  })
  const sent = [...(await redis.info('commandstats')).matchAll(/^cmdstat_([^:]+):/gm)].map(([, name]) => name)
  expect(JSON.parse(overRest.stdout)).toMatchObject({ keys: 1, atLimit: [{ digest: 'most', used: 10 }] })
  for (const name of ['keys', 'monitor', 'xadd', 'set', 'pexpire']) expect(sent).not.toContain(name)
})

test('sluice top goes by pushed policies, overrides, allows and shadow mode, and says what keys do not tell', async () => {
  const [raised, allowed, plain] = ['raised', 'allowed', 'plain'].map((token) =>
    createDigest(undefined)(['token', token]),
  )
  const pushed = [
    { name: 'all', limits: '10/1d' },
    { name: 'pushed', limits: '2/1d' },
    { name: 'tried', limits: '1/1d', mode: 'shadow' },
  ]
  const rules = {
    policies: pushed,
    overrides: [{ by: 'token', digest: raised, multiplier: 10 }],
    allows: [{ by: 'token', digest: allowed }],
  }
  const documents = new RedisDocuments({ client: adaptNodeRedis(redis), key: 'a.b:rules', timeoutMs: 60_000 })
  await documents.write({ text: JSON.stringify(rules), expectedVersion: 0, actor: 'test', comment: '' })
  for (const digest of [raised, allowed, plain]) await consume(`a.b:all:w:{${digest}}`, 10)
  const tables = { 'pushed:w': '2/1d', 'tried:w': '1/1d' }
  for (const [name, limits] of Object.entries(tables)) {
    const policy = { name: name.slice(0, -2), limits }
    const { policies } = loadConfig({ UPSTREAM_URL: 'https://api.example', RATE_LIMITS: 'off', POLICIES: [policy] })
    const own = new OwnKeys({ keyPrefix: 'a.b', policies })
    const charge = own.findCharge(`a.b:${name}:{${plain}}`) as CallerCharge
    for (let i = 0; i < 2; i++) await store.decide({ action: 'take', permits: 1, charges: [charge] })
  }
  const args = ['top', '--redis', `redis://127.0.0.1:${server.port}`]
  const env = { KEY_PREFIX: 'a.b', POLICIES: JSON.stringify(POLICIES), RULES: 'on' }
  const look = async (more: Record<string, string> = {}) =>
    JSON.parse((await runInside([...args, '--json'], { env: { ...env, ...more } })).stdout)
  const { unknown, rules: state, busiest, atLimit } = await look()
  expect([unknown, state]).toEqual([0, { state: 'active', version: 1, problem: null }])
  expect(atLimit.map(({ policy, digest }: KeyRow) => [policy, digest]).toSorted()).toEqual([
    ['all', plain],
    ['pushed', plain],
  ])
  expect(
    Object.fromEntries(busiest.map(({ policy, digest, effect }: KeyRow) => [`${policy} ${digest}`, effect])),
  ).toEqual({
    [`all ${raised}`]: 'override',
    [`all ${allowed}`]: 'unlimited',
    [`all ${plain}`]: null,
    [`pushed ${plain}`]: null,
    [`tried ${plain}`]: 'shadow',
  })
  const blocks = [{ country: 'DE' }, { by: 'token', digest: plain, status: 404 }]
  await documents.write({ text: JSON.stringify({ ...rules, blocks }), expectedVersion: 1, actor: 'test', comment: '' })
  const { stdout } = await runInside(args, { env })
  expect(stdout).toMatch(/all +\S+ +blocked, 404 /)
  expect(stdout).toContain('Rules by country may decide otherwise')
  // A gateway without rules goes by what was deployed.
  expect(await look({ RULES: 'off' })).toMatchObject({ unknown: 2, rules: { state: 'deployed' } })
})

test('sluice top ends when its server has left, though its client goes on trying to connect', async () => {
  const sockets = new Set<Socket>()
  let isUnavailable = false
  const front = createServer((client) => {
    client.on('error', () => {})
    if (isUnavailable) return void client.destroy()
    sockets.add(client)
    const upstream = dial(server.port, '127.0.0.1').on('error', () => {})
    upstream.pipe(client)
    client.on('close', () => upstream.destroy())
    client.on('data', (sent) => {
      isUnavailable ||= sent.includes('DBSIZE')
      if (isUnavailable) for (const socket of sockets) socket.destroy()
      else upstream.write(sent)
    })
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void front.close())
  await once(front, 'listening')
  const { port } = front.address() as AddressInfo
  const { code, stderr } = await runCommand(['top', '--redis', `redis://127.0.0.1:${port}`])
  expect([code, stderr]).toEqual([3, 'error: the connection to Redis was lost\n'])
})
