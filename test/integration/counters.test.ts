import { describe, expect, test } from 'vitest'
import { type Flush, findPeriodStart, type Period } from '../../src/core/store/counters.ts'
import { RedisCounters } from '../../src/core/store/redis/counters/redis-counters.ts'
import { adaptNodeRedis } from '../../src/core/store/redis/tcp-clients.ts'
import { ownRedis } from '../support/own-redis.ts'

const redis = ownRedis()

const MINUTE = 60_000
const HOUR = 3_600_000
const DAY = 24 * HOUR
/** The start of a day, so that a test knows when hashes begin. */
const DAY_MS = findPeriodStart('hour', Date.now()) - (findPeriodStart('hour', Date.now()) % DAY)

async function subject() {
  await redis.client.flushAll()
  // Redis knows the script, as it does after its first flush.
  const counters = new RedisCounters({ client: adaptNodeRedis(redis.client), keyPrefix: 'sluice', timeoutMs: 60_000 })
  await counters.add({ source: 'x', number: 1, minutes: [{ startMs: 0, counts: new Map(), sketches: new Map() }] })
  await counters.read('minute', 0, 1)
  await redis.client.flushAll()
  return counters
}

function period(atMs: number, names: number): Period {
  const counts = new Map(Array.from({ length: names }, (_, index) => [`count ${index}`, 1]))
  const items = [{ name: 'caller', count: 1, over: 0 }]
  return { startMs: DAY_MS + atMs, counts, sketches: new Map([['refused', { items, floor: 0 }]]) }
}

function flush(number: number, atMs: number, names = 100): Flush {
  return { source: 'isolate', number, minutes: [period(atMs, names)] }
}

describe('RedisCounters', () => {
  test('a flush costs 7 commands, however many counts it has, and 3 more where a hash begins', async () => {
    const counters = await subject()
    const plain = { evalsha: 1, hmget: 3, hset: 3 }
    const beginning = { ...plain, pexpire: 3 }
    expect(await redis.billed(() => counters.add(flush(1, 0)))).toEqual(beginning)
    expect(await redis.billed(() => counters.add(flush(2, 10_000, 900)))).toEqual(plain)
    expect(await redis.billed(() => counters.add(flush(3, MINUTE)))).toEqual(plain)
    expect(await redis.billed(() => counters.add(flush(4, 10 * MINUTE)))).toEqual(beginning)
    expect(await redis.billed(() => counters.add(flush(4, 10 * MINUTE)))).toEqual({ evalsha: 1, hmget: 1 })
  })

  test('the flushes of an hour cost at most a tenth of a command per request at 10 requests a second', async () => {
    const counters = await subject()
    const flushes = 360
    const costs = await redis.billed(async () => {
      for (let number = 1; number <= flushes; number++) await counters.add(flush(number, (number - 1) * 10_000, 60))
    })
    const sum = Object.values(costs).reduce((all, each) => all + each, 0)
    expect(sum / (flushes * 100)).toBeLessThanOrEqual(0.073)
  })

  test('two hours by minute are read by at most 14 commands, 30 days by hour by at most 32', async () => {
    const counters = await subject()
    await counters.add(flush(1, 0))
    const minutes = await redis.billed(() => counters.read('minute', DAY_MS + 1, DAY_MS + 2 * HOUR + 1))
    expect(minutes).toEqual({ evalsha: 1, hgetall: 13 })
    const hours = await redis.billed(() => counters.read('hour', DAY_MS + 1 - 30 * DAY, DAY_MS + 1))
    expect(hours).toEqual({ evalsha: 1, hgetall: 31 })
  })

  test('every key lives as long as what it holds can be read, and no longer', async () => {
    const counters = await subject()
    for (let number = 1; number <= 3; number++) await counters.add(flush(number, number * 30 * MINUTE))
    const ttls = await Promise.all(
      (await redis.client.keys('*')).map(async (key) => [key, await redis.client.pTTL(key)] as const),
    )
    const block = DAY_MS / (10 * MINUTE)
    const expected = new Map([
      ...[3, 6, 9].map((at) => [`sluice:statistics:minutes:${block + at}`, 4 * HOUR + 10 * MINUTE] as const),
      [`sluice:statistics:hours:${DAY_MS / DAY}`, 61 * DAY],
      ['sluice:statistics:totals', 61 * DAY],
    ])
    expect(ttls.map(([key]) => key).sort()).toEqual([...expected.keys()].sort())
    for (const [key, ms] of expected) {
      const ttl = ttls.find(([name]) => name === key)?.[1] ?? 0
      expect(ttl).toBeLessThanOrEqual(ms)
      expect(ttl).toBeGreaterThan(ms - 60_000)
    }
  })

  test('what is no count is refused as a StoreError that names no key', async () => {
    const counters = await subject()
    await redis.client.set('sluice:statistics:totals', 'something else')
    await expect(counters.readTotals()).rejects.toThrow(/^Redis answered an error: WRONGTYPE/)
    await redis.client.del('sluice:statistics:totals')
    await redis.client.hSet('sluice:statistics:totals', 'admitted', 'many')
    await expect(counters.readTotals()).rejects.toThrow('unexpected reply from Redis')
  })
})
