/** A limit that is counted in a master of real sentinels, which dies under load. */
import { createSentinel } from '@redis/client'
import { Redis as IoRedis } from 'ioredis'
import { expect, test, vi } from 'vitest'
import { parseSentinelUrl } from '../../src/command/redis/sentinel-url.ts'
import { sleep } from '../../src/core/runtime/sleep.ts'
import { adaptNodeRedis, type NodeSentinel } from '../../src/core/store/redis/tcp-clients.ts'
import { type AnyRedis, createLimiter, OptionError, redisStore, slidingWindow } from '../../src/index.ts'
import { DECIDE_TOKEN } from '../support/decisions.ts'
import { send } from '../support/http-client.ts'
import { MASTER, startRedisSentinels } from '../support/redis-sentinels.ts'
import { startServing } from '../support/serving-process.ts'

const LIMIT = 3_000
const WORKERS = 16
/** Between requests while no Redis answers. */
const PAUSE_MS = 20
const PASSWORD = 'p@ss:word'

type Answer = 'granted' | 'refused' | 'without Redis'

interface Subject {
  take(): Promise<Answer>
  /** @returns decisions that came too late: each may have charged, and was made again */
  end(): Promise<number>
}

function limitWith(client: AnyRedis, close: () => unknown): Subject {
  const policies = [{ name: 'p', ...slidingWindow(`${LIMIT}/1h`), onStoreError: 'closed' as const }]
  let late = 0
  const log = (_: unknown, { event }: { readonly event: string }) => {
    if (event === 'late_decision') late++
  }
  const limiter = createLimiter({ policies, store: redisStore(client), log })
  return {
    async take() {
      const { granted, degraded } = await limiter.take('x')
      return degraded ? 'without Redis' : granted ? 'granted' : 'refused'
    },
    async end() {
      await close()
      return late
    },
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
    return limitWith(client, () => client.destroy())
  },
  async ioredis(ports: readonly number[]): Promise<Subject> {
    const client = new IoRedis({
      ...{ name: MASTER, password: PASSWORD, autoResendUnfulfilledCommands: false },
      sentinels: ports.map((port) => ({ host: '127.0.0.1', port })),
    })
    return limitWith(client, () => client.disconnect())
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
        return stderr.split('late_decision').length - 1
      },
    }
  },
}

/** Sentinels that disagree vote again after ten seconds, and a busy machine may take several votes. */
const SLOWEST = { tags: ['slow'], timeout: 180_000 }

test.each(Object.entries(SUBJECTS))('%s: a failover under load', SLOWEST, async (_, open) => {
  const sentinels = await startRedisSentinels({ requirepass: PASSWORD })
  const { take, end } = await open(sentinels.ports)
  const counts: Record<Answer, number> = { granted: 0, refused: 0, 'without Redis': 0 }
  const work = async (isOver: () => boolean) => {
    while (!isOver()) {
      const answer = await take()
      counts[answer]++
      // The sentinels need the machine, too.
      if (answer === 'without Redis') await sleep(PAUSE_MS)
    }
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
  const late = await end()
  await sentinels.stop()
  // A call that was not answered in time may have charged, and each request makes two at most.
  expect(counts.granted).toBeGreaterThanOrEqual(LIMIT - 2 * counts['without Redis'] - late)
  // What the master had answered, but not yet told its replica, is granted again: at most what each worker asked last.
  expect(counts.granted).toBeLessThanOrEqual(LIMIT + WORKERS)
  expect(counts['without Redis']).toBeGreaterThan(0)
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
