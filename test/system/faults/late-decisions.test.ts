import { setTimeout as wait } from 'node:timers/promises'
import { expect, inject, onTestFinished, test } from 'vitest'
import { startFaultyFront } from '../../../tools/faulty-front.ts'
import type { DirectGateway } from '../../support/direct-gateway.ts'
import { startParts } from '../../support/parts.ts'
import { connectRedis } from '../../support/redis-client.ts'
import { startPoints } from '../../support/site.ts'
import { startUpstream } from '../../support/upstream.ts'
import { readUnitsAdmitted } from '../kit/streams.ts'

// What is exact is the decision. How old it may be when its request leaves is STORE_TIMEOUT_MS.

const LIMIT = 10

/** An API that counts what arrives, a gateway in a workerd of its own, and a Redis whose answers can be held. */
async function startSite(storeTimeoutMs: number) {
  const keyPrefix = crypto.randomUUID()
  let arrivals = 0
  const site = await startParts(async (add) => {
    const upstream = await add(
      startUpstream((_request, response) => {
        arrivals++
        response.end()
      }),
    )
    const redis = await connectRedis(inject('redisPort'))
    await add({ stop: () => redis.close() })
    const front = await add(startFaultyFront({ target: inject('redisRestUrl') }))
    const variables = { RATE_LIMITS: `${LIMIT}/1h`, STORE_TIMEOUT_MS: storeTimeoutMs, KEY_PREFIX: keyPrefix }
    const options = { bundle: inject('bundle'), points: 1, variables }
    const [gateway] = await startPoints(add, options, upstream, { url: front.url, token: inject('redisRestToken') })
    return { redis, front, gateway: gateway as DirectGateway }
  })
  onTestFinished(async () => void (await site.stop()))
  const { redis, front, gateway } = site
  const listKeys = () => redis.keys(`${keyPrefix}:*`)
  return {
    gateway,
    front,
    countArrivals: () => arrivals,
    /** Resolves to the statuses when all have been answered. */
    send(count: number) {
      const headers = { authorization: 'Bearer caller' }
      return Promise.all(Array.from({ length: count }, async () => (await fetch(gateway.url, { headers })).status))
    },
    /** Units charged so far. */
    async countUnits(): Promise<number> {
      const [key = ''] = await listKeys()
      return readUnitsAdmitted((command) => redis.sendCommand([...command]), key)
    },
    /** As if the window had passed. */
    async emptyWindow() {
      await redis.del(await listKeys())
    },
  }
}

test.each([
  ['younger than', 30_000, 2 * LIMIT],
  ['older than', 1_000, LIMIT],
])(
  'admissions %s STORE_TIMEOUT_MS=%d, waking with an isolate that was stopped, make %d arrive at most',
  async (_age, storeTimeoutMs, max) => {
    const { gateway, front, countArrivals, send, countUnits, emptyWindow } = await startSite(storeTimeoutMs)
    // Compiles it, and loads the script.
    await send(1)
    await emptyWindow()
    const before = countArrivals()

    const answers = Promise.withResolvers<void>()
    front.inject({ kind: 'held', until: answers.promise })
    const stale = send(LIMIT)
    const untilMs = performance.now() + storeTimeoutMs
    // On a machine so slow that the deadline passes first, fewer are there to wake; the law holds all the same.
    while ((await countUnits()) < LIMIT && performance.now() < untilMs) await wait(5)
    process.kill(gateway.pid, 'SIGSTOP')
    answers.resolve()
    front.inject(undefined)
    await wait(Math.min(storeTimeoutMs, 1_000) + 100)
    await emptyWindow()
    const fresh = send(LIMIT)
    process.kill(gateway.pid, 'SIGCONT')
    const admitted = [...(await stale), ...(await fresh)].filter((status) => status === 200)
    expect(countArrivals() - before).toBe(admitted.length)
    if (max > LIMIT) expect(admitted).toHaveLength(max)
    else expect(admitted.length).toBeLessThanOrEqual(max)
  },
)
