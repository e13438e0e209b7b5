import { afterAll, beforeAll, expect, test } from 'vitest'
import { joinScript } from '../../src/store/script.ts'
import { scriptArguments } from '../../src/store/script-call.ts'
import type { DecisionRequest, Tier } from '../../src/store/store.ts'
import { type RedisServer, startRedisServer } from '../../tools/redis-server.ts'
import { connectRedis, type RedisClient } from '../support/script-store.ts'

// Upstash bills every command, those inside of a script one by one. What Redis itself has counted is what is billed.

let server: RedisServer
let redis: RedisClient

beforeAll(async () => {
  server = await startRedisServer()
  redis = await connectRedis(server.port)
})
afterAll(async () => {
  await redis.close()
  await server.stop()
})

/** Asks Redis's clock, as the real one does, but goes by the test's. */
const CLOCK = "return function() redis.call('TIME') return tonumber(ARGV[#ARGV]) end"
const script = joinScript(new Set(['sliding-window']), CLOCK)

const HOUR = 3_600_000
/** The very start of an hour, so that a test knows when a new one begins. */
const START_MS = 472_222 * HOUR

async function billed(request: DecisionRequest, nowMs: number): Promise<Record<string, number>> {
  await redis.sendCommand(['CONFIG', 'RESETSTAT'])
  await redis.eval(script, {
    keys: request.rules.map(({ key }) => key),
    arguments: [...scriptArguments(request), nowMs * 1000].map(String),
  })
  const stats = await redis.info('commandstats')
  const counts = [...stats.matchAll(/^cmdstat_(\S+?):calls=(\d+)/gm)]
    .filter(([, command]) => command !== 'config|resetstat')
    .map(([, command, calls]) => [command, Number(calls)] as const)
  return Object.fromEntries(counts)
}

function total(counts: Record<string, number>): number {
  return Object.values(counts).reduce((sum, calls) => sum + calls, 0)
}

function take(key: string, tiers: readonly Tier[], cost = 1): DecisionRequest {
  return {
    mode: 'all',
    permits: 1,
    rules: [{ key, algorithm: 'sliding-window', tiers, cost, enforced: true, reserved: 0 }],
  }
}

const TIERS: readonly Tier[] = [
  { limit: 10_000, windowMs: 1_000 },
  { limit: 20_000, windowMs: 60_000 },
  { limit: 30_000, windowMs: HOUR },
]

test.each([1, 2, 3])('an admitted decision over %d tier(s) costs at most 4 commands and one a tier', async (count) => {
  // The hour alone, then with the minute, then with the second.
  const tiers = TIERS.slice(-count)
  const request = take(`billed:admitted:${count}`, tiers)
  const seen: Record<string, number>[] = []
  for (let i = 0; i < 100; i++) seen.push(await billed(request, START_MS + i * 15))
  expect(Math.max(...seen.map(total))).toBeLessThanOrEqual(4 + count)
  // Busy by now: no window is covered by what is read with the last entry.
  expect(seen.at(-1)).toEqual({ eval: 1, time: 1, xrevrange: 1, xrange: count, xadd: 1 })
  // The TTL was set by the first decision and by no other.
  expect(seen.filter(({ expire }) => expire).length).toBe(1)
})

test('a caller with few requests in its windows costs 4 commands however many tiers there are', async () => {
  const request = take('billed:slow', TIERS)
  expect(await billed(request, START_MS)).toEqual({ eval: 1, time: 1, xrevrange: 1, xadd: 1, expire: 1 })
  for (let i = 1; i <= 14; i++) {
    expect(await billed(request, START_MS + i * 200)).toEqual({ eval: 1, time: 1, xrevrange: 1, xadd: 1 })
  }
})

test('the TTL is renewed once in a longest window, by one command more', async () => {
  const request = take('billed:renewed', TIERS)
  let renewals = 0
  for (let i = 0; i < 100; i++) {
    const { expire = 0 } = await billed(request, START_MS + i * (HOUR / 10))
    renewals += expire
  }
  expect(renewals).toBe(10)
})

test.each([1, 5, 16])('a refusal of cost %d by one tier costs at most 4 commands', async (cost) => {
  const tiers = [{ limit: 50, windowMs: HOUR }]
  const key = `billed:refused:${cost}`
  for (let i = 0; i < 50; i++) await billed(take(key, tiers), START_MS + i)
  expect(await billed(take(key, tiers, cost), START_MS + 100)).toEqual({ eval: 1, time: 1, xrevrange: 1, xrange: 1 })
})

test('a refusal of any cost finds its moment in a number of reads that grows with the logarithm of the window', async () => {
  const tiers = [{ limit: 1_000, windowMs: HOUR }]
  for (let i = 0; i < 1_000; i++) await billed(take('billed:dear', tiers), START_MS + i * 1_000)
  const counts = await billed(take('billed:dear', tiers, 500), START_MS + 1_000_000)
  expect(total(counts)).toBeLessThanOrEqual(4 + Math.ceil(Math.log2(HOUR)))
})
