/** Costs that responses tell at their end, in a real Worker, over Redis and over objects. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, inject, test } from 'vitest'
import { startRestFront } from '../../tools/rest-front.ts'
import { startDirectGateway } from '../support/direct-gateway.ts'
import { openRequest, responseTo } from '../support/http-client.ts'
import { ADMIN_TOKEN, operate } from '../support/operator.ts'
import { share } from '../support/share.ts'
import { PATIENT } from '../support/site.ts'
import { startUpstream } from '../support/upstream.ts'
import { type Admission, checkWindows } from '../support/windows.ts'

const BUDGET = 300
const WINDOW_MS = 1_500
const TOKENS = { 'json:/usage/input_tokens': 1, 'json:/usage/output_tokens': 4 }
const POLICIES = [
  { name: 'tokens', match: '/tokens/*', limits: `${BUDGET}/1h`, actual_cost: TOKENS, untold: 10 },
  {
    name: 'bucket',
    match: '/bucket/*',
    limits: `${BUDGET}/10d`,
    algorithm: 'token-bucket',
    cost: 30,
    actual_cost: TOKENS,
    untold: 10,
  },
  { name: 'quota', match: '/quota/*', limits: `${BUDGET}/1h`, algorithm: 'quota', actual_cost: TOKENS, untold: 10 },
  { name: 'bytes', match: '/bytes', limits: '100000/1h', actual_cost: 'bytes' },
  { name: 'uploads', match: '/uploads', limits: '100000/1h', actual_cost: 'bytes:request' },
  {
    name: 'both',
    match: '/both',
    limits: '100000/1h',
    algorithm: 'quota',
    actual_cost: { bytes: 1, 'bytes:request': 3 },
  },
  { name: 'windows', match: '/windows/*', limits: `${BUDGET}/${WINDOW_MS}ms`, actual_cost: TOKENS, untold: 10 },
]

/** What a response costs: 10 tokens in, 10 out. */
const COST = 50
const USAGE = '{"input_tokens":10,"output_tokens":10}'

interface Upload {
  readonly method?: string
  readonly path?: string
  readonly hasLength?: boolean
  readonly isBroken?: boolean
}

interface Use extends Admission {
  readonly caller: string
}

/** Bytes of requests that the API has read. */
let arrived = 0

/** A model that tells its usage at the end, and notes when. */
function createModel(used: Use[]) {
  return async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { url = '', method, headers } = request
    const note = () => used.push({ ms: Date.now(), cost: COST, caller: `${headers.authorization}` })
    if (url === '/bytes') return void response.end('x'.repeat(40_000))
    if (url === '/uploads' || url === '/both') {
      let bytes = 0
      for await (const chunk of request) {
        bytes += chunk.length
        arrived += chunk.length
      }
      return void response.end(`${method} ${bytes} ${headers['content-length'] ?? headers['transfer-encoding']}`)
    }
    if (url.endsWith('/json')) {
      response.setHeader('Content-Type', 'application/json').write('{"text":"hello",')
      await sleep(20)
      note()
      response.end(`"usage":${USAGE},"encoding":"${headers['accept-encoding']}"}`)
      return
    }
    response.setHeader('Content-Type', 'text/event-stream').write('data: {"usage":{"input_tokens":10}}\n\n')
    for (let i = 0; i < 3; i++) {
      await sleep(10)
      response.write('data: {"text":"usage"}\n\n')
    }
    if (url.endsWith('/broken')) return void response.destroy()
    note()
    response.end(`data: {"usage":${USAGE}}\n\ndata: [DONE]\n\n`)
  }
}

describe.each(['redis', 'durable-object'] as const)('costs at the end, over %s', (store) => {
  const used: Use[] = []
  const upstream = share(() => startUpstream(createModel(used)))
  const front = share(() => startRestFront({ redisPort: inject('redisPort'), token: 'rest-token' }))
  const gateway = share(() => {
    const bindings = {
      ...{ UPSTREAM_URL: upstream.url, ...PATIENT, POLICIES, STORE: store, STATISTICS: 'on', ADMIN_TOKEN },
      KEY_PREFIX: `measured-${crypto.randomUUID()}`,
      ...(store === 'redis' && { UPSTASH_REDIS_REST_URL: front.url, UPSTASH_REDIS_REST_TOKEN: front.token }),
    }
    const objects = store === 'redis' ? {} : ({ objects: 'disk' } as const)
    return startDirectGateway({ bundle: inject('bundle'), bindings, ...objects })
  })

  const call = async (path: string, caller: string, init: RequestInit = {}) => {
    const headers = { Authorization: `Bearer ${caller}`, 'Accept-Encoding': 'gzip' }
    return fetch(new URL(path, gateway.url), { headers, ...init })
  }
  const finish = async (path: string, caller: string) => {
    const response = await call(path, caller)
    const text = await response.text().catch(() => 'broken off')
    return { status: response.status, text }
  }
  /** Calls as often as the budget is known to allow; all are admitted, and then, as soon as the last is settled, none. */
  async function useUp(path: string, caller: string, calls: number): Promise<void> {
    for (let i = 0; i < calls; i++) expect((await finish(path, caller)).status).toBe(200)
    for (let more = 0; (await finish(path, caller)).status !== 429; more++) expect(more).toBeLessThan(10)
  }

  test.each(['tokens', 'bucket', 'quota'])(
    'of JSON and of streams are charged by %s, until nothing is left',
    async (policy) => {
      for (const kind of ['json', 'stream']) await useUp(`/${policy}/${kind}`, `${policy}-${kind}`, BUDGET / COST)
    },
  )

  test('are read in what the API was asked not to encode, and the body comes unchanged', async () => {
    const { text } = await finish('/tokens/json', 'plain')
    expect(text).toBe(`{"text":"hello","usage":${USAGE},"encoding":"identity"}`)
    const { text: stream } = await finish('/tokens/stream', 'plain')
    expect(stream).toContain(`data: {"usage":${USAGE}}`)
  })

  test('are bytes as well', async () => {
    await useUp('/bytes', 'downloads', 3)
  })

  /** Sends a body of some bytes. @param isBroken breaks the request off after these */
  const upload = async (caller: string, bytes: number, { method = 'POST', path = '/uploads', ...how }: Upload = {}) => {
    const framing: Record<string, string> = how.hasLength
      ? { 'Content-Length': `${bytes}` }
      : { 'Transfer-Encoding': 'chunked' }
    const headers = { Authorization: `Bearer ${caller}`, ...framing }
    const client = openRequest(gateway.url, { method, path, headers })
    const answered = responseTo(client)
    const before = arrived
    for (let sent = 0; sent < bytes; sent += 10_000) client.write(Buffer.alloc(10_000))
    if (how.isBroken) {
      answered.catch(() => {})
      await expect.poll(() => arrived - before, { timeout: 10_000 }).toBe(bytes)
      client.destroy()
      return undefined
    }
    client.end()
    const response = await answered
    return { status: response.statusCode, text: await text(response) }
  }

  test.each<[Upload, framing: string]>([
    [{ hasLength: true }, '40000'],
    [{}, 'chunked'],
    [{ method: 'GET', hasLength: true }, '40000'],
  ])('are bytes of requests as well, sent with %j, and the body comes unchanged', async (how, framing) => {
    const caller = `uploads-${how.method ?? 'POST'}-${framing}`
    for (let i = 0; i < 3; i++) {
      expect(await upload(caller, 40_000, how)).toEqual({
        status: 200,
        text: `${how.method ?? 'POST'} 40000 ${framing}`,
      })
    }
    await expect.poll(async () => (await upload(caller, 0, how))?.status).toBe(429)
  })

  test('are never uncounted: a GET whose body could not be counted is refused', async () => {
    expect(await upload('uncounted', 10_000, { method: 'GET' })).toMatchObject({ status: 411 })
  })

  test('are those of both ways, with weights', async () => {
    const path = '/both'
    const remaining = async () => {
      const response = await call(path, 'both')
      await response.text()
      return Number(/r=(\d+)/.exec(`${response.headers.get('ratelimit')}`)?.[1])
    }
    const { text = '' } = (await upload('both', 20_000, { path })) ?? {}
    // This request, before its response is known, costs 1.
    await expect.poll(remaining).toBeLessThanOrEqual(100_000 - 3 * 20_000 - text.length - 1)
    expect(await remaining()).toBeGreaterThan(100_000 - 3 * 20_000 - 1_000)
  })

  test('are charged of a request whose client breaks it off', async () => {
    for (let i = 0; i < 3; i++) await upload('breaking', 40_000, { isBroken: true })
    await expect.poll(async () => (await upload('breaking', 0))?.status).toBe(429)
  })

  test('are what the usage of a caller tells, and what statistics count', { tags: ['slow'] }, async () => {
    const token = 'counted'
    const before = arrived
    for (let i = 0; i < 2; i++) await upload(token, 40_000)
    const readUsed = async () => {
      const { body } = await operate(gateway.url, '/usage', { body: { caller: { token } } })
      const { limits } = JSON.parse(`${body}`) as { limits: { policy: string; used: number }[] }
      return limits.find(({ policy }) => policy === 'uploads')?.used
    }
    await expect.poll(readUsed).toBe(80_000)
    const readUnits = async () => {
      const { body } = await operate(gateway.url, '/statistics?by=hour&periods=2')
      const { total } = JSON.parse(`${body}`) as { total: { units: { policy: string; units: number }[] } }
      return total.units.find(({ policy }) => policy === 'uploads')?.units
    }
    // An isolate sends what it has counted every 20 seconds.
    await expect.poll(readUnits, { timeout: 60_000, interval: 1_000 }).toBeGreaterThanOrEqual(arrived - before)
  })

  test('of a stream that the API breaks off are what it said until then', async () => {
    // 10 tokens in, and nothing of those out.
    await useUp('/tokens/broken', 'broken', BUDGET / 10)
  })

  test('of JSON are charged though the client has gone', async () => {
    for (let i = 0; i < BUDGET / COST; i++) {
      const client = new AbortController()
      const response = await call('/tokens/json', 'gone', { signal: client.signal })
      expect(response.status).toBe(200)
      client.abort()
      await response.text().catch(() => {})
    }
    await expect.poll(async () => (await finish('/tokens/json', 'gone')).status, { timeout: 10_000 }).toBe(429)
  })

  test.each([1, 16])(
    'hold in any window, but for what %i at once did not know of each other',
    { tags: ['slow'] },
    async (lanes) => {
      const caller = `Bearer windows-${lanes}`
      const untilMs = Date.now() + 3 * WINDOW_MS
      const drive = async () => {
        while (Date.now() < untilMs)
          if ((await finish('/windows/stream', caller.slice(7))).status === 429) await sleep(20)
      }
      await Promise.all(Array.from({ length: lanes }, drive))
      const own = used.filter((use) => use.caller === caller)
      expect(own.length).toBeGreaterThan(BUDGET / COST)
      // What was charged at the beginning of each counts from then, and the rest from when it was known.
      const excess = lanes * COST
      const { over } = checkWindows({ limit: BUDGET + excess, windowMs: WINDOW_MS }, own)
      expect(over).toBe(0)
    },
  )
})
