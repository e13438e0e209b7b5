/** A caller who uses up what others need, and the recipes that avoid it: docs/threat-model.md names both. */
import { once } from 'node:events'
import { expect, inject, onTestFinished, test } from 'vitest'
import { type DirectGateway, startDirectGateway } from '../../support/direct-gateway.ts'
import { openRequest, send } from '../../support/http-client.ts'
import { share } from '../../support/share.ts'
import { startUpstream } from '../../support/upstream.ts'

/** Requests that have reached the API and that it has not answered. */
let stalled = 0

const upstream = share(() =>
  startUpstream(async (request, response) => {
    let body = ''
    stalled++
    try {
      for await (const chunk of request) body += chunk
    } catch {
      // It was broken off.
    }
    stalled--
    response.writeHead(body.includes('password=wrong') ? 401 : 200).end()
  }),
)

async function startGateway(...policies: readonly object[]): Promise<DirectGateway> {
  const POLICIES = policies.map((policy, at) => ({ name: `policy-${at}`, ...policy }))
  const bindings = { UPSTREAM_URL: upstream.url, POLICIES }
  const gateway = await startDirectGateway({ bundle: inject('bundle'), bindings })
  onTestFinished(() => gateway.stop())
  return gateway
}

const ALICE = { 'CF-Connecting-IP': '192.0.2.1' }
const STRANGER = { 'CF-Connecting-IP': '198.51.100.1' }

async function logIn({ url }: DirectGateway, address: typeof ALICE, password: string): Promise<number> {
  const headers = { ...address, 'Content-Type': 'application/x-www-form-urlencoded' }
  return (await send(url, { method: 'POST', path: '/login', headers, body: `user=alice&password=${password}` })).status
}

/** The stranger guesses until refused, and then alice comes. */
async function guessAndLogIn(gateway: DirectGateway): Promise<readonly number[]> {
  await expect.poll(() => logIn(gateway, STRANGER, 'wrong')).toBe(429)
  return [await logIn(gateway, STRANGER, 'right'), await logIn(gateway, ALICE, 'right')]
}

const failures = { match: 'POST /login', counts: 'failures', failures: '401' }

test('failures by form:user with block: a stranger who guesses keeps the user out', async () => {
  const gateway = await startGateway({ ...failures, by: 'form:user', limits: '3/10m', penalty: '1h' })
  expect(await guessAndLogIn(gateway)).toEqual([429, 429])
})

test('failures by ip+form:user with block, and more of them by form:user without: the user gets in', async () => {
  const gateway = await startGateway(
    { ...failures, by: 'ip+form:user', limits: '3/10m', penalty: '1h' },
    { ...failures, by: 'form:user', limits: '100/10m' },
  )
  expect(await guessAndLogIn(gateway)).toEqual([429, 200])
})

const SLOTS = 5
const slots = { algorithm: 'concurrency', slot_ttl: '1h' }

/** One address begins more uploads than there are slots, and ends none of them; then somebody else comes. */
async function stallAndAsk({ url }: DirectGateway, held: number): Promise<number> {
  for (let at = 0; at < SLOTS; at++) {
    const upload = openRequest(url, { method: 'POST', path: '/upload', headers: STRANGER })
    upload.on('error', () => {})
    const answered = once(upload, 'response').catch(() => [])
    onTestFinished(() => void upload.destroy())
    upload.write('first')
    // The first of them reach the API, the others are refused.
    if (at < held) await expect.poll(() => stalled).toBe(at + 1)
    else expect((await answered)[0]?.statusCode).toBe(429)
  }
  return (await send(url, { path: '/upload', headers: ALICE })).status
}

test('slots by global: stalled uploads of one address hold all of them', async () => {
  const gateway = await startGateway({ ...slots, by: 'global', limits: `${SLOTS}` })
  expect(await stallAndAsk(gateway, SLOTS)).toBe(429)
})

test('slots by global, and fewer of them by ip: the others get theirs', async () => {
  await expect.poll(() => stalled).toBe(0)
  const gateway = await startGateway(
    { ...slots, by: 'global', limits: `${SLOTS}` },
    { ...slots, by: 'ip', limits: '2' },
  )
  expect(await stallAndAsk(gateway, 2)).toBe(200)
})
