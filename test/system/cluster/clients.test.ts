import { createClient, createCluster } from '@redis/client'
import { Redis } from 'ioredis'
import { expect, test } from 'vitest'
import { type AnyRedis, concurrency, createLimiter, quota, redisStore, slidingWindow } from '../../../src/index.ts'
import { createCharge, take } from '../../support/charges.ts'
import { startRedisCluster } from '../../support/redis-cluster.ts'
import { share } from '../../support/share.ts'
import { connectIoCluster, connectNodeCluster } from './clients.ts'

const cluster = share(startRedisCluster)

const ONE_SECOND_MS = 1_000

/** Takes a unit whose answer is lost, and waits for what the client may do then. @returns the units charged */
async function countCharges(client: AnyRedis): Promise<number> {
  const keyPrefix = crypto.randomUUID()
  const store = redisStore(client, { timeoutMs: ONE_SECOND_MS })
  const limiter = createLimiter({ store, keyPrefix, limits: '100/1h', circuitBreaker: false, log: () => {} })
  await Promise.all(Array.from({ length: 20 }, (_, n) => limiter.peek(`warm up ${n}`)))
  for (const node of cluster.masters) node.loseAnswers(true)
  expect(await limiter.take('alice')).toMatchObject({ degraded: 'local' })
  for (const node of cluster.masters) node.loseAnswers(false)
  // The client connects again, and has sent before this whatever it kept.
  await expect.poll(() => limiter.take('bob')).not.toHaveProperty('degraded')
  await new Promise((resolve) => setTimeout(resolve, ONE_SECOND_MS))
  const { limits } = await limiter.peek('alice')
  return 100 - (limits[0]?.remaining ?? 0)
}

const CLIENTS: [string, () => Promise<{ client: AnyRedis; end: () => void }>][] = [
  [
    'a cluster of @redis/client',
    async () => {
      const client = await connectNodeCluster(cluster.ports)
      return { client, end: () => client.destroy() }
    },
  ],
  [
    'a Cluster of ioredis with retryDelayOnFailover: 0',
    async () => {
      const client = connectIoCluster(cluster.ports)
      return { client, end: () => client.disconnect() }
    },
  ],
  [
    'a Cluster of ioredis whose nodes reconnect by themselves, with autoResendUnfulfilledCommands: false',
    async () => {
      const client = connectIoCluster(cluster.ports, {
        retryDelayOnFailover: 0,
        clusterNodeRetryStrategy: () => 50,
        redisOptions: { autoResendUnfulfilledCommands: false },
      })
      return { client, end: () => client.disconnect() }
    },
  ],
]

test.each(CLIENTS)(
  '%s tells which node has each key, so that each node has a circuit of its own',
  async (_name, connect) => {
    const { client, end } = await connect()
    // Until ioredis is connected, it knows no node, and one circuit guards all.
    await redisStore(client, { timeoutMs: 60_000 }).open(['quota']).ping()
    const names = new Map<number, Set<string>>()
    for (let n = 0; n < 30; n++) {
      const store = redisStore(client, { timeoutMs: 60_000 }).open(['quota'])
      const charge = createCharge('quota', [{ limit: 9, windowMs: 3_600_000 }])
      expect((await store.decide(take([charge]))).granted).toBe(1)
      const held = await Promise.all(cluster.masters.map(({ send }) => send(['EXISTS', charge.key]).catch(() => 0)))
      const owner = held.indexOf(1)
      names.set(owner, new Set([...(names.get(owner) ?? []), ...(store.places?.byName.keys() ?? [])]))
    }
    expect([...names.keys()].toSorted()).toEqual(cluster.masters.map((_, at) => at))
    expect([...names.values()].map(({ size }) => size)).toEqual(cluster.masters.map(() => 1))
    const all = [...names.values()].flatMap((own) => [...own])
    expect(new Set(all).size).toBe(cluster.masters.length)
    expect(all.every((name) => /:\d+$/.test(name))).toBe(true)
    end()
  },
)

test.each(CLIENTS)('%s charges once if a node has run a call and its answer is lost', async (_name, connect) => {
  const { client, end } = await connect()
  expect(await countCharges(client)).toBe(1)
  end()
})

test.each([
  ['retryDelayOnFailover', {}],
  ['redisOptions', { retryDelayOnFailover: 0, clusterNodeRetryStrategy: () => 50 }],
] as const)('a Cluster of ioredis that is refused because of %s would charge twice', async (option, options) => {
  const client = connectIoCluster(cluster.ports, options)
  expect(() => redisStore(client)).toThrow(option)
  const { evalsha, eval: run, zrem, del, ping, status } = client
  const bare = { evalsha, eval: run, zrem, del, ping, status, defineCommand: true }
  const bound = Object.fromEntries(
    Object.entries(bare).map(([name, value]) => [name, typeof value === 'function' ? value.bind(client) : value]),
  )
  expect(await countCharges(bound as never)).toBeGreaterThan(1)
  client.disconnect()
})

test.each(CLIENTS.slice(0, 2))('refund(), reset() and hold() of %s reach every slot', async (_name, connect) => {
  const { client, end } = await connect()
  const store = redisStore(client, { timeoutMs: 60_000 })
  const keyPrefix = crypto.randomUUID()
  const identity = { day: 'alice', month: 'tenant' }
  const policies = [
    { name: 'day', ...quota('10/1d') },
    { name: 'month', ...quota('20/30d') },
  ]
  const limiter = createLimiter({ store, keyPrefix, policies })
  const remaining = async () => (await limiter.peek(identity)).limits.map((limit) => limit.remaining)
  const decision = await limiter.take(identity, { cost: 5 })
  expect(await remaining()).toEqual([5, 15])
  await limiter.refund(identity, decision, 2)
  expect(await remaining()).toEqual([7, 17])
  await limiter.reset(identity)
  expect(await remaining()).toEqual([10, 20])

  const slots = createLimiter({
    store,
    keyPrefix,
    policies: [
      { name: 'caller', ...concurrency(1) },
      { name: 'all', ...concurrency(2) },
    ],
  })
  {
    await using slot = await slots.hold({ caller: 'alice', all: 'everybody' })
    expect(slot.granted).toBe(true)
    expect((await slots.hold({ caller: 'alice', all: 'everybody' })).granted).toBe(false)
    await using other = await slots.hold({ caller: 'bob', all: 'everybody' })
    expect(other.granted).toBe(true)
    expect((await slots.hold({ caller: 'carol', all: 'everybody' })).granted).toBe(false)
  }
  await expect.poll(async () => (await slots.peek({ caller: 'alice', all: 'everybody' })).limits[1]?.remaining).toBe(2)
  end()
})

test('a decision waits for a cluster of @redis/client that was just made to connect', async () => {
  const client = createCluster({ rootNodes: [{ socket: { host: '127.0.0.1', port: cluster.ports[0] as number } }] })
  const connecting = client.connect()
  const limiter = createLimiter({ limits: '5/1h', store: redisStore(client, { timeoutMs: 60_000 }) })
  expect(await limiter.take('alice')).not.toHaveProperty('degraded')
  await connecting
  client.destroy()
})

test.each<[string, (port: number) => Promise<{ client: AnyRedis; end: () => void }>]>([
  [
    '@redis/client',
    async (port) => {
      const client = await createClient({ url: `redis://127.0.0.1:${port}` }).connect()
      return { client, end: () => client.destroy() }
    },
  ],
  [
    'ioredis',
    async (port) => {
      const client = new Redis(port, '127.0.0.1', { autoResendUnfulfilledCommands: false })
      return { client, end: () => client.disconnect() }
    },
  ],
])('a client of %s for one server says that it meets a cluster', async (_name, connect) => {
  const { client, end } = await connect(cluster.ports[0] as number)
  const messages = new Set<string>()
  const limiter = createLimiter({
    store: redisStore(client, { timeoutMs: 60_000 }),
    policies: [
      { name: 'caller', ...slidingWindow('100/1h') },
      { name: 'all', ...slidingWindow('100/1h') },
    ],
    circuitBreaker: false,
    log: (level, { message }) => {
      if (level === 'error') messages.add(String(message).replace(/\d+ \S+ /, '… '))
    },
  })
  for (let n = 0; n < 20; n++) await limiter.take({ caller: `${n}`, all: 'all' })
  expect([...messages]).toEqual([
    'Redis answered an error: MOVED … (a node of a cluster: use new Cluster() of ioredis, or createCluster() of @redis/client)',
  ])
  end()
})
