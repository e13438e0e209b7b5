import { createClient, createCluster, RESP_TYPES } from '@redis/client'
import { type RedisConfigNodejs, Redis as Upstash } from '@upstash/redis'
import { Cluster, Redis as IoRedis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest'
import {
  type AnyRedis,
  concurrency,
  createLimiter,
  type LimiterOptions,
  OptionError,
  quota,
  redisStore,
  slidingWindow,
  UPSTASH_OPTIONS,
} from '../../src/index.ts'
import { findFreePort } from '../../tools/free-port.ts'
import { connectRedis, type RedisClient } from '../support/redis-client.ts'

let nodeRedis: RedisClient
let ioRedis: IoRedis
let ioRedisOfText: IoRedis

beforeAll(async () => {
  nodeRedis = await connectRedis(inject('redisPort'))
  ioRedis = new IoRedis(inject('redisPort'), '127.0.0.1', { autoResendUnfulfilledCommands: false })
  ioRedisOfText = ioRedis.duplicate({ stringNumbers: true })
})
afterAll(async () => {
  await nodeRedis.close()
  ioRedis.disconnect()
  ioRedisOfText.disconnect()
})

const CLIENTS: Record<string, () => AnyRedis> = {
  '@upstash/redis': () => upstash(UPSTASH_OPTIONS),
  '@upstash/redis with what the environment says': () => {
    vi.stubEnv('UPSTASH_REDIS_REST_URL', inject('redisRestUrl'))
    vi.stubEnv('UPSTASH_REDIS_REST_TOKEN', inject('redisRestToken'))
    return Upstash.fromEnv(UPSTASH_OPTIONS)
  },
  '@redis/client': () => nodeRedis,
  '@redis/client with numbers as text': () => nodeRedis.withTypeMapping({ [RESP_TYPES.NUMBER]: String }),
  ioredis: () => ioRedis,
  'ioredis with stringNumbers': () => ioRedisOfText,
}

function upstash(options: Partial<RedisConfigNodejs>): Upstash {
  return new Upstash({ url: inject('redisRestUrl'), token: inject('redisRestToken'), ...options })
}

/** A limiter with keys of its own. */
function subject(client: AnyRedis, options: LimiterOptions) {
  const keyPrefix = crypto.randomUUID()
  const store = redisStore(client, { timeoutMs: 60_000 })
  return { prefix: keyPrefix, limiter: createLimiter({ keyPrefix, store, log: () => {}, ...options }) }
}

/** The same client, and the names of what it was asked to send so far. */
function watched<T extends object>(client: T): { readonly client: T; readonly sent: string[] } {
  const sent: string[] = []
  const get = (target: T, name: string | symbol) => {
    const value = Reflect.get(target, name)
    if (typeof value !== 'function') return value
    return (...args: unknown[]) => {
      sent.push(String(name))
      return Reflect.apply(value, target, args)
    }
  }
  return { client: new Proxy(client, { get }), sent }
}

describe.each(Object.entries(CLIENTS))('%s', (_name, client) => {
  test('its answers are used that arrived in time, while the process computed for longer than the deadline', async () => {
    const store = redisStore(client(), { timeoutMs: 50 })
    const limiter = createLimiter({
      keyPrefix: crypto.randomUUID(),
      store,
      limits: '9/1h',
      circuitBreaker: false,
      log() {},
    })
    const peekWhileComputing = async () => {
      const answer = limiter.peek('a')
      await new Promise(setImmediate)
      const untilMs = Date.now() + 300
      while (Date.now() < untilMs);
      return (await answer).degraded ?? 'by Redis'
    }
    const seen: string[] = []
    // A busy machine may hold up the answer itself.
    while (seen.length < 20 && !seen.includes('by Redis')) seen.push(await peekWhileComputing())
    expect(seen).toContain('by Redis')
  })

  test('take() is one call, whatever the policies, and a refusal that is known is none', async () => {
    const { client: spied, sent } = watched(client())
    const { limiter } = subject(spied, {
      policies: [
        { name: 'calls', ...slidingWindow('2/1s, 3/1h') },
        { name: 'day', ...quota('3/1d') },
      ],
    })
    const calls = async (work: () => Promise<unknown>) => {
      sent.length = 0
      await work()
      return sent.map((name) => name.toLowerCase())
    }
    await limiter.take('warm up')
    expect(await calls(() => limiter.take('alice', { cost: 2 }))).toEqual(['evalsha'])
    // Unless the second is over by now, it is told to wait, and asks again when it has.
    expect((await calls(() => limiter.waitFor('alice'))).length).toBeLessThanOrEqual(2)
    expect(await calls(() => limiter.take('alice'))).toEqual(['evalsha'])
    const unasked = await calls(async () => {
      for (let i = 0; i < 10; i++) expect((await limiter.take('alice')).granted).toBe(false)
    })
    expect(unasked).toEqual([])
  })

  test('takeUpTo(), peek(), refund() and reset() go to Redis, and reset() is seen at once', async () => {
    const { limiter } = subject(client(), { policies: [{ name: 'day', ...quota('10/1d') }] })
    const decision = await limiter.takeUpTo('partner', 7)
    expect(decision).toMatchObject({ granted: 7, charged: 7 })
    await limiter.refund('partner', decision, 2)
    expect(await limiter.peek('partner')).toMatchObject({ granted: true, limits: [{ remaining: 5 }] })
    expect(await limiter.takeUpTo('partner', 9)).toMatchObject({ granted: 5 })
    expect((await limiter.take('partner')).granted).toBe(false)
    await limiter.reset('partner')
    expect((await limiter.take('partner')).granted).toBe(true)
  })

  test('settle() charges in Redis what was used above, by every kind of policy at once', async () => {
    const policies = [
      { name: 'minute', ...slidingWindow('100/1m') },
      { name: 'day', ...quota('100/1d') },
    ]
    const { limiter } = subject(client(), { policies })
    const decision = await limiter.take('alice', { cost: 10 })
    await limiter.settle('alice', decision, 70)
    expect(await limiter.peek('alice')).toMatchObject({ limits: [{ remaining: 30 }, { remaining: 30 }] })
    await limiter.settle('alice', await limiter.take('alice', { cost: 10 }), 4)
    expect(await limiter.peek('alice')).toMatchObject({ limits: [{ remaining: 20 }, { remaining: 26 }] })
  })

  test('refund() is seen at once, though the refusal before it was remembered', async () => {
    const { limiter } = subject(client(), { policies: [{ name: 'day', ...quota('1/1d') }] })
    const decision = await limiter.take('alice')
    expect((await limiter.take('alice')).granted).toBe(false)
    await limiter.refund('alice', decision)
    expect((await limiter.take('alice')).granted).toBe(true)
  })

  test('hold() holds a slot that other processes see, until it is given back', async () => {
    const { prefix: keyPrefix, limiter } = subject(client(), { policies: [{ name: 'jobs', ...concurrency(1) }] })
    const other = createLimiter({
      keyPrefix,
      store: redisStore(client()),
      policies: [{ name: 'jobs', ...concurrency(1) }],
    })
    {
      await using slot = await limiter.hold('alice')
      expect(slot.granted).toBe(true)
      expect((await other.hold('alice')).granted).toBe(false)
    }
    await using slot = await other.hold('alice')
    expect(slot.granted).toBe(true)
  })

  test('leaves no identity in a key', async () => {
    const { prefix, limiter } = subject(client(), { limits: '5/1h', identitySecret: 'a secret of sixteen' })
    await limiter.take('alice@example.com')
    const keys = await nodeRedis.keys(`${prefix}*`)
    expect(keys).toEqual([expect.stringMatching(/^[\w-]+:default:w:\{[\w-]{22}\}$/)])
  })

  test('answers an error of Redis as a store that is unavailable', async () => {
    const { prefix, limiter } = subject(client(), { limits: '5/1h' })
    await limiter.take('alice')
    const [key = ''] = await nodeRedis.keys(`${prefix}*`)
    await nodeRedis.set(key, 'no stream')
    expect(await limiter.take('alice')).toMatchObject({ granted: true, degraded: 'local', limits: [{ remaining: 4 }] })
    await expect(limiter.reset('alice')).resolves.toBeUndefined()
    expect(await limiter.take('alice')).not.toHaveProperty('degraded')
  })
})

test('a limiter with leases calls the store seldom, and reset() ends what it has leased', async () => {
  const { limiter } = subject(nodeRedis, { limits: '100000/1m', leases: 'auto' })
  for (let i = 0; i < 3_000; i++) await limiter.take('alice')
  await limiter.reset('alice')
  const { limits } = await limiter.peek('alice')
  expect(limits[0]?.remaining).toBe(100_000)
})

test.each([
  ['enableAutoPipelining: false', { retry: { retries: 0 } }],
  ['retry: { retries: 0 }', { enableAutoPipelining: false }],
  ['retry: { retries: 0 }', { enableAutoPipelining: false, retry: false }],
  ['without a signal', { ...UPSTASH_OPTIONS, signal: AbortSignal.timeout(1_000) }],
] as const)('redisStore() refuses an @upstash/redis client: %s', (expected, options) => {
  expect(() => redisStore(upstash(options))).toThrow(OptionError)
  expect(() => redisStore(upstash(options))).toThrow(expected)
})

test.each([
  ['@redis/client', createClient()],
  ['ioredis', new IoRedis({ lazyConnect: true, autoResendUnfulfilledCommands: false })],
])('a lost connection of %s that nobody listens for does not end the process', (_name, client) => {
  expect(() => client.emit('error', new Error('lost'))).toThrow('lost')
  redisStore(client)
  expect(() => client.emit('error', new Error('lost'))).not.toThrow()
})

test.each([
  ['@redis/client', (port: number) => createClient({ url: `redis://127.0.0.1:${port}`, disableOfflineQueue: true })],
  ['ioredis', (port: number) => new IoRedis(port, { lazyConnect: true, autoResendUnfulfilledCommands: false })],
])('why %s that nobody listens to has no connection is logged', async (_name, create) => {
  const client = create(await findFreePort())
  const messages: unknown[] = []
  const limiter = createLimiter({
    limits: '5/1h',
    store: redisStore(client, { timeoutMs: 300 }),
    log: (_level, fields) => messages.push(fields.message),
  })
  const connecting = client.connect().catch(() => {})
  await vi.waitFor(async () => {
    await limiter.take('alice')
    expect(messages).toContainEqual(expect.stringContaining('(ECONNREFUSED)'))
  })
  if ('destroy' in client) client.destroy()
  else client.disconnect()
  await connecting
})

test('redisStore() refuses legacy() of @redis/client, which answers callbacks only', () => {
  expect(() => redisStore(nodeRedis.legacy() as object as AnyRedis)).toThrow('a client of @redis/client itself')
})

test('redisStore() refuses an ioredis client that repeats calls, and what is no client', () => {
  const client = new IoRedis({ lazyConnect: true })
  expect(() => redisStore(client)).toThrow('autoResendUnfulfilledCommands: false')
  for (const other of [undefined, null, 'redis://', {}, new Map()]) {
    expect(() => redisStore(other as never)).toThrow('redisStore: expected a client of @upstash/redis')
  }
})

test.each<[string, () => object]>([
  ['retryDelayOnFailover: 0', () => new Cluster([], { lazyConnect: true })],
  [
    'redisOptions: { autoResendUnfulfilledCommands: false }',
    () => new Cluster([], { lazyConnect: true, retryDelayOnFailover: 0, clusterNodeRetryStrategy: () => 50 }),
  ],
])('redisStore() refuses a client that would send a call twice: %s', (expected, make) => {
  expect(() => redisStore(make() as AnyRedis)).toThrow(OptionError)
  expect(() => redisStore(make() as AnyRedis)).toThrow(expected)
})

test('redisStore() takes clients of clusters that send each call once', () => {
  redisStore(new Cluster([], { lazyConnect: true, retryDelayOnFailover: 0 }))
  redisStore(createCluster({ rootNodes: [] }))
})

test.each<[string, (port: number) => { client: AnyRedis; end: () => void }]>([
  [
    'ioredis',
    (port) => {
      const options = { autoResendUnfulfilledCommands: false, enableOfflineQueue: false }
      const client = new IoRedis(port, '127.0.0.1', options)
      return { client, end: () => client.disconnect() }
    },
  ],
  [
    '@redis/client',
    (port) => {
      const client = createClient({ url: `redis://127.0.0.1:${port}`, disableOfflineQueue: true })
      void client.connect()
      return { client, end: () => client.destroy() }
    },
  ],
])('a decision waits for a client of %s that was just made to connect', async (_name, make) => {
  const { client, end } = make(inject('redisPort'))
  const { limiter } = subject(client, { limits: '5/1h' })
  const decisions = await Promise.all([limiter.take('alice'), limiter.take('alice')])
  for (const decision of decisions) expect(decision).not.toHaveProperty('degraded')
  end()
})

test.each([
  ['local', { granted: true, degraded: 'local', limits: [{ limit: 5, remaining: 4 }] }],
  ['open', { granted: true, degraded: 'open', limits: [], retryAfterMs: 0 }],
  ['closed', { granted: false, degraded: 'closed', limits: [], retryAfterMs: 1_000 }],
] as const)('without Redis, onStoreError %s decides', async (onStoreError, expected) => {
  const client = new IoRedis(await findFreePort(), '127.0.0.1', {
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
  })
  client.on('error', () => {})
  const lines: unknown[] = []
  const log = (_level: string, fields: { readonly event: string }) => lines.push(fields.event)
  const { limiter } = subject(client, { limits: '10/1h', onStoreError, localShare: 0.5, log })
  expect(await limiter.take('alice')).toMatchObject(expected)
  expect(lines).toEqual(['store_error'])
  client.disconnect()
})

test.each([
  [40, 10],
  [60, 30],
])('of 30 decisions of a process that stands still, a limit of %i admits %i', async (limit, admitted) => {
  let sent = 0
  let stoodMs = 0
  const client = new Proxy(nodeRedis, {
    get(target, name) {
      const own: unknown = Reflect.get(target, name)
      if (name !== 'evalSha') return typeof own === 'function' ? own.bind(target) : own
      return (...call: Parameters<typeof target.evalSha>) => {
        // It has sent all of them, and reads no answer before it goes on.
        if (++sent === 30) stoodMs = 3_600_000
        return target.evalSha(...call)
      }
    },
  })
  const { limiter } = subject(client, { limits: `${limit}/1d`, now: () => Date.now() + stoodMs })
  // The script is known then.
  await limiter.take('first')
  sent = 0
  const decisions = await Promise.all(Array.from({ length: 30 }, () => limiter.take('user')))
  expect(decisions.filter(({ granted }) => granted)).toHaveLength(admitted)
  expect((await limiter.peek('user')).limits[0]?.remaining).toBe(0)
})
