/** The middleware for Hono, on workerd and on Node alike. */
import { Hono } from 'hono'
import { beforeEach, describe, expect, test } from 'vitest'
import { type Store, StoreError } from '../../../src/core/model/store.ts'
import { MemoryStore } from '../../../src/core/store/memory/memory-store.ts'
import type { RateLimit } from '../../../src/hono.ts'
import { type RateLimitVariables, type SluiceOptions, sluice } from '../../../src/hono.ts'

const NOW_MS = 1_700_000_000_000

interface Line {
  readonly level: string
  readonly [field: string]: unknown
}

let nowMs: number
let lines: Line[]
beforeEach(() => {
  nowMs = NOW_MS
  lines = []
})

type Options = SluiceOptions<{ Variables: RateLimitVariables }>

/** Options by which a test steers time and sees the log. */
const steered = (options: Options): Options => ({
  now: () => nowMs,
  log: (level, fields) => lines.push({ ...fields, level }),
  ...options,
})

type App = Hono<{ Variables: RateLimitVariables }>

/** An app that answers everything, behind the middleware. */
function appWith(options: Options): App {
  const app: App = new Hono()
  app.use(sluice(steered(options)))
  return app.all('*', (c) => c.json(c.get('rateLimit')))
}

const X = { headers: { Authorization: 'Bearer X' } }
/** Two requests of one caller. */
const TWICE = [
  ['/', X],
  ['/', X],
] as const
const Y = { headers: { Authorization: 'Bearer Y' } }

async function statuses(app: App, requests: readonly (readonly [string, RequestInit?])[]): Promise<number[]> {
  const seen: number[] = []
  for (const [path, init] of requests) seen.push((await app.request(path, init)).status)
  return seen
}

// No proxy of ours stands between a client and an app: it sees every field.
test.each(['x-real-ip', 'x_key', 'x-forwarded-user'])(
  'sluice() counts by header:%s in every form of policy',
  async (field) => {
    const by = `header:${field}`
    for (const options of [{ limits: '1/1m', by }, { policies: [{ name: 'a', limits: '1/1m', by }] }]) {
      const app = appWith(options)
      const from = (value: string): [string, RequestInit] => ['/', { headers: { [field]: value } }]
      expect(await statuses(app, [from('a'), from('a'), from('b')])).toEqual([200, 429, 200])
    }
    const app = appWith({ policies: [{ name: 'a', limits: '2/1m', cost: `header:${field}`, max_cost: 2 }] })
    const costing: [string, RequestInit] = ['/', { headers: { [field]: '2', ...X.headers } }]
    expect(await statuses(app, [costing, costing])).toEqual([200, 429])
  },
)

test('sluice() lets through what fits, for each caller, and tells of the limits', async () => {
  const app = appWith({ limits: '2/1s, 3/1m' })
  const first = await app.request('/', X)
  expect(first.status).toBe(200)
  expect(first.headers.get('RateLimit-Policy')).toBe('"default-1s";q=2;w=1, "default-1m";q=3;w=60')
  expect(first.headers.get('RateLimit')).toBe('"default-1s";r=1;t=1, "default-1m";r=2;t=60')
  expect(await first.json()).toEqual({
    outcome: 'admitted',
    limits: [
      expect.objectContaining({ name: 'default-1s', limit: 2, windowMs: 1_000, remaining: 1, retryAfterMs: 0 }),
      expect.objectContaining({ name: 'default-1m', limit: 3, windowMs: 60_000, remaining: 2, retryAfterMs: 0 }),
    ],
  })
  expect((await app.request('/', X)).status).toBe(200)
  nowMs += 400
  const refused = await app.request('/', X)
  expect(refused.status).toBe(429)
  expect(refused.headers.get('Content-Type')).toBe('application/problem+json')
  expect(refused.headers.get('Retry-After')).toBe('1')
  expect(refused.headers.get('RateLimit')).toMatch(/^"default-1s";r=0;t=1, "default-1m";r=1;t=60$/)
  expect(await refused.json()).toMatchObject({ 'violated-policies': ['default-1s'], retry_after_ms: 600 })
  expect((await app.request('/', Y)).status).toBe(200)
  nowMs += 599
  expect((await app.request('/', X)).status).toBe(429)
  nowMs += 1
  expect((await app.request('/', X)).status).toBe(200)
})

test('sluice() gives an app the documented fields of a decision, and nothing else', async () => {
  const app: App = new Hono()
  const policies = [{ name: 'api', limits: '1/1s', penalty: '1m' }]
  app.use(sluice(steered({ policies, onLimited: (c, rateLimit) => c.json(rateLimit) })))
  app.all('*', (c) => c.json(c.get('rateLimit')))
  const limit = { policy: 'api', name: 'api-1s', limit: 1, windowMs: 1_000, remaining: 0 }
  expect(await (await app.request('/', X)).json()).toEqual({
    outcome: 'admitted',
    limits: [{ ...limit, resetMs: 1_000, retryAfterMs: 0 }],
  })
  expect(await (await app.request('/', X)).json()).toEqual({
    outcome: 'limited',
    limits: [{ ...limit, resetMs: 60_000, retryAfterMs: 60_000, penaltyMs: 60_000 }],
    retryAfterMs: 60_000,
  })
})

test('sluice() limits an app, a route or a handler, and each adds its fields', async () => {
  const app = new Hono()
  app.use('/api/*', sluice(steered({ limits: '3/1m', name: 'api' })))
  app.post('/api/login', sluice(steered({ limits: '1/1m', name: 'login' })), (c) => c.text('in'))
  app.all('*', (c) => c.text('ok'))
  expect((await app.request('/open', X)).headers.has('RateLimit')).toBe(false)
  const login = await app.request('/api/login', { ...X, method: 'POST' })
  expect(login.headers.get('RateLimit')).toBe('"login-1m";r=0;t=60, "api-1m";r=2;t=60')
  expect((await app.request('/api/login', { ...X, method: 'POST' })).status).toBe(429)
  expect((await app.request('/api/login', X)).status).toBe(200)
  expect((await app.request('/api/other', X)).status).toBe(429)
})

test('sluice() takes policies as the gateway does: all that match must admit, or none is charged', async () => {
  const app = appWith({
    policies: [
      { name: 'all', limits: '3/1m' },
      { name: 'login', limits: '1/1m', match: 'POST /login' },
    ],
    exempt: 'GET /healthz',
  })
  const login = ['/login', { ...X, method: 'POST' }] as const
  expect(await statuses(app, [login, login, login, ['/', X], ['/', X], ['/', X], ['/healthz', X]])).toEqual([
    200, 429, 429, 200, 200, 429, 200,
  ])
  // `/login` to some frameworks, and another path to others.
  expect((await app.request('/x%2F..%2Flogin', { ...Y, method: 'POST' })).status).toBe(400)
})

test('sluice() takes quotas by the calendar', async () => {
  const plan = { name: 'plan', algorithm: 'quota', limits: '1/month', time_zone: 'Europe/Berlin', starts: 15 } as const
  const app = appWith({ policies: [plan] })
  expect(await statuses(app, TWICE)).toEqual([200, 429])
  nowMs = Date.parse('2023-11-15T00:00+01:00')
  expect(await statuses(app, TWICE)).toEqual([200, 429])
})

describe('cost', () => {
  const app = () => appWith({ limits: '10/1m', cost: (c) => Number(c.req.query('n')) })

  test('is what the function says', async () => {
    const limited = app()
    const requests = [7, 4, 3, 1].map((n) => [`/?n=${n}`, X] as const)
    expect(await statuses(limited, requests)).toEqual([200, 429, 200, 429])
  })

  test.each(['0', '-1', '1.5', '11', 'x', 'Infinity'])('of %s is an error that is thrown, and no pass', async (n) => {
    const limited = app()
    const errors: string[] = []
    limited.onError((error, c) => {
      errors.push(`${error.name}: ${error.message}`)
      return c.text('failed', 500)
    })
    expect((await limited.request(`/?n=${n}`, X)).status).toBe(500)
    expect(errors).toEqual([`RangeError: cost: expected an integer from 1 to 10, got ${Number(n)}`])
    expect(((await (await limited.request('/?n=1', X)).json()) as RateLimit).limits[0]?.remaining).toBe(9)
  })

  test('does not stand in for that of a policy, for slots or for new identities', async () => {
    const limited = appWith({
      policies: [
        { name: 'own', limits: '10/1m', cost: 2 },
        { name: 'slots', limits: '3', algorithm: 'concurrency' },
        { name: 'new', limits: '5/1m', counts: 'new-identities', by: 'global' },
      ],
      cost: () => 9,
    })
    const { limits } = (await (await limited.request('/', X)).json()) as RateLimit
    expect(limits.map(({ name, remaining }) => [name, remaining])).toEqual([
      ['own-1m', 8],
      ['slots', 2],
      ['new-1m', 4],
    ])
  })
})

describe('identify', () => {
  const KEYS = new Map([
    ['k1', 'ada'],
    ['k2', 'ada'],
    ['k3', 'bob'],
  ])
  const options: Options = {
    limits: '1/1m',
    identify: async (c) => KEYS.get(c.req.header('X-Key') ?? ''),
    trustProxy: (c) => c.req.header('X-Test-Address'),
  }
  const key = (name: string, address = '192.0.2.1') =>
    ['/', { headers: { 'X-Key': name, 'X-Test-Address': address } }] as const

  test('says who calls, and a caller whom it does not know is counted by address', async () => {
    const requests = [key('k1'), key('k2'), key('k3'), key('k4'), key('k5'), key('k4', '192.0.2.2')]
    expect(await statuses(appWith(options), requests)).toEqual([200, 429, 200, 200, 429, 200])
  })

  test.each([
    ['deny', [200, 401, 401]],
    ['deny:403', [200, 403, 403]],
    ['skip', [200, 200, 200]],
  ])('leaves it to anonymous = "%s" what becomes of one whom it does not know', async (anonymous, expected) => {
    expect(await statuses(appWith({ ...options, anonymous }), [key('k1'), key('k4'), key('')])).toEqual(expected)
  })

  test('throws what is neither text nor undefined, and lets nobody pass by it', async () => {
    const app = appWith({ ...options, identify: () => 7 as never })
    app.onError((error, c) => c.text(error.message, 500))
    const response = await app.request('/', X)
    expect([response.status, await response.text()]).toEqual([
      500,
      'identify: expected a string or undefined, got a number',
    ])
  })
})

test('skip lets a request pass unlimited, and says so', async () => {
  const app = appWith({ limits: '1/1m', skip: async (c) => c.req.path === '/free' })
  expect(await statuses(app, [...TWICE, ['/free', X]])).toEqual([200, 429, 200])
  const response = await app.request('/free', X)
  expect(response.headers.has('RateLimit')).toBe(false)
  expect(await response.json()).toEqual({ outcome: 'admitted', limits: [] })
})

test('a refusal says what its policy says, to browsers as a page', async () => {
  const refusal = { detail: 'Wait {retry_after} s.', html: '<p>{retry_after}</p>' }
  const app = appWith({ policies: [{ name: 'a', limits: '1/1m', refusal }] })
  await app.request('/', X)
  expect(await (await app.request('/', X)).json()).toMatchObject({ code: 'limit_exceeded', detail: 'Wait 60 s.' })
  const page = await app.request('/', { headers: { ...X.headers, Accept: 'text/html' } })
  expect([page.status, page.headers.get('RateLimit'), await page.text()]).toEqual([429, '"a-1m";r=0;t=60', '<p>60</p>'])
})

test('onLimited answers what the limits refuse, with the fields that belong to it', async () => {
  const app = appWith({
    limits: '1/1m',
    anonymous: 'deny',
    onLimited: (c, { outcome, retryAfterMs }) => c.json({ outcome, retryAfterMs }, 418, { 'Cache-Control': 'private' }),
  })
  await app.request('/', X)
  const response = await app.request('/', X)
  expect([response.status, await response.json()]).toEqual([418, { outcome: 'limited', retryAfterMs: 60_000 }])
  expect(response.headers.get('Retry-After')).toBe('60')
  expect(response.headers.get('Cache-Control')).toBe('private')
  expect(response.headers.get('RateLimit')).toBe('"default-1m";r=0;t=60')
  // Another refusal than that of a limit is a problem as ever.
  expect((await app.request('/')).status).toBe(401)
})

test('the decision can be read by what stands around the middleware', async () => {
  const app: App = new Hono()
  const seen: RateLimit['outcome'][] = []
  app.use(async (c, next) => {
    await next()
    seen.push(c.get('rateLimit').outcome)
  })
  app.use(sluice(steered({ limits: '1/1m' })))
  app.get('/', (c) => c.text('ok'))
  await statuses(app, TWICE)
  expect(seen).toEqual(['admitted', 'limited'])
})

describe('slots', () => {
  const policies = [{ name: 'slots', limits: '1', algorithm: 'concurrency', slot_ttl: '1h' }] as const
  const held = async (app: Hono) => {
    const { status } = await app.request('/probe', X)
    return status === 429
  }

  function appOf(options: Partial<Options> = {}): Hono {
    const app = new Hono()
    app.use(sluice(steered({ policies, ...options })))
    app.get('/probe', (c) => c.body(null))
    return app
  }

  test('are held until the body has ended', async () => {
    const app = appOf()
    let end = () => {}
    app.get('/stream', (c) => {
      const stream = new ReadableStream({
        start(controller) {
          controller.enqueue(new TextEncoder().encode('begun'))
          end = () => controller.close()
        },
      })
      return c.body(stream)
    })
    const response = await app.request('/stream', X)
    const reader = response.body?.getReader()
    expect(new TextDecoder().decode((await reader?.read())?.value)).toBe('begun')
    expect(await held(app)).toBe(true)
    end()
    expect((await reader?.read())?.done).toBe(true)
    await expect.poll(() => held(app)).toBe(false)
  })

  test('are free when the client breaks off', async () => {
    const app = appOf()
    app.get('/stream', (c) =>
      c.body(new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(9)) })),
    )
    const response = await app.request('/stream', X)
    expect(await held(app)).toBe(true)
    await response.body?.cancel()
    await expect.poll(() => held(app)).toBe(false)
  })

  test.each<[string, (app: Hono) => unknown, string?]>([
    ['has no body', (app) => app.get('/end', (c) => c.body(null, 204))],
    ['answers HEAD', (app) => app.get('/end', (c) => c.text('long')), 'HEAD'],
    ['is an error', (app) => app.get('/end', () => Promise.reject(new Error('of the handler')))],
    ['is none: what is no Error was thrown', (app) => app.get('/end', () => Promise.reject('of the handler'))],
    ['is 404', () => {}],
  ])('are free at once after a response that %s', async (_, route, method = 'GET') => {
    const app = appOf()
    app.onError((_, c) => c.body(null, 500))
    route(app)
    await Promise.resolve(app.request('/end', { ...X, method })).then(
      (response) => response.text(),
      () => {},
    )
    await expect.poll(() => held(app)).toBe(false)
  })
})

test('a response that is missing stays missing, and holds no slot', async () => {
  const app: App = new Hono()
  app.use(sluice(steered({ policies: [{ name: 'slots', limits: '1', algorithm: 'concurrency' }] })))
  app.get('/nothing', (() => {}) as never)
  app.use('/stuck', (() => {}) as never)
  app.onError((error, c) => c.text(error.message, 500))
  for (const path of ['/nothing', '/stuck', '/nothing', '/stuck']) {
    const response = await app.request(path, X)
    expect([response.status, await response.text()]).toEqual([500, expect.stringContaining('Context is not finalized')])
  }
})

test('failures are charged when the response says so, and then the fields say it too', async () => {
  const app = new Hono()
  app.use(sluice(steered({ policies: [{ name: 'guesses', limits: '2/1m', counts: 'failures', failures: '401' }] })))
  app.get('/', (c) => c.body(null, c.req.query('password') === 'right' ? 200 : 401))
  const seen: unknown[] = []
  for (const password of ['right', 'a', 'b', 'right']) {
    const { status, headers } = await app.request(`/?password=${password}`, X)
    seen.push([status, /r=(\d)/.exec(headers.get('RateLimit') ?? '')?.[1]])
  }
  expect(seen).toEqual([
    [200, '2'],
    [401, '1'],
    [401, '0'],
    [429, '0'],
  ])
})

test('settle makes up the difference between the cost charged and the one that the response tells', async () => {
  const app = new Hono()
  const policies = [
    { name: 'day', limits: '100/1d', algorithm: 'quota', actual_cost: 'header:x-cost', cost: 10 },
  ] as const
  app.use(sluice(steered({ policies })))
  app.get('/', (c) => c.text('ok', 200, { 'X-Cost': '60' }))
  const remaining = async () => /r=(\d+)/.exec((await app.request('/', X)).headers.get('RateLimit') ?? '')?.[1]
  expect(await remaining()).toBe('90')
  expect(await remaining()).toBe('30')
})

test('the fields are added to a response whose own are closed', async () => {
  const app = new Hono()
  app.use(sluice(steered({ limits: '1/1m' })))
  app.get('/', () => Response.redirect('https://api.example/'))
  const response = await app.request('/', X)
  expect([response.status, response.headers.get('Location')]).toEqual([302, 'https://api.example/'])
  expect(response.headers.get('RateLimit')).toBe('"default-1m";r=0;t=60')
})

test('block keeps who was refused out until it ends, and onLimited is told', async () => {
  const app: App = new Hono()
  const policies = [{ name: 'api', limits: '2/1s', penalty: '1m', penalty_after: 2 }]
  const onLimited: Options['onLimited'] = (c, { limits }) => c.json({ penaltyMs: limits[0]?.penaltyMs ?? 0 }, 429)
  app.use(sluice(steered({ policies, onLimited })))
  app.all('*', (c) => c.json(c.get('rateLimit')))
  const ask = async () => {
    const response = await app.request('/', X)
    const { penaltyMs } = (await response.json()) as { penaltyMs?: number }
    return [response.status, penaltyMs]
  }
  const seen = [await ask(), await ask(), await ask(), await ask()]
  expect(seen).toEqual([
    [200, undefined],
    [200, undefined],
    [429, 0],
    [429, 60_000],
  ])
  nowMs += 59_999
  expect(await ask()).toEqual([429, 1])
  nowMs += 1
  expect(await ask()).toEqual([200, undefined])
})

test('mode = "shadow" reports and refuses nothing', async () => {
  const app = appWith({ limits: '1/1m', mode: 'shadow', anonymous: 'deny' })
  expect(await statuses(app, [['/', X], ['/', X], ['/']])).toEqual([200, 200, 200])
  expect(lines).toContainEqual(expect.objectContaining({ event: 'shadow_limited', violated: ['default-1m'] }))
})

test('headerFormat and prefix are as they say', async () => {
  const keys: string[] = []
  const memory = new MemoryStore(() => nowMs)
  const store = Object.assign(Object.create(memory) as Store, {
    decide: (request: Parameters<Store['decide']>[0]) => {
      keys.push(...request.charges.map(({ key }) => key))
      return memory.decide(request)
    },
  })
  const app = appWith({
    limits: '5/1m',
    name: 'mine',
    keyPrefix: 'shop',
    rateLimitHeaders: 'draft-6',
    store: { isRemote: true, timeoutMs: 1_000, open: () => store },
  })
  const { headers } = await app.request('/', X)
  expect(headers.get('RateLimit-Remaining')).toBe('4')
  expect(keys).toEqual([expect.stringMatching(/^shop:mine:w:\{[\w-]{22}\}$/)])
})

describe('onStoreError', () => {
  const broken = { isRemote: true, timeoutMs: 1_000, open: () => new Proxy({} as Store, { get: () => failing }) }
  const failing = () => Promise.reject(new StoreError('away', { mayHaveRun: false }))

  test.each([
    ['local', [200, 429], 'local'],
    ['open', [200, 200], 'open'],
    ['closed', [503, 503], 'closed'],
  ] as const)('= "%s" answers %j', async (onStoreError, expected, degraded) => {
    const app = appWith({ limits: '1/1m', onStoreError, store: broken })
    expect(await statuses(app, TWICE)).toEqual(expected)
    expect((await app.request('/', X)).headers.get('Sluice-Degraded')).toBe(degraded)
    expect(lines).toContainEqual(expect.objectContaining({ event: 'store_error' }))
  })
})

test('policies do not mind the case of a path, unless they say so', async () => {
  const policies = [
    { name: 'login', limits: '1/1m', match: '/login' },
    { name: 'exact', limits: '1/1m', match: '/exact', ignore_case: false },
  ]
  const paths = ['/login', '/LOGIN', '/exact', '/EXACT']
  expect(
    await statuses(
      appWith({ policies }),
      paths.map((path) => [path, X]),
    ),
  ).toEqual([200, 429, 200, 200])
})

test('fold takes what people type in another case for one caller, also if the application says who it is', async () => {
  const paths = ['/?user=Ada', '/?user=%20aDA', '/?user=eve'].map((path) => [path] as const)
  const told = appWith({ limits: '1/1m', fold: 'lower trim', identify: (c) => c.req.query('user') })
  expect(await statuses(told, paths)).toEqual([200, 429, 200])
  expect(await statuses(appWith({ limits: '1/1m', fold: 'lower', by: 'query:user' }), paths)).toEqual([200, 429, 200])
  const policies = [{ name: 'own', limits: '1/1m', by: 'query:user' }]
  expect(await statuses(appWith({ policies, fold: 'lower', by: 'header:x' }), paths)).toEqual([200, 200, 200])
  const expected = 'fold: expected by "header:", "query:", "form:", "cookie:", "json:" or "claim:" with it, got "lower"'
  expect(() => appWith({ limits: '1/1m', fold: 'lower' })).toThrow(expected)
})

describe('a form', () => {
  const form = (text: string): RequestInit => ({
    method: 'POST',
    body: text,
    headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
  })

  test.each(['before', 'after'])('can be read %s the middleware, which counts by a field of it', async (when) => {
    const app: App = new Hono()
    if (when === 'before') {
      app.use(async (c, next) => {
        await c.req.parseBody()
        await next()
      })
    }
    app.use(sluice(steered({ limits: '1/1m', by: 'form:user' })))
    app.post('/', async (c) => c.json(await c.req.parseBody()))
    const response = await app.request('/', form('user=ada&n=1'))
    expect(await response.json()).toEqual({ user: 'ada', n: '1' })
    expect(
      await statuses(app, [
        ['/', form('user=ada&n=2')],
        ['/', form('user=bob')],
      ]),
    ).toEqual([429, 200])
  })
})

describe('trustProxy', () => {
  const sent = (field: string) => ['/', { headers: { 'X-Forwarded-For': field, 'X-Real-IP': field } }] as const

  test('left out, no field of a client is believed', async () => {
    expect(await statuses(appWith({ limits: '1/1m', by: 'ip' }), [sent('192.0.2.1'), sent('192.0.2.2')])).toEqual([
      200, 429,
    ])
  })

  test("is the number of proxies: what stands before their entries is the client's word", async () => {
    const app = appWith({ limits: '1/1m', by: 'ip', trustProxy: 2 })
    const requests = [
      sent('192.0.2.1, 198.51.100.1'),
      sent('192.0.2.9, 192.0.2.1, 198.51.100.2'),
      sent('192.0.2.2:4711, 198.51.100.1'),
      sent('192.0.2.2, 198.51.100.1'),
      sent('[2001:db8::1]:443, 198.51.100.1'),
      sent('2001:db8::2, 198.51.100.1'),
    ]
    expect(await statuses(app, requests)).toEqual([200, 429, 200, 429, 200, 429])
  })
})

test('sluice() says once that limits hold per process only, if it is given no store', () => {
  sluice(steered({ limits: '1/1m' }))
  sluice(steered({ limits: '1/1m' }))
  expect(lines.filter(({ event }) => event === 'in_memory_store').length).toBeLessThanOrEqual(1)
})

describe('sluice() refuses what is not as expected, and names it:', () => {
  const one = [{ name: 'one', limits: '1/1m' }]
  test.each<[unknown, string]>([
    [undefined, 'options: expected a table of options, got nothing'],
    ['10/1s', 'options: expected a table of options, got "10/1s"'],
    [
      {},
      'limits: expected limits such as "10/1s, 120/1m": limits from 1 to 1000000000, windows up to 53w, each once (units ms s m h d w; day week month year with "quota"), got nothing',
    ],
    [
      { limits: '10' },
      'limits: expected limits such as "10/1s, 120/1m": limits from 1 to 1000000000, windows up to 53w, each once (units ms s m h d w; day week month year with "quota"), got "10"',
    ],
    [
      { limits: '100001/1m' },
      'limits: expected limits up to 100000 (for more, a policy with algorithm = "quota", or one that allows a large log: allow_large_log, in code allowLargeLog), got "100001/1m"',
    ],
    [{ limit: '1/1s' }, 'limit: unknown option; expected one of limits, '],
    [{ limits: '1/1s', by: 'name' }, 'by: expected "token", "ip", '],
    [
      { limits: '1/1s', by: 'ip', identify: () => 'x' },
      'by: expected no "by" beside the function "identify", got "ip"',
    ],
    [{ limits: '1/1s', cost: 2 }, 'cost: expected a function, got 2'],
    [{ limits: '1/1s', now: () => new Date() }, 'now: expected a clock that returns milliseconds'],
    [{ limits: '1/1s', store: 'redis://' }, 'store: expected memoryStore() or redisStore(client), got "redis://"'],
    [
      { limits: '1/1s', identitySecret: 'short' },
      'identitySecret: expected at least 16 characters, got a value not shown here',
    ],
    [
      { limits: '1/1s', trustProxy: true },
      'trustProxy: expected a number of proxies from 1 to 20, or a function, got true',
    ],
    [{ limits: '1/1s', shedding: 'on' }, 'shedding: expected true or false, got "on"'],
    [{ policies: [{ name: 'one', limits: '10' }] }, 'policies[0].limits: expected limits such as '],
    [
      { policies: [{ name: 'one', limits: '1/1s', max: 1 }] },
      'policies[0].max: unknown setting; expected one of name, ',
    ],
    [{ policies: [...one, ...one] }, 'policies[1].name: expected a name used once, got "one"'],
    [
      { limits: '1/1s', name: 'one', policies: one },
      'policies[0].name: expected another name: limits makes "one", got "one"',
    ],
    [
      { policies: [{ name: 'one', priority: 'critical' }] },
      'policies: expected at least one policy with limits (or limits, or shedding: true), got ["one"]',
    ],
  ])('%j', (options, message) => {
    expect(() => sluice(options as never)).toThrow(message)
  })

  test('other limits under a name that the store knows', () => {
    const store = { isRemote: true, timeoutMs: 1_000, open: () => new MemoryStore(() => nowMs) }
    sluice(steered({ limits: '1/1m', store }))
    sluice(steered({ limits: '1/1m', store }))
    sluice(steered({ limits: '2/1m', name: 'other', store }))
    expect(() => sluice(steered({ limits: '2/1m', store }))).toThrow(
      'name: expected a name or a keyPrefix of its own for each set of limits in one store, got "default"',
    )
    const byDay = { name: 'day', algorithm: 'quota', limits: '10/day' } as const
    const byPlan = { name: 'plan', by: 'header:x-key', plan: 'header:x-plan', default_plan: 'free' } as const
    sluice(steered({ policies: [byDay, { ...byPlan, limits: { free: '1/1s', pro: '9/1s' } }], store }))
    for (const policy of [
      { ...byDay, time_zone: 'Asia/Tokyo' },
      { ...byPlan, limits: { free: '1/1s', pro: '5/1s' } },
    ]) {
      expect(() => sluice(steered({ policies: [policy], store }))).toThrow('a name or a keyPrefix of its own')
    }
  })
})
