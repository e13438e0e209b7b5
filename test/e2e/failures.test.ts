/** What counts failures, through the production bundle and Redis. */
import { once } from 'node:events'
import { expect, onTestFinished, test } from 'vitest'
import { WebSocket } from 'ws'
import { startEchoUpstream } from '../../tools/echo-upstream.ts'
import type { DirectGateway } from '../support/direct-gateway.ts'
import { startGateway } from '../support/gateway.ts'
import { send } from '../support/http-client.ts'
import { share } from '../support/share.ts'
import { startSteeredUpstream } from '../support/steered-upstream.ts'

const LIMIT = 5
const POLICIES = [
  { name: 'guesses', limits: `${LIMIT}/1h`, by: 'header:x-account', counts: 'failures', match: '/login' },
  { name: 'errors', limits: '1/1h', by: 'header:x-account', counts: 'failures', failures: '5xx', match: '/errors' },
]

const KEY_PREFIX = crypto.randomUUID()
const upstream = share(startSteeredUpstream)
const start = () => startGateway({ UPSTREAM_URL: upstream.url, RATE_LIMITS: 'off', POLICIES, KEY_PREFIX })
/** Two, on the same keys. */
const [gateway, other] = [share(start), share(start)]

let accounts = 0
const newAccount = () => ({ 'X-Account': `account-${accounts++}` })

/** Sends a request, and has the upstream answer with this status, if the request arrives there. */
async function call(at: DirectGateway, path: string, headers: Record<string, string>, status: number) {
  const before = upstream.requests
  const answered = send(at.url, { path, headers })
  const isRefused = answered.then(() => upstream.requests === before)
  const arrived = upstream.next()
  const arrival = await Promise.race([arrived, isRefused])
  if (typeof arrival === 'object') arrival.response.writeHead(status).end()
  else upstream.reset()
  return (await answered).status
}

/** Has the upstream end each connection on which the request comes. A runtime may send it again on a fresh one. */
async function callWithoutAnswer(path: string, headers: Record<string, string>) {
  const answered = send(gateway.url, { path, headers })
  for (;;) {
    const arrival = await Promise.race([upstream.next(), answered])
    if ('status' in arrival) break
    arrival.request.socket.destroy()
  }
  upstream.reset()
  return (await answered).status
}

/** Failures are charged after their responses. */
function waitUntilRefused(path: string, headers: Record<string, string>) {
  return expect.poll(() => call(other, path, headers, 200)).toBe(429)
}

test('guesses are counted over all points of presence, and successes are not', async () => {
  const account = newAccount()
  for (let i = 0; i < 2 * LIMIT; i++) expect(await call(gateway, '/login', account, 200)).toBe(200)
  for (let i = 0; i < LIMIT; i++) expect(await call(i % 2 ? gateway : other, '/login', account, 401)).toBe(401)
  await waitUntilRefused('/login', account)
  expect(await call(other, '/login', newAccount(), 401)).toBe(401)
})

test('an API that cannot be reached is not the failure of its callers, and one that says so is', async () => {
  const account = newAccount()
  for (let i = 0; i < 3; i++) {
    expect(await callWithoutAnswer('/errors', account)).toBe(502)
  }
  expect(await call(gateway, '/errors', account, 502)).toBe(502)
  await waitUntilRefused('/errors', account)
})

test('a WebSocket is no failure', async () => {
  const echo = await startEchoUpstream()
  const one = { name: 'one', limits: '1/1h', by: 'global', counts: 'failures' }
  const own = await startGateway({ UPSTREAM_URL: echo.url, RATE_LIMITS: 'off', POLICIES: [one] })
  onTestFinished(async () => void (await Promise.all([own.stop(), echo.stop()])))
  for (let i = 0; i < 3; i++) {
    const socket = new WebSocket(`${own.url.origin.replace('http', 'ws')}/`)
    await once(socket, 'open')
    socket.close()
    await once(socket, 'close')
  }
})
