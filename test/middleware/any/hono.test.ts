/** What only an app of Hono has: routes of its own, what stands around the middleware, and bodies that were read before. */
import { Hono } from 'hono'
import { describe, expect, test } from 'vitest'
import { type RateLimit, type RateLimitVariables, type SluiceOptions, sluice } from '../../../src/hono.ts'
import { X } from '../matrix/adapter.ts'

type App = Hono<{ Variables: RateLimitVariables }>

const steered = (options: SluiceOptions): SluiceOptions => ({ now: () => 1_700_000_000_000, log: () => {}, ...options })

test('sluice() limits an app, a route or a handler, and each adds its headers', async () => {
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

test('the decision can be read by what stands around the middleware', async () => {
  const app: App = new Hono()
  const seen: RateLimit['outcome'][] = []
  app.use(async (c, next) => {
    await next()
    seen.push(c.get('rateLimit').outcome)
  })
  app.use(sluice(steered({ limits: '1/1m' })))
  app.get('/', (c) => c.text('ok'))
  for (const status of [200, 429]) expect((await app.request('/', X)).status).toBe(status)
  expect(seen).toEqual(['admitted', 'limited'])
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

test('a form that was read before the middleware is counted by a field of it, and read again by the app', async () => {
  const app: App = new Hono()
  app.use(async (c, next) => {
    await c.req.parseBody()
    await next()
  })
  app.use(sluice(steered({ limits: '1/1m', by: 'form:user' })))
  app.post('/', async (c) => c.json(await c.req.parseBody()))
  const headers = { 'Content-Type': 'application/x-www-form-urlencoded' }
  const post = (body: string) => app.request('/', { method: 'POST', body, headers })
  expect(await (await post('user=ada&n=1')).json()).toEqual({ user: 'ada', n: '1' })
  expect([(await post('user=ada&n=2')).status, (await post('user=bob')).status]).toEqual([429, 200])
})

test('a refusal has the headers that the app has set before', async () => {
  const app: App = new Hono()
  app.use(async (c, next) => {
    c.header('X-App', 'yes')
    await next()
  })
  app.use(sluice(steered({ limits: '1/1h' })))
  app.get('/', (c) => c.text('hello'))
  await app.request('/', X)
  const { status, headers } = await app.request('/', X)
  expect([status, headers.get('X-App'), headers.get('Retry-After')]).toEqual([429, 'yes', '3600'])
  expect(headers.get('Content-Type')).toBe('application/problem+json')
  expect(headers.get('RateLimit')).toBe('"default-1h";r=0;t=3600')
})

describe('sluice() refuses what is no table of options:', () => {
  test.each([
    [undefined, 'options: expected an object, got nothing'],
    ['10/1s', 'options: expected an object, got "10/1s"'],
  ])('%j', (options, message) => {
    expect(() => sluice(options as never)).toThrow(message)
  })
})
