import { setTimeout as wait } from 'node:timers/promises'
import { expect, inject, onTestFinished, test } from 'vitest'
import { startFaultyFront } from '../../../tools/faulty-front.ts'
import { startDirectGateway } from '../../support/direct-gateway.ts'
import { connectRedis } from '../../support/redis-client.ts'
import { startUpstream } from '../../support/upstream.ts'

// What is exact is the decision. How old it may be when its request leaves is STORE_TIMEOUT_MS.

const LIMIT = 10

/** An API that counts what arrives, a gateway in a workerd of its own, and a Redis whose answers can be held. */
async function startSite(storeTimeoutMs: number) {
  const keyPrefix = crypto.randomUUID()
  let arrivals = 0
  const api = await startUpstream((_request, response) => {
    arrivals++
    response.end()
  })
  const redis = await connectRedis(inject('redisPort'))
  const front = await startFaultyFront({ target: inject('redisRestUrl') })
  const bindings = {
    UPSTREAM_URL: api.url,
    UPSTASH_REDIS_REST_URL: front.url,
    UPSTASH_REDIS_REST_TOKEN: inject('redisRestToken'),
    RATE_LIMITS: `${LIMIT}/1h`,
    STORE_TIMEOUT_MS: `${storeTimeoutMs}`,
    ON_STORE_ERROR: 'closed',
    KEY_PREFIX: keyPrefix,
  }
  const gateway = await startDirectGateway({ bundle: inject('bundle'), bindings })
  onTestFinished(async () => {
    await gateway.stop()
    await Promise.all([front.stop(), api.stop(), redis.close()])
  })
  const keys = () => redis.keys(`${keyPrefix}:*`)
  return {
    gateway,
    front,
    arrivals: () => arrivals,
    /** Resolves to the statuses when all have been answered. */
    send(count: number) {
      const headers = { authorization: 'Bearer caller' }
      return Promise.all(Array.from({ length: count }, async () => (await fetch(gateway.url, { headers })).status))
    },
    /** Units charged so far. */
    async charged(): Promise<number> {
      const [key] = await keys()
      const newest = key === undefined ? [] : await redis.xRevRange(key, '+', '-', { COUNT: 1 })
      return Number(newest?.[0]?.id.split('-')[1] ?? 0)
    },
    /** As if the window had passed. */
    async forget() {
      await redis.del(await keys())
    },
  }
}

test.each([
  ['younger than', 30_000, 2 * LIMIT],
  ['older than', 1_000, LIMIT],
])(
  'admissions %s STORE_TIMEOUT_MS=%d, waking with an isolate that was stopped, make %d arrive at most',
  async (_age, storeTimeoutMs, most) => {
    const { gateway, front, arrivals, send, charged, forget } = await startSite(storeTimeoutMs)
    // Compiles it, and loads the script.
    await send(1)
    await forget()
    const before = arrivals()

    const answers = Promise.withResolvers<void>()
    front.inject({ kind: 'held', until: answers.promise })
    const stale = send(LIMIT)
    const untilMs = performance.now() + storeTimeoutMs
    // On a machine so slow that the deadline passes first, fewer are there to wake; the law holds all the same.
    while ((await charged()) < LIMIT && performance.now() < untilMs) await wait(5)
    process.kill(gateway.pid, 'SIGSTOP')
    answers.resolve()
    front.inject(undefined)
    await wait(Math.min(storeTimeoutMs, 1_000) + 100)
    await forget()
    const fresh = send(LIMIT)
    process.kill(gateway.pid, 'SIGCONT')
    const admitted = [...(await stale), ...(await fresh)].filter((status) => status === 200)
    expect(arrivals() - before).toBe(admitted.length)
    if (most > LIMIT) expect(admitted).toHaveLength(most)
    else expect(admitted.length).toBeLessThanOrEqual(most)
  },
)
