/** The command over several databases. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createGateway } from '../../src/gateway/create-gateway.ts'
import { startRedisServer } from '../../tools/redis-server.ts'
import { startRestFront } from '../../tools/rest-front.ts'
import { PLANTED } from '../setup/secret-watch.ts'
import { type Part, startParts } from '../support/parts.ts'
import { connectRedis, type RedisClient } from '../support/redis-client.ts'
import { runInside } from './run-command.ts'

const CALLERS = Array.from({ length: 12 }, (_, index) => `caller-${index}`)
let site: Part
let clients: RedisClient[]
let cwd: string
let secrets: Readonly<Record<string, string>>

beforeAll(async () => {
  const urls: string[] = []
  const token = `${PLANTED}-rest-token`
  site = await startParts(async (add) => {
    const servers = [await add(startRedisServer()), await add(startRedisServer())]
    clients = await Promise.all(servers.map(({ port }) => connectRedis(port)))
    for (const { port } of servers) urls.push((await add(startRestFront({ redisPort: port, token }))).url)
    return {}
  })
  cwd = await mkdtemp(join(tmpdir(), 'sluice-shards-'))
  const shards = urls.map((url, at) => ({ name: `db${at}`, url, token }))
  secrets = { REDIS_SHARDS: JSON.stringify(shards), IDENTITY_SECRET: `${PLANTED}-of-identities` }
  const lines = Object.entries(secrets).map(([name, value]) => `${name}='${value}'\n`)
  await writeFile(join(cwd, 'wrangler.json'), JSON.stringify({ vars: { RULES: 'on' } }))
  await writeFile(join(cwd, '.dev.vars'), lines.join(''))
})
afterAll(async () => {
  for (const client of clients) client.destroy()
  await Promise.all([site.stop(), rm(cwd, { recursive: true })])
})

const run = async (...args: string[]) => {
  const { code, stdout, stderr } = await runInside([...args, '--json'], { cwd })
  expect([code, stderr]).toEqual([0, ''])
  return stdout
}
const countKeys = async (match: string) => Promise.all(clients.map(async (client) => (await client.keys(match)).length))

test('each caller is found, reset and blocked, whichever database counts it', async () => {
  const { app } = await createGateway({ ...secrets, UPSTREAM: { fetch: async () => new Response('hello') } })
  const context = { waitUntil() {}, passThroughOnException() {}, props: {} }
  for (const caller of [...CALLERS, ...CALLERS]) {
    const request = new Request('https://api.acme.test/', { headers: { Authorization: caller } })
    expect((await app.fetch(request, {}, context)).status).toBe(200)
  }
  const counts = await countKeys('sluice:default:*')
  expect(Math.min(...counts)).toBeGreaterThan(0)
  expect(counts.reduce((sum, count) => sum + count)).toBe(CALLERS.length)

  const readUsed = async (caller: string) => JSON.parse(await run('usage', caller)).limits[0].used
  for (const caller of CALLERS) {
    expect(await readUsed(caller)).toBe(2)
    await run('reset', caller, '--yes')
    expect(await readUsed(caller)).toBe(0)
  }
  expect(await countKeys('sluice:default:*')).toEqual([0, 0])

  // Rules are in the first one.
  await run('block', 'caller-1')
  expect(await countKeys('sluice:rules')).toEqual([1, 0])
})

test('expire, delete and top go over all databases', async () => {
  for (const [at, client] of clients.entries()) await client.set(`other:${at}`, 'x')
  const results = (await run('delete', '--match', 'other:*', '--yes')).trim().split(/\n(?=\{)/)
  expect(results.map((text) => JSON.parse(text).deleted)).toEqual([1, 1])
  expect(await countKeys('other:*')).toEqual([0, 0])
  const { app } = await createGateway({ ...secrets, UPSTREAM: { fetch: async () => new Response('hello') } })
  const context = { waitUntil() {}, passThroughOnException() {}, props: {} }
  const health = await app.fetch(new Request('https://api.acme.test/_sluice/health'), {}, context)
  expect(await health.json()).toMatchObject({ store: { layout: { warning: null } } })
  expect(await countKeys('sluice:shards')).toEqual([1, 1])
  const { databases } = JSON.parse(await run('top', '--iterations', '1'))
  expect(databases.map(({ unknown }: { unknown: number }) => unknown)).toEqual([0, 0])
})

test('no database is asked while counts are in Durable Objects', async () => {
  const { code, stderr } = await runInside(['usage', 'caller-1'], { cwd, env: { STORE: 'durable-object' } })
  expect([code, stderr.split('\n')[0]]).toEqual([2, 'error: counts are in Durable Objects; use --gateway'])
})
