import { randomUUID } from 'node:crypto'
import { expect, inject, test } from 'vitest'
import { connectRedis } from '../support/redis-client.ts'
import { share } from '../support/share.ts'
import { startSite } from '../support/site.ts'

const POINTS = 4
const LIMIT = 25
const WINDOW_MS = 60_000

/** With a Redis of its own: what comes to it is looked at. */
const site = share(() => {
  const variables = { RATE_LIMITS: `${LIMIT}/1m, 1000/1h`, KEY_PREFIX: randomUUID() }
  return startSite({ bundle: inject('bundle'), points: POINTS, variables })
})

function call(index: number, token: string): Promise<Response> {
  return fetch(new URL('/things', site.urls[index % POINTS]), { headers: { Authorization: `Bearer ${token}` } })
}

test('four points of presence admit exactly the limit of each of ten callers between them', async () => {
  const tokens = Array.from({ length: 10 }, () => randomUUID())
  const calls = tokens.flatMap((token) =>
    Array.from({ length: LIMIT * 2 }, (_, i) => call(i, token).then((r) => ({ token, r }))),
  )
  const responses = await Promise.all(calls)
  for (const token of tokens) {
    const own = responses.filter((response) => response.token === token).map(({ r }) => r)
    const admitted = own.filter(({ status }) => status === 200)
    const refused = own.filter(({ status }) => status === 429)
    expect([admitted.length, refused.length]).toEqual([LIMIT, LIMIT])

    // Each admission left another number of units.
    const left = admitted.map(({ headers }) => Number(/"default-1m";r=(\d+)/.exec(headers.get('RateLimit') ?? '')?.[1]))
    expect(left.sort((a, b) => a - b)).toEqual(Array.from({ length: LIMIT }, (_, i) => i))

    for (const response of refused) {
      const body = (await response.json()) as { retry_after_ms: number }
      expect(body.retry_after_ms).toBeGreaterThan(0)
      // An admission is dated at the end of its millisecond, and a refusal is decided at the start of its own. When both
      // fall into one, the wait is a millisecond longer than the window.
      expect(body.retry_after_ms).toBeLessThanOrEqual(WINDOW_MS + 1)
      const seconds = Math.ceil(body.retry_after_ms / 1000)
      const { headers } = response
      expect(headers.get('Retry-After')).toBe(String(seconds))
      expect(headers.get('RateLimit-Policy')).toBe('"default-1m";q=25;w=60, "default-1h";q=1000;w=3600')
      expect(headers.get('RateLimit')).toMatch(new RegExp(`^"default-1m";r=0;t=${seconds}, "default-1h";r=975;t=\\d+$`))
    }
  }
})

test('a request to a warm Worker is one EVALSHA, and nothing in Redis knows the token', async () => {
  const token = `secret-${randomUUID()}`
  await call(0, randomUUID())

  const monitor = await connectRedis(site.redis.port)
  const lines: string[] = []
  const { promise: marked, resolve } = Promise.withResolvers<void>()
  await monitor.monitor((line) => {
    lines.push(String(line))
    if (String(line).includes('end-of-request')) resolve()
  })
  const requestsBefore = site.front.requests
  expect((await call(0, token)).status).toBe(200)
  expect(site.front.requests - requestsBefore).toBe(1)
  const redis = await connectRedis(site.redis.port)
  await redis.echo('end-of-request')
  await marked
  monitor.destroy()

  const own = lines.filter((line) => /end-of-request/.test(line) === false)
  // `[0 lua]` marks what the script itself called.
  const sent = own
    .filter((line) => !/\[\d+ lua\]/.test(line))
    .map((line) => /\] "(\w+)"/.exec(line)?.[1]?.toUpperCase())
  expect(sent.filter((command) => command === 'EVALSHA')).toEqual(['EVALSHA'])
  expect(own.join('\n')).not.toContain(token)
  expect((await redis.keys('*')).join('\n')).not.toContain(token)
  await redis.close()
})
