import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { startGateway } from '../support/gateway.ts'
import { startUpstream } from '../support/upstream.ts'

const POINTS = 4
const SECONDS = 10
const RATE = 5
const BURST = 5

test('token-bucket: four processes hammering 5/1s for 10 s get all of it, and never more', async () => {
  const upstream = await startUpstream((_request, response) => response.end())
  const bindings = {
    UPSTREAM_URL: upstream.url,
    KEY_PREFIX: randomUUID(),
    POLICIES: [{ name: 'p', algorithm: 'token-bucket', limits: `${RATE}/1s`, by: 'global' }],
  }
  const points = await Promise.all(Array.from({ length: POINTS }, () => startGateway(bindings)))
  // The first request of an isolate is slow, and must not eat into the ten seconds: it is one of a policy's own.
  await Promise.all(points.map(({ url }) => fetch(new URL('/_sluice/health', url))))

  const admittedAtMs: number[] = []
  const startedAt = performance.now()
  const hammer = async (url: URL) => {
    for (let now = startedAt; now - startedAt < SECONDS * 1000; ) {
      const response = await fetch(url)
      await response.arrayBuffer()
      now = performance.now()
      // Counted when the answer is there, later than it was decided: what is too many now was too many then.
      if (response.status === 200) admittedAtMs.push(now - startedAt)
    }
  }
  await Promise.all(points.map(({ url }) => hammer(url)))
  const elapsedMs = performance.now() - startedAt

  admittedAtMs
    .sort((a, b) => a - b)
    .forEach((atMs, index) => {
      expect(index + 1).toBeLessThanOrEqual(BURST + (RATE * atMs) / 1000)
    })
  expect(admittedAtMs.length).toBeGreaterThanOrEqual(Math.floor(0.98 * (BURST + (RATE * elapsedMs) / 1000)))
  await Promise.all(points.map((point) => point.stop()))
  await upstream.stop()
})
