/** What counts failures, through the production bundle and Redis. */
import { once } from 'node:events'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { startEchoUpstream } from '../../tools/echo-upstream.ts'
import { startGateway } from '../support/gateway.ts'
import { openRequest, send } from '../support/http-client.ts'
import type { PointOfPresence } from '../support/point-of-presence.ts'
import { type SteeredUpstream, startSteeredUpstream } from '../support/steered-upstream.ts'

let upstream: SteeredUpstream
let gateway: PointOfPresence
/** Another one, on the same keys. */
let other: PointOfPresence

const LIMIT = 5
const POLICIES = [
  { name: 'guesses', limits: `${LIMIT}/1h`, by: 'header:x-account', counts: 'failures', match: '/login' },
  { name: 'bounded', limits: `${LIMIT}/1h`, by: 'header:x-account', counts: 'failures', match: '/bounded' },
  { name: 'slots', limits: '3', algorithm: 'concurrency', by: 'header:x-account', match: '/bounded' },
  { name: 'errors', limits: '1/1h', by: 'header:x-account', counts: 'failures', failures: '5xx', match: '/errors' },
]

beforeAll(async () => {
  upstream = await startSteeredUpstream()
  const KEY_PREFIX = crypto.randomUUID()
  const bindings = { UPSTREAM_URL: upstream.url, RATE_LIMITS: 'off', POLICIES, KEY_PREFIX }
  ;[gateway, other] = await Promise.all([startGateway(bindings), startGateway(bindings)])
})
afterAll(() => Promise.all([gateway?.stop(), other?.stop(), upstream?.stop()]))

let accounts = 0
const newAccount = () => ({ 'X-Account': `account-${accounts++}` })

/** Asks, and has the upstream answer, if it is asked, with this status. */
async function ask(at: PointOfPresence, path: string, headers: Record<string, string>, status: number) {
  const before = upstream.requests
  const answered = send(at.url, { path, headers })
  const isRefused = answered.then(() => upstream.requests === before)
  const arrived = upstream.next()
  const arrival = await Promise.race([arrived, isRefused])
  if (typeof arrival === 'object') arrival.response.writeHead(status).end()
  else upstream.reset()
  return (await answered).status
}

/** Until the failures that are charged after their responses make it refuse. */
function untilRefused(path: string, headers: Record<string, string>) {
  return expect.poll(() => ask(other, path, headers, 200)).toBe(429)
}

test('guesses are counted over all points of presence, and successes are not', async () => {
  const account = newAccount()
  for (let i = 0; i < 2 * LIMIT; i++) expect(await ask(gateway, '/login', account, 200)).toBe(200)
  for (let i = 0; i < LIMIT; i++) expect(await ask(i % 2 ? gateway : other, '/login', account, 401)).toBe(401)
  await untilRefused('/login', account)
  expect(await ask(other, '/login', newAccount(), 401)).toBe(401)
})

test('at most the limit and those in flight fail, and none after', async () => {
  const account = newAccount()
  const inFlight = Array.from({ length: 8 }, (_, i) =>
    send((i % 2 ? gateway : other).url, { path: '/login', headers: account }),
  )
  for (let i = 0; i < 8; i++) (await upstream.next()).response.writeHead(403).end()
  expect((await Promise.all(inFlight)).map(({ status }) => status)).toEqual(Array(8).fill(403))
  await untilRefused('/login', account)
})

test('beside slots, no more fail than the limit and one less than the slots', async () => {
  const account = newAccount()
  let failures = 0
  const answering = (async () => {
    for (;;) {
      const { request, response } = await upstream.next()
      if (request.url === '/over') return response.end()
      failures++
      response.writeHead(401).end()
    }
  })()
  for (let round = 0; round < 8; round++) {
    const asked = Array.from({ length: 6 }, (_, i) =>
      send((i % 2 ? gateway : other).url, { path: '/bounded', headers: account }),
    )
    await Promise.all(asked)
  }
  await send(gateway.url, { path: '/over' })
  await answering
  expect(failures).toBeGreaterThanOrEqual(LIMIT)
  expect(failures).toBeLessThanOrEqual(LIMIT + 2)
})

test('a client that goes away before the answer has failed all the same', async () => {
  const account = newAccount()
  for (let i = 0; i < LIMIT; i++) {
    const client = openRequest(gateway.url, { path: '/login', headers: account })
    const gone = new Promise((resolve) => client.on('error', resolve))
    client.end()
    const { request, response } = await upstream.next()
    // Reset: a connection that is merely closed might still be read from.
    client.socket?.resetAndDestroy()
    await gone
    response.writeHead(401).end()
    expect(request.destroyed).toBe(false)
  }
  await untilRefused('/login', account)
})

test('an API that cannot be reached is not the failure of its callers, and one that says so is', async () => {
  const account = newAccount()
  for (let i = 0; i < 3; i++) {
    const answered = send(gateway.url, { path: '/errors', headers: account })
    ;(await upstream.next()).request.socket.destroy()
    expect((await answered).status).toBe(502)
  }
  expect(await ask(gateway, '/errors', account, 502)).toBe(502)
  await untilRefused('/errors', account)
})

test('a WebSocket is no failure', async () => {
  const echo = await startEchoUpstream()
  const one = { name: 'one', limits: '1/1h', by: 'global', counts: 'failures' }
  const own = await startGateway({ UPSTREAM_URL: echo.url, RATE_LIMITS: 'off', POLICIES: [one] })
  try {
    for (let i = 0; i < 3; i++) {
      const socket = new WebSocket(`${own.url.origin.replace('http', 'ws')}/`)
      await once(socket, 'open')
      socket.close()
      await once(socket, 'close')
    }
  } finally {
    await Promise.all([own.stop(), echo.stop()])
  }
})
