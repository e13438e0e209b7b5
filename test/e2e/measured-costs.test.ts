/** Costs that responses tell at their end, in a real Worker, over Redis and over objects. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { startRestFront } from '../../tools/rest-front.ts'
import { type DirectGateway, startDirectGateway } from '../support/direct-gateway.ts'
import { type Part, startParts } from '../support/parts.ts'
import { PATIENT } from '../support/site.ts'
import { startUpstream } from '../support/upstream.ts'
import { type Admission, checkWindows } from '../support/windows.ts'

const BUDGET = 300
const WINDOW_MS = 1_500
const TOKENS = { 'json:/usage/input_tokens': 1, 'json:/usage/output_tokens': 4 }
const POLICIES = [
  { name: 'tokens', match: '/tokens/*', limits: `${BUDGET}/1h`, actual_cost: TOKENS },
  {
    name: 'bucket',
    match: '/bucket/*',
    limits: `${BUDGET}/10d`,
    algorithm: 'token-bucket',
    cost: 30,
    actual_cost: TOKENS,
  },
  { name: 'quota', match: '/quota/*', limits: `${BUDGET}/1h`, algorithm: 'quota', actual_cost: TOKENS },
  { name: 'bytes', match: '/bytes', limits: '100000/1h', actual_cost: 'bytes' },
  { name: 'windows', match: '/windows/*', limits: `${BUDGET}/${WINDOW_MS}ms`, actual_cost: TOKENS },
]

/** What a response costs: 10 tokens in, 10 out. */
const COST = 50
const USAGE = '{"input_tokens":10,"output_tokens":10}'

interface Use extends Admission {
  readonly caller: string
}

/** A model that tells its usage at the end, and notes when. */
function createModel(used: Use[]) {
  return async function answer({ url = '', headers }: IncomingMessage, response: ServerResponse): Promise<void> {
    const note = () => used.push({ ms: Date.now(), cost: COST, caller: `${headers.authorization}` })
    if (url === '/bytes') return void response.end('x'.repeat(40_000))
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
  let site: Part & { readonly gateway: DirectGateway }
  beforeAll(async () => {
    site = await startParts(async (add) => {
      const upstream = await add(startUpstream(createModel(used)))
      const front = await add(startRestFront({ redisPort: inject('redisPort'), token: 'rest-token' }))
      const bindings = {
        ...{
          UPSTREAM_URL: upstream.url,
          ...PATIENT,
          POLICIES,
          STORE: store,
          KEY_PREFIX: `measured-${crypto.randomUUID()}`,
        },
        ...(store === 'redis' && { UPSTASH_REDIS_REST_URL: front.url, UPSTASH_REDIS_REST_TOKEN: front.token }),
      }
      const objects = store === 'redis' ? {} : ({ objects: 'disk' } as const)
      return { gateway: await add(startDirectGateway({ bundle: inject('bundle'), bindings, ...objects })) }
    })
  })
  afterAll(() => site?.stop())

  const call = async (path: string, caller: string, init: RequestInit = {}) => {
    const headers = { Authorization: `Bearer ${caller}`, 'Accept-Encoding': 'gzip' }
    return fetch(new URL(path, site.gateway.url), { headers, ...init })
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
