import { randomUUID } from 'node:crypto'
import { text } from 'node:stream/consumers'
import { expect, inject, test } from 'vitest'
import { startDirectGateway } from '../support/direct-gateway.ts'
import { share } from '../support/share.ts'
import { answerArrival, PATIENT } from '../support/site.ts'
import { type SteeredUpstream, startSteeredUpstream } from '../support/steered-upstream.ts'
import { startUpstream } from '../support/upstream.ts'

const LIMIT = 6_000

const api = share(() => startUpstream(answerArrival))
/** Takes the place of a database, and answers when the test does. */
const database = share(startSteeredUpstream)
const gateway = share(() => {
  const bindings = {
    ...{ UPSTREAM_URL: api.url, UPSTASH_REDIS_REST_URL: database.url, UPSTASH_REDIS_REST_TOKEN: 'token' },
    ...{ RATE_LIMITS: `${LIMIT}/1m`, LEASES: 'auto', ...PATIENT },
  }
  return startDirectGateway({ bundle: inject('bundle'), bindings })
})

function request(token: string, signal?: AbortSignal): Promise<Response> {
  return fetch(gateway.url, { headers: { Authorization: token }, ...(signal && { signal }) })
}

type Call = Awaited<ReturnType<SteeredUpstream['next']>>

/** Answers a call of the script, `EVALSHA sha 1 key action permits …`: all its permits are granted. */
async function grant({ request: call, response }: Call): Promise<void> {
  const permits = Number(JSON.parse(await text(call))[5])
  response.end(JSON.stringify({ result: [permits, Date.now(), LIMIT - permits, 1_000, 0] }))
}

/** Answers calls until all requests are answered. @param onCall gets how many calls there have been */
async function grantAll(requests: readonly Promise<Response>[], onCall?: (calls: number) => void): Promise<number[]> {
  const before = database.requests
  const responses = Promise.all(requests)
  const isOver = responses.then(() => undefined)
  for (let calls = 1; ; calls++) {
    const call = await Promise.race([isOver, database.next()])
    if (!call) break
    onCall?.(database.requests - before - calls)
    await grant(call)
  }
  database.reset()
  return (await responses).map(({ status }) => status)
}

test('requests of one caller that come together make one call at a time', async () => {
  const token = randomUUID()
  const more: number[] = []
  const requests = Array.from({ length: 20 }, () => request(token))
  expect(await grantAll(requests, (calls) => more.push(calls))).toEqual(Array.from({ length: 20 }, () => 200))
  // While one was not answered, no other came.
  expect(more.every((calls) => calls === 0)).toBe(true)
})

test('a client that disconnects while others wait for its call does not keep them waiting', async () => {
  const token = randomUUID()
  const client = new AbortController()
  const first = request(token, client.signal).catch((error: Error) => error.name)
  const call = await database.next()
  const others = Array.from({ length: 5 }, () => request(token))
  client.abort()
  expect(await first).toBe('AbortError')
  await grant(call)
  expect(await grantAll(others)).toEqual([200, 200, 200, 200, 200])
})
