/** How the keys that verify tokens are asked for, kept and refused. */
import { describe, expect, test } from 'vitest'
import { createKeySet, loadJose } from '../../src/http/request/identity/jwt/key-set.ts'
import { callContext } from '../support/call-context.ts'
import { makeKey } from '../support/tokens.ts'

const NOW_MS = 1_700_000_000_000
const URL = 'https://id.example.com/keys'
const key = await makeKey('one')
const next = await makeKey('two')

/** A key set over a site whose answers the test gives, by a clock of its own. */
async function subject() {
  const clock = { now: NOW_MS }
  const requests: {
    readonly url: string
    readonly init: RequestInit
    readonly answer: (response: Response) => void
  }[] = []
  const prepared: Response[] = []
  const log: object[] = []
  const background: Promise<unknown>[] = []
  const find = createKeySet(await loadJose(), {
    url: URL,
    now: () => clock.now,
    log: (level, fields) => log.push({ level, ...fields }),
    fetch: (url, init) =>
      new Promise((answer) => {
        requests.push({ url, init, answer })
        const response = prepared.shift()
        if (response) answer(response)
      }),
  })
  const findKey = (kid: string) =>
    find({ alg: 'ES256', kid }, callContext(background)).then(
      () => kid,
      ({ code }) => code,
    )
  const publish = (...keys: unknown[]) => requests.at(-1)?.answer(Response.json({ keys }))
  /** Finds a key with the answer that the site gives if it is asked. */
  const findWith = (kid: string, ...keys: unknown[]) => {
    prepared.push(Response.json({ keys }))
    return findKey(kid)
  }
  return { clock, requests, log, background, findKey, publish, findWith }
}

const NO_KEY = 'ERR_JWKS_NO_MATCHING_KEY'
const FETCHED_MS = 10 * 60_000

test('keys are asked for as JSON, of that URL alone, for two seconds', async () => {
  const { requests, findWith } = await subject()
  expect(await findWith('one', key.jwk)).toBe('one')
  const [request] = requests
  expect(request).toMatchObject({ url: URL, init: { headers: { Accept: 'application/json' }, redirect: 'manual' } })
  expect(request?.init.signal).toBeInstanceOf(AbortSignal)
})

test.each<[body: string, status: number, message: string]>([
  ['x', 500, 'status 500'],
  ['x', 201, 'status 201'],
  ['x', 200, 'no JSON'],
  ['', 200, 'no JSON'],
  ['x'.repeat(131_072), 200, 'no JSON'],
  ['x'.repeat(131_073), 200, 'more than 131072 bytes'],
  ...['{}', 'null', '7', '"keys"', '[]', '{"keys":{}}', '{"keys":[]}', '{"keys":[null,1,"RSA",{}]}'].map(
    (body) => [body, 200, 'no public keys in it'] as [string, number, string],
  ),
  [JSON.stringify({ keys: [{ ...key.jwk, d: 'AA' }] }), 200, 'no public keys in it'],
  ...['oct', 'XRSA', 'RSAX', 'EC2', 'AOKP', 'OK'].map(
    (kty) => [JSON.stringify({ keys: [{ ...key.jwk, kty }] }), 200, 'no public keys in it'] as [string, number, string],
  ),
])('an answer that is none is told why, %#', async (body, status, message) => {
  const { requests, log, findKey } = await subject()
  const found = findKey('one')
  requests[0]?.answer(new Response(body, { status }))
  expect(await found).toBe(NO_KEY)
  expect(log).toEqual([{ level: 'error', event: 'jwks_unavailable', message, hasOlder: false }])
})

test('an answer that is not read is given up', async () => {
  const { requests, findKey } = await subject()
  let isCancelled = false
  const cancel = () => {
    isCancelled = true
  }
  const found = findKey('one')
  requests[0]?.answer(new Response(new ReadableStream({ cancel }), { status: 503 }))
  expect([await found, isCancelled]).toEqual([NO_KEY, true])
})

test('an answer without a body says its status', async () => {
  const { requests, log, findKey } = await subject()
  const found = findKey('one')
  requests[0]?.answer(new Response(null, { status: 304 }))
  await found
  expect(log).toMatchObject([{ message: 'status 304' }])
})

test('a failure of the network is told in the same words, whatever it says', async () => {
  const { requests, log, findKey } = await subject()
  const found = findKey('one')
  requests[0]?.answer(Promise.reject(new TypeError('secret')) as never)
  expect(await found).toBe(NO_KEY)
  expect(log).toMatchObject([{ message: 'no answer in time, or none at all' }])
})

describe('keys of which there are none yet', () => {
  test('are asked for once a second, and after the clock was set back', async () => {
    const { clock, requests, findKey, findWith } = await subject()
    expect(await findWith('one')).toBe(NO_KEY)
    clock.now += 999
    expect(await findKey('one')).toBe(NO_KEY)
    expect(requests).toHaveLength(1)
    clock.now += 1
    expect(await findWith('one')).toBe(NO_KEY)
    expect(requests).toHaveLength(2)
    clock.now -= 5
    expect(await findWith('one', key.jwk)).toBe('one')
  })

  test('go on being fetched if the client leaves', async () => {
    const { background, findWith } = await subject()
    await findWith('one', key.jwk)
    expect(background).toHaveLength(1)
  })

  test('are waited for by the request beside, which fetches nothing', async () => {
    const { requests, background, findKey, publish } = await subject()
    const both = [findKey('one'), findKey('one')]
    publish(key.jwk)
    expect(await Promise.all(both)).toEqual(['one', 'one'])
    expect([requests.length, background.length]).toEqual([1, 1])
  })

  test('are asked for by another request when the first has had its two seconds', async () => {
    const { clock, requests, findKey, findWith } = await subject()
    void findKey('one')
    clock.now += 2_000
    expect(await findWith('one', key.jwk)).toBe('one')
    expect(requests).toHaveLength(2)
  })
})

describe('keys that are old', () => {
  async function subjectWithKeys() {
    const given = await subject()
    await given.findWith('one', key.jwk)
    given.background.splice(0)
    return given
  }

  test('are used while others are fetched, by one request', async () => {
    const { clock, requests, background, findKey, findWith, publish } = await subjectWithKeys()
    clock.now += FETCHED_MS - 1
    expect(await findKey('one')).toBe('one')
    expect(requests).toHaveLength(1)
    clock.now += 1
    expect(await findKey('one')).toBe('one')
    expect(await findKey('one')).toBe('one')
    expect([requests.length, background.length]).toEqual([2, 1])
    publish(next.jwk)
    await Promise.all(background)
    expect([await findKey('two'), await findWith('one', next.jwk)]).toEqual(['two', NO_KEY])
  })

  test('are asked for every 30 seconds while none come', async () => {
    const { clock, requests, log, background, findKey, publish } = await subjectWithKeys()
    clock.now += FETCHED_MS
    expect(await findKey('one')).toBe('one')
    publish()
    await Promise.all(background)
    expect(log).toMatchObject([{ hasOlder: true }])
    clock.now += 29_999
    expect(await findKey('one')).toBe('one')
    expect(requests).toHaveLength(2)
    clock.now += 1
    expect(await findKey('one')).toBe('one')
    expect(requests).toHaveLength(3)
  })

  test('are given up for new ones by a token that names an unknown one, once in 30 seconds', async () => {
    const { clock, requests, findKey, findWith } = await subjectWithKeys()
    expect(await findWith('two', key.jwk)).toBe(NO_KEY)
    clock.now += 29_999
    expect(await findKey('two')).toBe(NO_KEY)
    expect(requests).toHaveLength(2)
    clock.now += 1
    expect(await findWith('two', key.jwk, next.jwk)).toBe('two')
    expect(requests).toHaveLength(3)
  })

  test('are not asked for again by a token that fits two of them', async () => {
    const { requests, findKey, findWith } = await subject()
    expect(await findWith('one', key.jwk, key.jwk)).toBe('ERR_JWKS_MULTIPLE_MATCHING_KEYS')
    expect(await findKey('one')).toBe('ERR_JWKS_MULTIPLE_MATCHING_KEYS')
    expect(requests).toHaveLength(1)
  })
})

test('keys that just came are not asked for again by a token that names none of them', async () => {
  const { requests, findWith } = await subject()
  expect(await findWith('two', key.jwk)).toBe(NO_KEY)
  expect(requests).toHaveLength(1)
})
