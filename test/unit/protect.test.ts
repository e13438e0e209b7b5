/** createProtect(), above all for policies that count failures: from the decision to the charge after the response. */
import { expect, test } from 'vitest'
import { Engine } from '../../src/core/engine/engine.ts'
import { withLeases } from '../../src/core/engine/leases/with-leases.ts'
import type { DecisionRequest } from '../../src/core/model/charge.ts'
import { StoreError } from '../../src/core/model/store.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { type Environment, loadConfig } from '../../src/http/config/load-config.ts'
import { RequestLimiter } from '../../src/http/request/request-limiter.ts'
import { createSettlement } from '../../src/http/request/settlement.ts'
import { createPathReader } from '../../src/http/request/target.ts'
import { markSynthetic } from '../../src/http/response/exchange.ts'
import { createFollowResponse } from '../../src/http/response/follow-response.ts'
import { createProblemResponse } from '../../src/http/response/problem.ts'
import { createProtect } from '../../src/http/response/protect.ts'
import { createRefusal } from '../../src/http/response/refusal.ts'
import { callContext } from '../support/call-context.ts'

type Next = (signal?: AbortSignal) => Promise<Response>

const LOGIN = { name: 'login', limits: '3/1h', by: 'ip', counts: 'failures', failures: '401, 403' }
const IP = { 'CF-Connecting-IP': '203.0.113.7' }
const readPath = createPathReader()

/** A store that can fail, and that records its calls. */
class FailingStore extends MemoryStore {
  isFailing = false
  readonly actions: DecisionRequest['action'][] = []

  override async decide(request: DecisionRequest) {
    this.actions.push(request.action)
    if (this.isFailing) throw new StoreError('no answer')
    return this.decideNow(request)
  }
}

function subject(policies: readonly unknown[] = [LOGIN], env: Environment = {}) {
  const config = loadConfig({ UPSTREAM_URL: 'https://api.example.com', POLICIES: policies, ...env })
  const clock = { now: 1_700_000_000_000 }
  const now = () => clock.now
  const [store, fallback] = [new FailingStore(now), new FailingStore(now)]
  const lines: string[] = []
  const log = (_level: string, { event }: { event: string }) => lines.push(event)
  const leases = config.leases === undefined ? undefined : withLeases(config.leases)
  const engine = new Engine({ ...config, store, fallback, now, log, leases })
  const limiter = new RequestLimiter({ ...config, engine, health: undefined, createSettlement, log })
  const followResponse = createFollowResponse({ limiter, keepsEncoding: false, now })
  const protect = createProtect({ ...config, limiter, health: undefined, followResponse, now })
  /** @param answer the status of what answers, or what does */
  const call = async (answer: number | Next, init: RequestInit = {}) => {
    const background: Promise<unknown>[] = []
    const request = new Request('https://gateway.example/login', { method: 'POST', headers: IP, ...init })
    const next = typeof answer === 'number' ? async () => new Response(null, { status: answer }) : answer
    const response = await protect(
      { request, path: readPath('/login'), context: callContext(background) },
      (verdict, signal) => (verdict.outcome === 'admitted' ? next(signal) : createRefusal(verdict)),
    )
    await Promise.all(background)
    return response
  }
  /** Statuses of as many calls. */
  const statuses = async (count: number, answer: number | Next) => {
    const found: number[] = []
    for (let i = 0; i < count; i++) found.push((await call(answer)).status)
    return found
  }
  return { store, fallback, lines, clock, call, statuses }
}

test('protect() charges what has failed, and refuses once that has reached the limit', async () => {
  const { call, statuses, store } = subject()
  expect(await statuses(5, 200)).toEqual([200, 200, 200, 200, 200])
  expect(await statuses(5, 401)).toEqual([401, 401, 401, 429, 429])
  const refused = await call(200)
  expect(refused.status).toBe(429)
  expect(await refused.json()).toMatchObject({
    title: 'Too Many Requests',
    code: 'failure_limit_exceeded',
    detail: 'Too many failed requests: the limit is 3 failures per 1h.',
    'violated-policies': ['login-1h'],
    retry_after_ms: 3_600_000,
  })
  // A success costs one call, a failure two; refusals are remembered.
  expect(store.actions).toEqual([...Array(6).fill('take'), 'record', 'take', 'record', 'take', 'record', 'take'])
})

test('protect() reports the failures left, this one included', async () => {
  const { call } = subject()
  expect((await call(200)).headers.get('RateLimit')).toBe('"login-1h";r=3;t=3600')
  const failed = await call(401)
  expect(failed.headers.get('RateLimit')).toBe('"login-1h";r=2;t=3600')
  expect(failed.headers.get('RateLimit-Policy')).toBe('"login-1h";q=3;qu="failed-requests";w=3600')
  expect((await call(200)).headers.get('RateLimit')).toMatch(/^"login-1h";r=2;/)
})

test.each([200, 302, 400, 404, 429, 500, 503])(
  'protect() takes %i for no failure if it is not named',
  async (status) => {
    const { statuses } = subject()
    expect(await statuses(5, status)).toEqual(Array(5).fill(status))
  },
)

test('a 502 that the API answers is a failure, and one for want of an answer is not', async () => {
  for (const isAnswer of [true, false]) {
    const { statuses } = subject([{ ...LOGIN, failures: '4xx, 5xx' }])
    const made = () =>
      createProblemResponse({ code: 'upstream_unreachable', status: 502, title: 'Bad Gateway', detail: '' })
    const next = async () => (isAnswer ? made() : markSynthetic(made()))
    expect(await statuses(4, next)).toEqual(isAnswer ? [502, 502, 502, 429] : Array(4).fill(502))
  }
})

test.each([
  ['header:x-cost', 200],
  [{ 'header:x-cost': 1, bytes: 1 }, 200],
  [{ 'header:x-cost': 1, bytes: 1 }, 'throws'],
])('protect() settles %j of a response (%s) before it gives the slot back', async (actual_cost, answer) => {
  const settling = {
    name: 'units',
    limits: '99/1h',
    by: 'ip',
    algorithm: 'quota',
    counts: 'responses',
    actual_cost,
    untold: 30,
  }
  const { call, store } = subject([settling, { name: 'slots', algorithm: 'concurrency', limits: '1', by: 'ip' }])
  const steps: string[] = []
  store.decide = async (request) => {
    const decision = store.decideNow(request)
    // A slow store: whatever did not wait for it would be first.
    await new Promise((resolve) => setTimeout(resolve, 5))
    steps.push(request.action)
    return decision
  }
  store.release = async () => void steps.push('release')
  const next = async () => {
    if (answer === 'throws') throw new Error('of the app')
    return new Response(null, { headers: { 'X-Cost': '7' } })
  }
  if (answer === 'throws') await expect(call(next)).rejects.toThrow('of the app')
  else await call(next)
  await expect.poll(() => steps).toEqual(['take', 'record', 'release'])
})

test.each([
  ['abort', ['take', 'record']],
  ['read', ['take']],
])('with on_disconnect = "%s", a client that leaves before the head %j', async (on_disconnect, actions) => {
  const tokens = { name: 'tokens', limits: '99/1h', by: 'ip', counts: 'successes', actual_cost: 'json:/used' }
  const { call, store } = subject([{ ...tokens, untold: 30, on_disconnect }])
  const client = new AbortController()
  await call(
    async (signal) => {
      client.abort()
      // What the gateway answers in place of the API, whose request was aborted with the client's, or was not reached.
      expect(signal?.aborted).toBe(on_disconnect === 'abort' ? true : undefined)
      return markSynthetic(new Response(null, { status: 502 }))
    },
    { signal: client.signal },
  )
  expect(store.actions).toEqual(actions)
})

test('protect() counts a failure whose client has gone away meanwhile, and reads no more of the answer', async () => {
  const { call } = subject()
  let cancelled = 0
  for (let i = 0; i < 3; i++) {
    const controller = new AbortController()
    const next: Next = async (signal) => {
      controller.abort()
      expect(signal).toBeUndefined()
      const body = new ReadableStream({ cancel: () => void cancelled++ })
      return new Response(body, { status: 401 })
    }
    await call(next, { signal: controller.signal })
  }
  expect((await call(200)).status).toBe(429)
  expect(cancelled).toBe(3)
})

test('requests that are in flight when the limit is reached may fail on top of it, and all of them count', async () => {
  const { call, clock, statuses } = subject()
  const answers: (() => void)[] = []
  const slow: Next = () => new Promise((resolve) => answers.push(() => resolve(new Response(null, { status: 401 }))))
  const inFlight = Array.from({ length: 7 }, () => call(slow))
  await expect.poll(() => answers.length).toBe(7)
  for (const answer of answers) answer()
  expect((await Promise.all(inFlight)).map(({ status }) => status)).toEqual(Array(7).fill(401))
  expect(await statuses(1, 200)).toEqual([429])
  // Seven have failed, so the window must empty down to two of them.
  clock.now += 3_600_000
  expect(await statuses(1, 200)).toEqual([200])
})

test('with slots, failures go no further than the limit and one less than the slots', async () => {
  const slots = { name: 'slots', algorithm: 'concurrency', limits: '2', by: 'ip' }
  const { call } = subject([LOGIN, slots])
  let failures = 0
  const fail: Next = async () => {
    failures++
    return new Response(null, { status: 401 })
  }
  for (let round = 0; round < 5; round++) await Promise.all(Array.from({ length: 6 }, () => call(fail)))
  expect(failures).toBeGreaterThanOrEqual(3)
  expect(failures).toBeLessThanOrEqual(4)
})

test('a slot is given back only when the failure is charged', async () => {
  const order: string[] = []
  const { call, store } = subject([LOGIN, { name: 'slots', algorithm: 'concurrency', limits: '2', by: 'ip' }])
  const { decide, release } = { decide: store.decide.bind(store), release: store.release.bind(store) }
  store.decide = async (request) => {
    await new Promise((resolve) => setTimeout(resolve))
    order.push(request.action)
    return decide(request)
  }
  store.release = (rules) => {
    order.push('release')
    return release(rules)
  }
  await call(401)
  expect(order).toEqual(['take', 'record', 'release'])
})

test('while the store fails, failures are counted without it', async () => {
  const { store, fallback, lines, statuses } = subject()
  store.isFailing = true
  expect(await statuses(4, 401)).toEqual([401, 401, 401, 429])
  expect(fallback.actions.filter((mode) => mode === 'record')).toHaveLength(3)
  expect(new Set(lines)).toEqual(new Set(['store_error']))
})

test('a failure that cannot be recorded in the store is counted without it, by its share', async () => {
  const { store, fallback, statuses } = subject([{ ...LOGIN, limits: '8/1h' }], { LOCAL_SHARE: '0.25' })
  const fail: Next = async () => {
    store.isFailing = true
    return new Response(null, { status: 401 })
  }
  expect(await statuses(3, fail)).toEqual([401, 401, 429])
  expect(fallback.actions).toEqual(['record', 'take', 'record', 'take'])
})

test.each(['open', 'closed'])('with on_store_error = %j nothing is counted while the store fails', async (value) => {
  const { store, fallback, statuses } = subject([{ ...LOGIN, on_store_error: value }])
  store.isFailing = true
  expect(await statuses(5, 401)).toEqual(Array(5).fill(value === 'open' ? 401 : 503))
  expect(fallback.actions).toEqual([])
})

test('in shadow mode failures are counted and reported, and nobody is refused', async () => {
  const { lines, statuses } = subject([{ ...LOGIN, mode: 'shadow' }])
  expect(await statuses(6, 401)).toEqual(Array(6).fill(401))
  expect(lines).toEqual(['shadow_limited', 'shadow_limited', 'shadow_limited'])
})

test('a failure costs what the request does', async () => {
  const { statuses } = subject([{ ...LOGIN, limits: '10/1h', cost: 4 }])
  expect(await statuses(4, 401)).toEqual([401, 401, 429, 429])
})

test('a request that another policy refuses is no failure, and what fails is charged by both', async () => {
  const { statuses } = subject([LOGIN, { name: 'calls', limits: '2/1h', by: 'ip' }])
  expect(await statuses(4, 401)).toEqual([401, 401, 429, 429])
})

test('each of several policies has failures of its own', async () => {
  const { call, statuses } = subject([LOGIN, { ...LOGIN, name: 'lookups', limits: '2/1h', failures: '404' }])
  expect(await statuses(1, 401)).toEqual([401])
  expect((await call(404)).headers.get('RateLimit')).toMatch(/^"login-1h";r=2;t=\d+, "lookups-1h";r=1;/)
  expect(await statuses(3, 404)).toEqual([404, 429, 429])
})

test('with leases, each request of a policy that counts failures is decided by itself', async () => {
  const { store, statuses } = subject([{ ...LOGIN, limits: '1000/1m' }], { LEASES: 'auto' })
  await statuses(30, 200)
  expect(store.actions).toEqual(Array(30).fill('take'))
})

test('a policy next to it that settles costs still does', async () => {
  const settled = {
    name: 'units',
    algorithm: 'quota',
    limits: '10/1h',
    by: 'ip',
    actual_cost: 'header:x-units',
    untold: 1,
  }
  const { call, statuses } = subject([LOGIN, settled])
  await call(async () => new Response(null, { status: 401, headers: { 'X-Units': '9' } }))
  expect(await statuses(2, 200)).toEqual([200, 429])
})
