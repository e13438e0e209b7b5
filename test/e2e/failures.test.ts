/** What counts failures, through the production bundle and Redis. */
import { once } from 'node:events'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { startEchoUpstream } from '../../tools/echo-upstream.ts'
import type { DirectGateway } from '../support/direct-gateway.ts'
import { startGateway } from '../support/gateway.ts'
import { send } from '../support/http-client.ts'
import { type SteeredUpstream, startSteeredUpstream } from '../support/steered-upstream.ts'

let upstream: SteeredUpstream
let gateway: DirectGateway
/** Another one, on the same keys. */
let other: DirectGateway

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
async function ask(at: DirectGateway, path: string, headers: Record<string, string>, status: number) {
  const before = upstream.requests
  const answered = send(at.url, { path, headers })
  const isRefused = answered.then(() => upstream.requests === before)
  const arrived = upstream.next()
  const arrival = await Promise.race([arrived, isRefused])
  if (typeof arrival === 'object') arrival.response.writeHead(status).end()
  else upstream.reset()
  return (await answered).status
}

/** Asks, and has the upstream end every connection on which it is asked. A runtime may ask once more on a fresh one. */
async function askWithoutAnswer(path: string, headers: Record<string, string>) {
  const answered = send(gateway.url, { path, headers })
  for (;;) {
    const arrival = await Promise.race([upstream.next(), answered])
    if ('status' in arrival) break
    arrival.request.socket.destroy()
  }
  upstream.reset()
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

/**
 * Has the upstream answer with this status whatever arrives while the work lasts.
 * @param work is given how many have arrived so far
 * @returns how many did
 */
async function answering(status: number, work: (arrived: () => number) => Promise<unknown>): Promise<number> {
  let answered = 0
  const answers = (async () => {
    for (;;) {
      const { request, response } = await upstream.next()
      if (request.url === '/over') return response.end()
      answered++
      response.writeHead(status).end()
    }
  })()
  await work(() => answered)
  await send(gateway.url, { path: '/over' })
  await answers
  return answered
}

/** Sends so many requests at once, in turns to either gateway. @returns their statuses */
async function sendAtOnce(count: number, path: string, headers: Record<string, string>) {
  const requests = Array.from({ length: count }, (_, i) => send((i % 2 ? gateway : other).url, { path, headers }))
  return (await Promise.all(requests)).map(({ status }) => status)
}

test('at most the limit and those in flight fail, and none after', async () => {
  const account = newAccount()
  // How many are admitted before the first failure is counted is up to the machine: all of them, or the limit.
  const failed = await answering(403, async () => {
    const statuses = await sendAtOnce(8, '/login', account)
    expect(statuses.filter((status) => status !== 403 && status !== 429)).toEqual([])
  })
  expect(failed).toBeGreaterThanOrEqual(LIMIT)
  expect(failed).toBeLessThanOrEqual(8)
  await untilRefused('/login', account)
})

test('beside slots, no more fail than the limit and one less than the slots', async () => {
  const account = newAccount()
  const failed = await answering(401, async (arrived) => {
    const send = () => sendAtOnce(6, '/bounded', account)
    // A slot may be free again some time after its request was answered.
    await expect.poll(async () => (await send()) && arrived()).toBeGreaterThanOrEqual(LIMIT)
    for (let round = 0; round < 4; round++) await send()
  })
  expect(failed).toBeGreaterThanOrEqual(LIMIT)
  expect(failed).toBeLessThanOrEqual(LIMIT + 2)
})

test('an API that cannot be reached is not the failure of its callers, and one that says so is', async () => {
  const account = newAccount()
  for (let i = 0; i < 3; i++) {
    expect(await askWithoutAnswer('/errors', account)).toBe(502)
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
