/** Every host goes by the machine's clocks: permits taken in advance expire when the clock was set back unseen. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Store } from '../../src/core/model/store.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { limit } from '../../src/fetch.ts'
import { createGateway } from '../../src/gateway/create-gateway.ts'
import { createLimiter } from '../../src/index.ts'
import { START_MS } from '../support/arbitraries.ts'
import { storeWith } from '../support/charges.ts'

const LIMITS = '400/10s'
const AUTHORIZATION = { Authorization: 'Bearer alice' }
const IDLE_MS = 1_400

type Host = (store: Store) => Promise<() => Promise<boolean>>

/** Each starts with leases, and returns a function that sends a request. @returns true if it is admitted */
const HOSTS: Readonly<Record<string, Host>> = {
  async 'a limiter'(store) {
    const limiter = createLimiter({ limits: LIMITS, store: toLimiterStore(store), leases: 'auto' })
    return async () => (await limiter.take('alice')).granted
  },
  async middleware(store) {
    const handle = limit(() => new Response(), { limits: LIMITS, store: toLimiterStore(store), leases: 'auto' })
    return async () => (await handle(new Request('https://app.example/', { headers: AUTHORIZATION }))).ok
  },
  async 'a gateway'(limits) {
    const UPSTREAM = { fetch: async () => new Response() }
    const variables = { RATE_LIMITS: LIMITS, LEASES: 'auto', UPSTREAM }
    const { app } = await createGateway(variables, { open: () => ({ limits, documents: vi.fn(), counters: vi.fn() }) })
    const context = { waitUntil() {}, passThroughOnException() {}, props: {} }
    const request = () => new Request('https://api.example/', { headers: AUTHORIZATION })
    return async () => (await app.fetch(request(), {}, context)).ok
  },
}

function toLimiterStore(store: Store) {
  return { isRemote: true, timeoutMs: 1_000, open: () => store }
}

beforeEach(() => void vi.useFakeTimers({ toFake: ['Date', 'performance'], now: START_MS }))
afterEach(() => void vi.useRealTimers())

test.each(Object.entries(HOSTS))('%s drops its leases when the clock is set back while it idles', async (_, start) => {
  // The clock of the store is never set.
  const steady = new MemoryStore(() => START_MS + performance.now())
  let isFull = false
  const usage = [[{ remaining: 0, resetMs: 5_000, retryAfterMs: 5_000 }]]
  const send = await start(
    storeWith({
      decide: async (request) => (isFull ? { granted: 0, nowMs: START_MS, usage } : steady.decide(request)),
    }),
  )
  expect(await send()).toBe(true)
  vi.advanceTimersByTime(9_000)
  for (let sent = 0; sent < 50; sent++) expect(await send()).toBe(true)
  isFull = true
  expect(await send()).toBe(true)
  vi.advanceTimersByTime(IDLE_MS)
  vi.setSystemTime(Date.now() - IDLE_MS)
  expect(await send()).toBe(false)
})

const EVERYTHING = {
  ...{ STORE: 'memory', LEASES: 'auto', SHEDDING: 'on', RULES: 'on', STATISTICS: 'on', LOG_REFUSALS: 1 },
  UPSTREAM: { fetch: async () => new Response('hello') },
  RATE_LIMITS: '9/1s, 40/10s',
  POLICIES: [
    { name: 'bucket', algorithm: 'token-bucket', limits: '30/10s', burst: 8 },
    { name: 'fixed', algorithm: 'fixed-window', limits: '60/10s', penalty: '1s' },
    { name: 'slots', algorithm: 'concurrency', limits: '3' },
  ],
}

/** Sends the same requests to a gateway that was created while the clocks showed something. @returns its answers */
async function playFrom(createdAtMs: number) {
  vi.useFakeTimers({ toFake: ['Date', 'performance'], now: createdAtMs })
  const { app } = await createGateway(EVERYTHING, { log() {} })
  vi.setSystemTime(START_MS)
  const pending: Promise<unknown>[] = []
  const context = {
    waitUntil: (work: Promise<unknown>) => void pending.push(work),
    passThroughOnException() {},
    props: {},
  }
  const answers = []
  for (let sent = 0; sent < 120; sent++) {
    vi.advanceTimersByTime(sent % 7 === 0 ? 700 : 30)
    const request = new Request('https://api.example/', { headers: AUTHORIZATION })
    const response = await app.fetch(request, {}, context)
    answers.push([response.status, response.headers.get('RateLimit'), await response.text()])
  }
  const health = await app.fetch(new Request('https://api.example/_sluice/health'), {}, context)
  return { answers, health: await health.json() }
}

test('a gateway that is created where clocks show 0, as Workers start, answers like any other', async () => {
  const played = await playFrom(0)
  expect(new Set(played.answers.map(([status]) => status))).toEqual(new Set([200, 429]))
  expect(played).toEqual(await playFrom(START_MS))
})
