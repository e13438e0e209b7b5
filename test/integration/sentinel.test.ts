/** A limit that is counted in a master of real sentinels, which dies under load. */
import { createSentinel } from '@redis/client'
import { Redis as IoRedis } from 'ioredis'
import { expect, test, vi } from 'vitest'
import { parseSentinelUrl } from '../../src/command/redis/sentinel-url.ts'
import { adaptNodeRedis, type NodeSentinel } from '../../src/core/store/redis/tcp-clients.ts'
import { type AnyRedis, createLimiter, OptionError, redisStore, slidingWindow } from '../../src/index.ts'
import { DECIDE_TOKEN } from '../support/decisions.ts'
import { send } from '../support/http-client.ts'
import { MASTER, startRedisSentinels } from '../support/redis-sentinels.ts'
import { startServing } from '../support/serving-process.ts'

const LIMIT = 3_000
const WORKERS = 16
const PASSWORD = 'p@ss:word'

type Answer = 'granted' | 'refused' | 'without Redis'

interface Subject {
  take(): Promise<Answer>
  end(): Promise<unknown>
}

function limitWith(client: AnyRedis): Subject['take'] {
  const policies = [{ name: 'p', ...slidingWindow(`${LIMIT}/1h`), onStoreError: 'closed' as const }]
  const limiter = createLimiter({ policies, store: redisStore(client), log: () => {} })
  return async () => {
    const { granted, degraded } = await limiter.take('x')
    return degraded ? 'without Redis' : granted ? 'granted' : 'refused'
  }
}

const SUBJECTS = {
  async '@redis/client'(ports: readonly number[]): Promise<Subject> {
    const client = createSentinel({
      name: MASTER,
      sentinelRootNodes: ports.map((port) => ({ host: '127.0.0.1', port })),
      nodeClientOptions: { password: PASSWORD },
    })
    await client.connect()
    return { take: limitWith(client), end: async () => client.destroy() }
  },
  async ioredis(ports: readonly number[]): Promise<Subject> {
    const client = new IoRedis({
      ...{ name: MASTER, password: PASSWORD, autoResendUnfulfilledCommands: false },
      sentinels: ports.map((port) => ({ host: '127.0.0.1', port })),
    })
    return { take: limitWith(client), end: async () => client.disconnect() }
  },
  async 'sluice serve'(ports: readonly number[]): Promise<Subject> {
    const servers = ports.map((port) => `127.0.0.1:${port}`).join()
    const serving = await startServing({
      REDIS_URL: `redis+sentinel://:${encodeURIComponent(PASSWORD)}@${servers}/${MASTER}`,
      ...{ ON_STORE_ERROR: 'closed', RATE_LIMITS: 'off', STORE_TIMEOUT_MS: '500' },
      POLICIES: [{ name: 'p', limits: `${LIMIT}/1h`, by: 'ip' }],
    })
    const body = JSON.stringify({ policy: 'p', identity: ['ip', '203.0.113.7'] })
    const headers = { Authorization: `Bearer ${DECIDE_TOKEN}`, 'Content-Type': 'application/json' }
    return {
      async take() {
        const answer = await send(serving.url, { method: 'POST', path: '/_sluice/decide', headers, body })
        const { granted, degraded } = JSON.parse(answer.body.toString())
        return degraded ? 'without Redis' : granted ? 'granted' : 'refused'
      },
      end: async () => {
        const { stderr } = await serving.end()
        expect(stderr).not.toContain(PASSWORD)
      },
    }
  },
}

test.each(Object.entries(SUBJECTS))('%s: a failover under load', { tags: ['slow'] }, async (_, open) => {
  const sentinels = await startRedisSentinels({ requirepass: PASSWORD })
  const { take, end } = await open(sentinels.ports)
  const counts: Record<Answer, number> = { granted: 0, refused: 0, 'without Redis': 0 }
  const work = async (isOver: () => boolean) => {
    while (!isOver()) counts[await take()]++
  }
  const workAll = (isOver: () => boolean) => Promise.all(Array.from({ length: WORKERS }, () => work(isOver)))
  await workAll(() => counts.granted >= LIMIT / 3)
  let hasFailedOver = false
  const failover = async () => {
    await sentinels.servers[0]?.stop()
    await sentinels.awaitFailover()
    hasFailedOver = true
  }
  await Promise.all([failover(), workAll(() => hasFailedOver && counts.refused > 0)])
  // What the master had answered, but not yet told its replica, is granted again: at most what each worker asked last.
  expect(counts.granted).toBeGreaterThanOrEqual(LIMIT - counts['without Redis'])
  expect(counts.granted).toBeLessThanOrEqual(LIMIT + WORKERS)
  expect(counts['without Redis']).toBeGreaterThan(0)
  await Promise.all([end(), sentinels.stop()])
})

test('adaptNodeRedis() sends a call once, although a client of sentinels would repeat it', async () => {
  const client = createSentinel({ name: 'one', sentinelRootNodes: [{ host: 'none', port: 1 }] })
  const evalSha = vi.fn(async () => Promise.reject(new Error('Socket closed unexpectedly')))
  vi.spyOn(client, '_execute').mockImplementation(async (_, send) => {
    const master = { evalSha } as object as Parameters<typeof send>[0]
    return send(master).catch(() => send(master))
  })
  await expect(adaptNodeRedis(client as object as NodeSentinel).evalsha('sha', ['k'], [1])).rejects.toThrow(
    'Socket closed',
  )
  expect(evalSha).toHaveBeenCalledTimes(1)
  evalSha.mockImplementationOnce(async () => Promise.reject(new Error('READONLY You cannot write')))
  await expect(adaptNodeRedis(client as object as NodeSentinel).evalsha('sha', ['k'], [1])).rejects.toThrow(
    'Socket closed',
  )
  expect(evalSha).toHaveBeenCalledTimes(3)
})

test('redisStore() refuses a client of sentinels with a prefix, which would not be used', () => {
  const client = createSentinel({ name: 'one', sentinelRootNodes: [{ host: 'none', port: 1 }], keyPrefix: 'a:' })
  expect(() => redisStore(client)).toThrow(OptionError)
})

test.each([
  [
    'redis+sentinel://a,b:1/m',
    {
      sentinels: [
        { host: 'a', port: 26_379 },
        { host: 'b', port: 1 },
      ],
      database: 0,
    },
  ],
  ['rediss+sentinel://u:p%40@[::1]:7/m/3', { sentinels: [{ host: '::1', port: 7 }], database: 3, isSecure: true }],
  ['redis+sentinel://u:p@a/m', { credentials: { username: 'u', password: 'p' }, sentinelCredentials: {} }],
  ['redis+sentinel://a/m?sentinel_password=s', { credentials: {}, sentinelCredentials: { password: 's' } }],
])('parseSentinelUrl(%j)', (text, expected) => {
  expect(parseSentinelUrl(text)).toMatchObject({ master: 'm', ...expected })
})

test.each([
  'redis://a/m',
  'redis+sentinel://a',
  'redis+sentinel://a,/m',
  'redis+sentinel://a/m/x',
  'redis+sentinel://a/m?b=1',
  'redis+sentinel://%@a/m',
])('parseSentinelUrl(%j) is undefined', (text) => expect(parseSentinelUrl(text)).toBeUndefined())
