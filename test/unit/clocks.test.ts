/** Every host goes by the machine's clocks: permits taken in advance expire when the clock was set back unseen. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Store } from '../../src/core/model/store.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { limit } from '../../src/fetch.ts'
import { createHandler } from '../../src/gateway/create-handler.ts'
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
    const { app } = await createHandler(variables, { open: () => ({ limits, documents: vi.fn(), counters: vi.fn() }) })
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
