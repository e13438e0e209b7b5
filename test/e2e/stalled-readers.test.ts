/** A client that stops reading is charged for what has passed, keeps its slot, and makes the gateway hold little. */
import { get, type IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { expect, onTestFinished, test } from 'vitest'
import { startGateway } from '../support/gateway.ts'
import { startUpstream } from '../support/upstream.ts'

const MIB = 2 ** 20
const TOTAL_MIB = 256
/** Sockets, pipes and streams on the way hold some. */
const MAX_HELD_MIB = 48
const CALLER = { Authorization: 'Bearer downloads' }

test('a download whose client reads nothing', { tags: ['slow'] }, async () => {
  let sentMib = 0
  const upstream = await startUpstream((_, response) => {
    const chunks = function* () {
      for (; sentMib < TOTAL_MIB; sentMib++) yield Buffer.alloc(MIB)
    }
    Readable.from(chunks()).pipe(response)
  })
  onTestFinished(() => upstream.stop())
  const gateway = await startGateway({
    UPSTREAM_URL: upstream.url,
    SELF_SERVICE: 'on',
    RATE_LIMITS: 'off',
    POLICIES: [
      { name: 'slots', algorithm: 'concurrency', limits: '1', slot_ttl: '1s' },
      {
        name: 'bytes',
        algorithm: 'fixed-window',
        limits: '900000000/24h',
        actual_cost: 'bytes',
        allow_large_log: true,
      },
    ],
  })
  onTestFinished(() => gateway.stop())
  const { promise: begun, resolve } = Promise.withResolvers<IncomingMessage>()
  const client = get(gateway.url.href, { headers: CALLER }, resolve)
  client.on('error', () => {})
  const response = await begun
  expect(response.statusCode).toBe(200)

  const ask = async (path = '/') => fetch(new URL(path, gateway.url), { headers: CALLER })
  const readUsed = async () => {
    const { limits } = (await (await ask('/_sluice/limits')).json()) as {
      limits: { policy: string; remaining: number }[]
    }
    return 900_000_000 - (limits.find(({ policy }) => policy === 'bytes')?.remaining ?? 0)
  }
  // It is charged while nobody reads the rest; by then the slot's own time is long over.
  // It answers 60 times a minute.
  await expect.poll(readUsed, { timeout: 20_000, interval: 1_000 }).toBeGreaterThan(1)
  const sent = sentMib
  expect(sent).toBeLessThan(MAX_HELD_MIB)
  const used = await readUsed()
  expect(used).toBeLessThan((sent + 1) * MIB)
  const refused = await ask()
  expect([refused.status, await refused.json()]).toMatchObject([429, { 'violated-policies': ['slots'] }])

  client.destroy()
  const admitted = async () => {
    const { status, body } = await ask()
    await body?.cancel()
    return status
  }
  await expect.poll(admitted, { timeout: 20_000 }).toBe(200)
})
