import { expect, test } from 'vitest'
import { Engine, type EngineOptions } from '../../src/core/engine/engine.ts'
import { withLeases } from '../../src/core/engine/leases/with-leases.ts'
import type { Decision, DecisionRequest, LimitState, StoreCharge } from '../../src/core/model/charge.ts'
import { createReading } from '../../src/core/model/cost.ts'
import { type Adjustment, type Release, type Store, StoreError } from '../../src/core/model/store.ts'
import type { Verdict } from '../../src/core/model/verdict.ts'
import { createDigest } from '../../src/core/runtime/digest.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { type Environment, loadConfig } from '../../src/http/config/load-config.ts'
import { composeLimiter, type DecisionTrace, RequestLimiter } from '../../src/http/request/request-limiter.ts'
import { createSettlement } from '../../src/http/request/settlement.ts'
import { createPathReader } from '../../src/http/request/target.ts'
import { callContext } from '../support/call-context.ts'

const readPath = createPathReader()
const NOW_MS = 1_700_000_000_000
const SECRET = 'a secret of this test'

/** Records its calls, and answers as the test says; by default it admits. */
class FakeStore implements Store {
  readonly kind = 'redis'
  readonly requests: DecisionRequest[] = []
  readonly released: (number | undefined)[] = []
  readonly settled: number[] = []
  readonly revoked: { slot: number | undefined; isKnown: boolean }[] = []
  answer: (request: DecisionRequest) => Promise<Decision> = async ({ permits, charges }) => ({
    granted: permits,
    nowMs: NOW_MS,
    usage: charges.map(({ limits }) =>
      limits.map(({ limit, windowMs }) => ({ remaining: limit - 1, resetMs: windowMs, retryAfterMs: 0 })),
    ),
  })

  decide(request: DecisionRequest): Promise<Decision> {
    this.requests.push(request)
    return this.answer(request)
  }

  async release(charges: readonly StoreCharge[]): Promise<void> {
    this.released.push(...charges.map(({ slot }) => slot))
  }

  async revoke(releases: readonly Release[]): Promise<void> {
    this.revoked.push(...releases.map(({ charge, isKnown }) => ({ slot: charge.slot, isKnown })))
  }

  async delete(): Promise<void> {}
  async renew(): Promise<void> {}
  async settle(differences: readonly Adjustment[]): Promise<void> {
    this.settled.push(...differences.map(({ units }) => units))
  }

  async ping(): Promise<void> {}

  get keys(): (readonly string[])[] {
    return this.requests.map(({ charges }) => charges.map(({ key }) => key))
  }
}

interface Line {
  readonly level: string
  readonly [field: string]: unknown
}

function createLimiter({
  env,
  ...options
}: { env: Environment } & Pick<EngineOptions, 'store' | 'fallback' | 'now' | 'log'>) {
  const config = loadConfig({ UPSTREAM_URL: 'https://api.example.com', ...env })
  const engine = new Engine({ ...config, ...options, leases: undefined })
  return new RequestLimiter({ ...config, engine, health: undefined, createSettlement, log: options.log })
}

function subject(env: Environment = {}) {
  const store = new FakeStore()
  const fallback = new FakeStore()
  const lines: Line[] = []
  const clock = { now: NOW_MS }
  const limiter = createLimiter({
    env,
    store,
    fallback,
    now: () => clock.now,
    log: (level, fields) => lines.push({ ...fields, level }),
  })
  /** @param request method and path, as patterns have it */
  const decide = (request: string, headers: Readonly<Record<string, string>> = {}): Promise<Verdict> => {
    const [method = '', path = ''] = request.split(' ')
    const url = new URL(`https://gateway.example${path}`)
    const sent = new Request(url, { method, headers })
    return limiter.decide({ request: sent, path: readPath(url.pathname), context: callContext() })
  }
  return { store, fallback, lines, clock, decide, limiter }
}

const X = { Authorization: 'Bearer X' }
const IP = { 'CF-Connecting-IP': '203.0.113.7' }

function formatKey(prefix: string, parts: readonly string[], secret?: string): string {
  return `${prefix}:{${createDigest(secret)(parts)}}`
}

function refuse(...usage: readonly Partial<LimitState>[][]): () => Promise<Decision> {
  const full = { remaining: 0, resetMs: 1, retryAfterMs: 0 }
  return async () => ({
    granted: 0,
    nowMs: NOW_MS,
    usage: usage.map((limits) => limits.map((limit) => ({ ...full, ...limit }))),
  })
}

test('RequestLimiter#decide() leaves policies that do not apply out of what is counted of a request', async () => {
  const policies = [{ name: 'keys', limits: '9/1m', by: 'header:x-key', anonymous: 'skip' }]
  const { limiter } = subject({ POLICIES: policies, RATE_LIMITS: '10/1m' })
  for (const [headers, expected] of [
    [X, ['default']],
    [{ ...X, 'X-Key': 'k' }, ['default', 'keys']],
  ] as const) {
    const trace: DecisionTrace = { matches: [], charges: [] }
    const sent = new Request('https://gateway.example/', { headers })
    await limiter.decide({ request: sent, path: readPath('/'), context: callContext() }, { trace })
    expect(trace.matches.map(({ policy }) => policy.name)).toEqual(expected)
  }
})

test('RequestLimiter#decide() calls the store once, for one permit of every policy that applies', async () => {
  const policies = [
    { name: 'login', limits: '5/1m, 20/1h', by: 'ip', match: 'POST /login', cost: 2 },
    { name: 'other', limits: '1/1d', match: '/other' },
    { name: 'tenant', limits: '9/1s', by: 'header:x-tenant+route', mode: 'shadow' },
  ]
  const { store, decide } = subject({ RATE_LIMITS: '10/1s, 120/1m', POLICIES: policies })
  await decide('POST /login', { ...X, ...IP, 'X-Tenant': 'T' })
  expect(store.requests).toHaveLength(1)
  expect(store.requests[0]).toMatchObject({
    action: 'take',
    permits: 1,
    charges: [
      {
        key: formatKey('sluice:default:w', ['token', 'X']),
        algorithm: 'sliding-window',
        limits: [
          { limit: 10, windowMs: 1_000 },
          { limit: 120, windowMs: 60_000 },
        ],
        cost: 1,
        mode: 'enforce',
      },
      {
        key: formatKey('sluice:login:w', ['ip', '203.0.113.7']),
        limits: [
          { limit: 5, windowMs: 60_000 },
          { limit: 20, windowMs: 3_600_000 },
        ],
        cost: 2,
        mode: 'enforce',
      },
      {
        key: formatKey('sluice:tenant:w', ['header:x-tenant', 'T', 'route', 'POST /LOGIN']),
        limits: [{ limit: 9, windowMs: 1_000 }],
        cost: 1,
        mode: 'shadow',
      },
    ],
  })
})

test('RequestLimiter#decide() names keys by KEY_PREFIX, and identities by IDENTITY_SECRET', async () => {
  const { store, decide } = subject({ KEY_PREFIX: 'eu:api', IDENTITY_SECRET: SECRET })
  await decide('GET /', X)
  expect(store.keys).toEqual([[formatKey('eu:api:default:w', ['token', 'X'], SECRET)]])
  expect(store.keys[0]?.[0]).toMatch(/^eu:api:default:w:\{[\w-]{22}\}$/)
})

test('RequestLimiter#decide() shows neither the store nor the log who is calling', async () => {
  const { store, lines, decide } = subject({
    POLICIES: [{ name: 'all', limits: '5/1m', by: 'token+ip+header:x-key+query:key' }],
  })
  store.answer = () => Promise.reject(new StoreError('Redis did not answer within the deadline'))
  await decide('GET /a?key=hush-query', { Authorization: 'Bearer hush-token', ...IP, 'X-Key': 'hush-header' })
  expect(store.requests).toHaveLength(1)
  expect(lines).not.toEqual([])
  expect(JSON.stringify([store.requests, lines])).not.toMatch(/hush|203\.0\.113/)
})

test('RequestLimiter#decide() counts one caller, whatever the method and path, unless by route', async () => {
  const { store, decide } = subject({ RATE_LIMITS: '5/1m', POLICIES: [{ name: 'r', limits: '5/1m', by: 'route' }] })
  for (const request of ['GET /a', 'POST /a', 'GET /b', 'HEAD /%61/?q=1']) await decide(request, X)
  expect(new Set(store.keys.map(([whole]) => whole)).size).toBe(1)
  const routes = ['GET /A', 'POST /A', 'GET /B', 'GET /A']
  expect(store.keys.map(([, route]) => route)).toEqual(routes.map((route) => formatKey('sluice:r:w', ['route', route])))
})

test('RequestLimiter#decide() counts by the pattern that matched, where a policy has one', async () => {
  const policy = { name: 'r', limits: '5/1m', by: 'route', match: 'GET /users/:id, /login' }
  const { store, decide } = subject({ POLICIES: [policy] })
  for (const request of ['GET /users/1', 'HEAD /users/2', 'GET /users/3/', 'GET /login', 'POST /%6Cogin']) {
    await decide(request)
  }
  const users = formatKey('sluice:r:w', ['route', 'GET /users/:id'])
  const login = formatKey('sluice:r:w', ['route', '* /login'])
  expect(store.keys.flat()).toEqual([users, users, users, login, login])
})

test('RequestLimiter#decide() decides nothing about a target that may be another resource, where each is counted by itself', async () => {
  const { store, decide } = subject({ POLICIES: [{ name: 'r', limits: '5/1m', by: 'route' }] })
  for (const path of ['//a/login', '/login;1', '/login%00', '/a%2Flogin']) {
    expect(await decide(`GET ${path}`)).toEqual({ outcome: 'ambiguous_path' })
  }
  expect(store.keys).toEqual([])
})

test.each([
  ['POLICIES', { POLICIES: [{ name: 'login', limits: '5/1m', match: '/login' }] }],
  ['EXEMPT', { EXEMPT: 'GET /free/*, OPTIONS *' }],
])('RequestLimiter#decide() admits without a call of the store what %s leaves unlimited', async (_name, env) => {
  const { store, decide } = subject({ ...env, ANONYMOUS: 'deny' })
  expect(await decide('GET /free/a')).toEqual({ outcome: 'admitted', limits: [] })
  expect(store.requests).toEqual([])
})

test('RequestLimiter#decide() reports how each limit of each policy stands', async () => {
  const { decide } = subject({ RATE_LIMITS: '10/1s, 120/1m', POLICIES: [{ name: 'a', limits: '5/1h' }] })
  const verdict = await decide('GET /', X)
  expect(verdict).toMatchObject({
    outcome: 'admitted',
    limits: [
      { name: 'default-1s', limit: 10, windowMs: 1_000, remaining: 9, resetMs: 1_000, policy: { name: 'default' } },
      { name: 'default-1m', limit: 120, windowMs: 60_000, remaining: 119, resetMs: 60_000 },
      { name: 'a-1h', limit: 5, windowMs: 3_600_000, remaining: 4, resetMs: 3_600_000, policy: { name: 'a' } },
    ],
  })
})

test('RequestLimiter#decide() refuses for as long as the slowest limit that refused needs', async () => {
  const { store, decide } = subject({
    RATE_LIMITS: '10/1s, 120/1m, 240/1h',
    POLICIES: [{ name: 'shadow', limits: '5/1d', mode: 'shadow' }],
  })
  store.answer = refuse(
    [{ retryAfterMs: 400 }, { retryAfterMs: 30_000 }, { remaining: 7, resetMs: 3_000_000 }],
    [{ retryAfterMs: 80_000_000 }],
  )
  const verdict = await decide('GET /', X)
  expect(verdict).toMatchObject({ outcome: 'limited', retryAfterMs: 30_000 })
  const { limits, violated } = verdict as Extract<Verdict, { violated: unknown }>
  expect(limits.map(({ name }) => name)).toEqual(['default-1s', 'default-1m', 'default-1h', 'shadow-1d'])
  expect(violated.map(({ name }) => name)).toEqual(['default-1s', 'default-1m'])
})

test('RequestLimiter#decide() in shadow mode reports what would have been refused, and whom', async () => {
  const { store, lines, decide } = subject({ MODE: 'shadow', RATE_LIMITS: '10/1s, 120/1m' })
  const refused = refuse([{ retryAfterMs: 400 }, { remaining: 50 }])
  // A store grants what only shadow charges would refuse.
  store.answer = async () => ({ ...(await refused()), granted: 1 })
  expect(await decide('GET /', X)).toMatchObject({
    outcome: 'admitted',
    limits: [{ retryAfterMs: 400 }, { remaining: 50 }],
  })
  expect(store.requests[0]?.charges.map(({ mode }) => mode)).toEqual(['shadow'])
  const caller = /\{(.{22})\}$/.exec(store.keys[0]?.[0] ?? '')?.[1]
  expect(lines).toEqual([
    { level: 'warn', event: 'shadow_limited', violated: ['default-1s'], callers: { default: caller } },
  ])
})

test('RequestLimiter#decide() names the caller of each policy in shadow mode that would have refused, and of no other', async () => {
  const { store, lines, decide } = subject({
    POLICIES: [
      { name: 'by-token', limits: '5/1d', mode: 'shadow' },
      { name: 'by-ip', limits: '5/1d', by: 'ip', mode: 'shadow' },
      { name: 'content', limits: '5/1d', by: 'route', mode: 'shadow' },
      { name: 'enforced', limits: '5/1d' },
    ],
  })
  const refused = refuse([{ retryAfterMs: 1 }], [{ retryAfterMs: 1 }], [{}], [{}])
  store.answer = async () => ({ ...(await refused()), granted: 1 })
  await decide('GET /', X)
  const [token, ip] = (store.keys[0] ?? []).map((key) => /\{(.{22})\}$/.exec(key)?.[1])
  expect(lines).toMatchObject([{ violated: ['by-token-1d', 'by-ip-1d'], callers: { 'by-token': token, 'by-ip': ip } }])
  expect(Object.keys(lines[0]?.callers as object)).toHaveLength(2)
})

test('RequestLimiter#decide() gives what is enforced no priority for a policy in shadow mode', async () => {
  const { store, decide } = subject({
    RATE_LIMITS: 'off',
    POLICIES: [
      { name: 'api', limits: '10/1m', reserve: { critical: 0.2, default: 0.3 } },
      {
        name: 'trial',
        limits: '10/1m',
        reserve: { critical: 0.2, default: 0.3 },
        priority: 'sheddable',
        mode: 'shadow',
      },
    ],
  })
  await decide('GET /', X)
  expect(store.requests[0]?.charges.map(({ reserved }) => reserved)).toEqual([2, 5])
})

test('RequestLimiter#decide() says nothing of shadow mode where nothing would have been refused', async () => {
  const { lines, decide } = subject({ MODE: 'shadow' })
  await decide('GET /', X)
  expect(lines).toEqual([])
})

test.each([{}, { Authorization: '' }, { Authorization: '  ' }])(
  'RequestLimiter#decide() with ANONYMOUS=deny identifies the caller before it calls the store: %j',
  async (headers) => {
    const { store, decide } = subject({
      ANONYMOUS: 'deny',
      POLICIES: [{ name: 'a', limits: '5/1m', by: 'ip' }],
      RATE_LIMITS: '5/1m',
    })
    expect(await decide('GET /', { ...headers, ...IP })).toMatchObject({
      outcome: 'unidentified',
      status: 401,
      policy: { name: 'default' },
    })
    expect(store.requests).toEqual([])
    expect((await decide('GET /', X)).outcome).toBe('admitted')
  },
)

test('RequestLimiter#decide() counts the anonymous by address, in shadow mode even with ANONYMOUS=deny', async () => {
  for (const env of [{}, { ANONYMOUS: 'ip' }, { ANONYMOUS: 'deny', MODE: 'shadow' }]) {
    const { store, decide } = subject(env)
    expect((await decide('GET /', IP)).outcome).toBe('admitted')
    expect(store.keys).toEqual([[formatKey('sluice:default:w', ['ip', '203.0.113.7'])]])
  }
})

const FAIL = () => Promise.reject(new StoreError('Redis did not answer within the deadline'))

test('RequestLimiter#decide() with ON_STORE_ERROR=local sends the same request to the fallback', async () => {
  const { store, fallback, lines, decide } = subject({ ON_STORE_ERROR: 'local' })
  store.answer = FAIL
  fallback.answer = refuse([{ retryAfterMs: 1_500 }])
  expect(await decide('GET /', X)).toMatchObject({ outcome: 'limited', retryAfterMs: 1_500, degraded: 'local' })
  expect(fallback.requests).toEqual(store.requests)
  const message = 'Redis did not answer within the deadline'
  expect(lines).toEqual([{ level: 'error', event: 'store_error', message, answered: 'local' }])
})

test('RequestLimiter#decide() calls the fallback only while the store fails', async () => {
  const { store, fallback, decide } = subject()
  const { answer } = store
  store.answer = FAIL
  await decide('GET /', X)
  store.answer = answer
  await decide('GET /', X)
  expect([store.requests.length, fallback.requests.length]).toEqual([2, 1])
})

test.each([
  ['open', { outcome: 'admitted', limits: [], degraded: 'open' }],
  ['closed', { outcome: 'unavailable', degraded: 'closed' }],
])(
  'RequestLimiter#decide() with ON_STORE_ERROR=%s calls no fallback, and says nothing of limits',
  async (answered, expected) => {
    const { store, fallback, lines, decide } = subject({ ON_STORE_ERROR: answered })
    store.answer = FAIL
    expect(await decide('GET /', X)).toEqual(expected)
    expect(fallback.requests).toEqual([])
    expect(lines).toMatchObject([{ event: 'store_error', answered }])
  },
)

test('RequestLimiter#decide() in shadow mode refuses nothing, not even without the store and ON_STORE_ERROR=closed', async () => {
  const { store, decide } = subject({ MODE: 'shadow', ON_STORE_ERROR: 'closed' })
  store.answer = FAIL
  expect((await decide('GET /', X)).outcome).toBe('admitted')
})

test('RequestLimiter#decide() does not take a mistake of its own for a failure of the store', async () => {
  const { store, fallback, decide } = subject()
  store.answer = () => Promise.reject(new TypeError('x is not a function'))
  await expect(decide('GET /', X)).rejects.toThrow('x is not a function')
  expect(fallback.requests).toEqual([])
})

const POLICIES = (...modes: readonly string[]) =>
  modes.map((on_store_error, index) => ({ name: `p${index}`, limits: '100/1m, 1000/1h', on_store_error }))

test.each([
  [['local', 'open'], 'admitted', 'local, open', 1],
  [['open', 'open'], 'admitted', 'open', 0],
  [['local', 'local'], 'admitted', 'local', 2],
  [['local', 'closed', 'open'], 'unavailable', 'closed', 0],
] as const)(
  'RequestLimiter#decide() without the store does as each policy says: %j',
  async (modes, outcome, degraded, charges) => {
    const { store, fallback, decide } = subject({ POLICIES: POLICIES(...modes) })
    store.answer = FAIL
    expect(await decide('GET /', X)).toMatchObject({ outcome, degraded })
    expect(fallback.keys.flat()).toHaveLength(charges)
  },
)

test('RequestLimiter#decide() is not degraded while the store answers', async () => {
  const { decide } = subject({ POLICIES: POLICIES('closed', 'open') })
  expect(await decide('GET /', X)).not.toHaveProperty('degraded')
})

test('RequestLimiter#decide() without the store allows LOCAL_SHARE of each limit, and reports that', async () => {
  const { store, fallback, decide } = subject({ POLICIES: POLICIES('local'), LOCAL_SHARE: 0.25 })
  store.answer = FAIL
  expect(await decide('GET /', X)).toMatchObject({ limits: [{ limit: 25 }, { limit: 250 }] })
  const limits = [
    { limit: 25, windowMs: 60_000 },
    { limit: 250, windowMs: 3_600_000 },
  ]
  expect(fallback.requests).toMatchObject([{ charges: [{ limits }] }])
})

test('RequestLimiter#decide() without the store takes its share for all that a request may have cost', async () => {
  const policy = {
    name: 'units',
    algorithm: 'quota',
    limits: '100/1m',
    actual_cost: 'header:x-cost',
    untold: 1,
    on_store_error: 'local',
  }
  const { store, fallback, decide } = subject({ POLICIES: [policy], LOCAL_SHARE: 0.25 })
  store.answer = FAIL
  const verdict = await decide('GET /', X)
  if (verdict.outcome !== 'admitted') expect.unreachable(verdict.outcome)
  await verdict.settlement?.readHead(undefined, undefined)?.settle(() => createReading(90))
  expect([store.settled, fallback.settled]).toEqual([[], []])
  const [record] = fallback.requests.slice(-1)
  expect(record).toMatchObject({ action: 'record', charges: [{ cost: 24 }] })
})

test.each([true, false])(
  'RequestLimiter#decide() gives slots back that the store may have taken: %j',
  async (mayHaveRun) => {
    const { store, decide } = subject({ POLICIES: [{ name: 'slots', algorithm: 'concurrency', limits: '5' }] })
    store.answer = () => Promise.reject(new StoreError('no answer', { mayHaveRun }))
    await decide('GET /', X)
    const [charge] = store.requests[0]?.charges ?? []
    await expect.poll(() => store.revoked).toEqual(mayHaveRun ? [{ slot: charge?.slot, isKnown: false }] : [])
  },
)

/** Its first `count` answers arrive when the isolate has stood still for that long. */
function stall({ store, clock }: ReturnType<typeof subject>, ms: number, count: number): void {
  const { answer } = store
  store.answer = (request) => {
    if (store.requests.length <= count) clock.now += ms
    return answer(request)
  }
}

test('RequestLimiter#decide() goes by no admission older than STORE_TIMEOUT_MS, but decides again, once', async () => {
  const slots = { name: 'slots', algorithm: 'concurrency', limits: '5' }
  const own = subject({ STORE_TIMEOUT_MS: 300, POLICIES: [slots, { name: 'calls', limits: '5/1s' }] })
  stall(own, 301, 1)
  const verdict = await own.decide('GET /', X)
  expect(verdict.outcome).toBe('admitted')
  expect(verdict).not.toHaveProperty('degraded')
  const [first, second] = own.store.requests.map(({ charges }) => charges.map(({ slot }) => slot))
  expect(first?.[0]).not.toBe(second?.[0])
  expect(own.store.released).toEqual([first?.[0]])
  expect(own.lines).toEqual([{ level: 'error', event: 'late_decision', ageMs: 301, repeated: true }])
})

test.each([
  ['local', { outcome: 'admitted', degraded: 'local' }],
  ['closed', { outcome: 'unavailable', degraded: 'closed' }],
])(
  'RequestLimiter#decide() does as ON_STORE_ERROR=%s says when the second answer is late, too',
  async (ON_STORE_ERROR, expected) => {
    const own = subject({ STORE_TIMEOUT_MS: 300, ON_STORE_ERROR })
    stall(own, 301, 2)
    expect(await own.decide('GET /', X)).toMatchObject(expected)
    expect(own.store.requests).toHaveLength(2)
    expect(own.lines.map(({ event }) => event)).toEqual(['late_decision', 'late_decision', 'store_error'])
  },
)

test.each([
  ['an admission in time', 300, 1],
  ['a refusal, however old', 10_000, 0],
])('RequestLimiter#decide() goes by %s', async (_what, ms, granted) => {
  const own = subject({ STORE_TIMEOUT_MS: 300 })
  if (granted === 0) own.store.answer = refuse([{ retryAfterMs: 700 }])
  stall(own, ms, 1)
  expect((await own.decide('GET /', X)).outcome).toBe(granted === 1 ? 'admitted' : 'limited')
  expect(own.store.requests).toHaveLength(1)
})

test('RequestLimiter#decide() charges new identities last, by address', async () => {
  const POLICIES = [
    { name: 'new', limits: '20/1m', by: 'ip', counts: 'new-identities' },
    { name: 'calls', limits: '5/1s' },
  ]
  const { store, decide } = subject({ POLICIES })
  await decide('GET /', { ...X, ...IP })
  expect(store.requests[0]?.charges.map(({ key, counts }) => [key.split(':{')[0], counts])).toEqual([
    ['sluice:calls:w', undefined],
    ['sluice:new:w', 'new-identities'],
  ])
})

const API = { name: 'api', limits: { free: '3/1m', pro: '6/1m' }, plan: 'header:x-plan', default_plan: 'free' }

/** A limiter that counts in memory, and one policy with limits by plan. */
function createPlans(policy: object = API, env: Environment = {}) {
  const config = loadConfig({ UPSTREAM_URL: 'https://api.example.com', POLICIES: [policy], ...env })
  const clock = { now: NOW_MS }
  const store = new MemoryStore(() => clock.now)
  const requests: DecisionRequest[] = []
  store.decide = async (request) => {
    requests.push(request)
    return store.decideNow(request)
  }
  const leases = config.leases === undefined ? undefined : withLeases(config.leases)
  const { limiter } = composeLimiter({
    ...{ ...config, store, leases, health: undefined, createSettlement, log: () => {} },
    now: () => clock.now,
  })
  /** @returns the outcome, the limit, and how much of it is left */
  const call = async (plan?: string, token = 'a') => {
    const headers = { Authorization: `Bearer ${token}`, ...(plan !== undefined && { 'X-Plan': plan }) }
    const request = new Request('https://gateway.example/', { headers })
    const verdict = await limiter.decide({ request, path: readPath('/'), context: callContext() })
    const [limit] = 'limits' in verdict ? verdict.limits : []
    return [verdict.outcome, limit?.limit, limit?.remaining]
  }
  return { clock, requests, call }
}

test('each caller has the limits of its plan, and of the default plan without one', async () => {
  const { call } = createPlans()
  expect(await call('free', 'f')).toEqual(['admitted', 3, 2])
  expect(await call('pro', 'p')).toEqual(['admitted', 6, 5])
  expect(await call(undefined, 'n')).toEqual(['admitted', 3, 2])
})

test.each(['', 'PRO', 'trial', 'pro, pro', 'pro,free', 'toString', '__proto__'])(
  'a caller on plan %j, which is none, has the default plan',
  async (plan) => {
    const { call } = createPlans()
    expect(await call(plan)).toEqual(['admitted', 3, 2])
  },
)

test('what a caller has used stays when it changes its plan', async () => {
  const { call } = createPlans()
  for (let i = 0; i < 3; i++) await call('free')
  expect(await call('free')).toEqual(['limited', 3, 0])
  // What is remembered of one plan says nothing of another.
  expect(await call('pro')).toEqual(['admitted', 6, 2])
  expect(await call('pro')).toEqual(['admitted', 6, 1])
  expect(await call('free')).toEqual(['limited', 3, 0])
  expect(await call('pro')).toEqual(['admitted', 6, 0])
  expect(await call('pro')).toEqual(['limited', 6, 0])
  expect(await call('free')).toEqual(['limited', 3, 0])
})

test('refusals of each plan are remembered by themselves', async () => {
  const { requests, call } = createPlans()
  for (let i = 0; i < 6; i++) await call('pro')
  const before = requests.length
  for (let i = 0; i < 10; i++) {
    expect((await call('pro'))[0]).toBe('limited')
    expect((await call('free'))[0]).toBe('limited')
  }
  expect(requests.length - before).toBe(2)
})

test('permits that were leased for one plan are not used by another', async () => {
  const limits = { free: '20/1m', pro: '10000/1m' }
  const { clock, requests, call } = createPlans({ ...API, limits }, { LEASES: 'auto' })
  for (let i = 0; i < 60; i++) {
    clock.now += 5
    await call('pro')
  }
  expect(requests.some(({ permits }) => permits > 1)).toBe(true)
  expect(await call('free')).toEqual(['limited', 20, 0])
})

test('a caller on a plan that counts failures fails as often as that allows', async () => {
  const { call } = createPlans({ ...API, counts: 'failures' })
  expect(await call('pro')).toEqual(['admitted', 6, 6])
})
