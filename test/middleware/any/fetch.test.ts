/** What only `limit()` of fetch has: what a platform gives beside a request, `readRateLimit()` and `waitUntil`. */
import { expect, expectTypeOf, onTestFinished, test, vi } from 'vitest'
import { type CallerCounts, type LimitOptions, limit, OptionError, readRateLimit } from '../../../src/fetch.ts'

const QUIET = { now: () => 1_700_000_000_000, log: () => {} }

const from = (caller: string, init?: RequestInit) =>
  new Request('https://app.example/', { ...init, headers: { Authorization: `Bearer ${caller}` } }) as Request

test('limit() passes on what the platform gives alongside a request, to the handler and to all functions', async () => {
  const seen: unknown[] = []
  const note = (name: string, ...args: unknown[]) => seen.push([name, ...args])
  const handler = (request: Request, env: { readonly key: string }, count: number) => {
    note('handler', env, count)
    return new Response(request.url)
  }
  const limited = limit(handler, {
    ...QUIET,
    limits: '1/1h',
    identify: (_, { key }, count) => `${key}${count}`,
    cost(_, env, count) {
      note('cost', env, count)
      return 1
    },
    skip(_, env, count) {
      note('skip', env, count)
      return false
    },
    onLimited(request, { outcome }, env, count) {
      note('onLimited', outcome, env, count)
      return new Response(request.url, { status: 429 })
    },
  })
  expectTypeOf(limited).toEqualTypeOf<
    ((request: Request, env: { readonly key: string }, count: number) => Promise<Response>) & CallerCounts
  >()
  // Deno passes no more than a handler names.
  expect(limited).toHaveLength(2)
  const env = { key: 'a' }
  const answers = [await limited(from('X'), env, 1), await limited(from('X'), env, 1), await limited(from('X'), env, 2)]
  expect(answers.map(({ status }) => status)).toEqual([200, 429, 200])
  expect(seen.slice(0, 6)).toEqual([
    ['skip', env, 1],
    ['cost', env, 1],
    ['handler', env, 1],
    ['skip', env, 1],
    ['cost', env, 1],
    ['onLimited', 'limited', env, 1],
  ])
})

test('readRateLimit() gives a handler the decision about its request', async () => {
  const limited = limit((request) => Response.json(readRateLimit(request)?.limits.map(({ remaining }) => remaining)), {
    ...QUIET,
    limits: '2/1h',
    skip: (request) => request.method === 'OPTIONS',
  })
  expect(await (await limited(from('X'))).json()).toEqual([1])
  expect(await (await limited(from('X'))).json()).toEqual([0])
  const refused = from('X')
  await limited(refused)
  expect(readRateLimit(refused)).toMatchObject({ outcome: 'limited', retryAfterMs: 3_600_000 })
  expect(await (await limited(from('X', { method: 'OPTIONS' }))).json()).toEqual([])
  expect(readRateLimit(from('X'))).toBeUndefined()
})

test('a handler whose answer is no response throws', async () => {
  const limited = limit((() => undefined) as unknown as () => Response, { ...QUIET, limits: '5/1h' })
  await expect(limited(from('X'))).rejects.toThrow('expected the handler to return a Response, got undefined')
})

test('a body that was read before is ambiguous', async () => {
  const policies = [{ name: 'users', limits: '1/1h', by: 'json:/user' }]
  const limited = limit(() => new Response(), { ...QUIET, policies })
  const headers = { 'Content-Type': 'application/json' }
  const read = new Request('https://app.example/', { method: 'POST', body: '{"user":"a"}', headers }) as Request
  await read.text()
  expect((await limited(read)).status).toBe(401)
})

test('slots are given back by work that the platform waits for, wherever it offers that', async () => {
  const policies = [{ name: 'slots', limits: '1', algorithm: 'concurrency', slot_ttl: '1h' }] as const
  const works: Promise<unknown>[] = []
  const ctx = { waitUntil: (work: Promise<unknown>) => works.push(work) }
  const handler = (_request: Request, _env: unknown, _ctx: unknown) => new Response('ok')
  await (await limit(handler, { ...QUIET, policies })(from('X'), { waitUntil: 1 }, ctx)).text()
  expect(works).not.toHaveLength(0)

  works.length = 0
  const given: unknown[] = []
  const waitUntil: LimitOptions<Request, [unknown, unknown]>['waitUntil'] = (work, _request, _env, ctx) => {
    works.push(work)
    given.push(ctx)
  }
  await (await limit(handler, { ...QUIET, policies, waitUntil })(from('X'), null, 'b')).text()
  expect(works).not.toHaveLength(0)
  expect(new Set(given)).toEqual(new Set(['b']))
  await Promise.all(works)
})

test.each<[string, () => unknown]>([
  ['options: expected an object, got nothing', () => limit(() => new Response(), undefined as never)],
  ['handler: expected a function, got nothing', () => limit(undefined as never, { limits: '1/1s' })],
  ['handler', () => limit({ limits: '1/1s' } as never, {} as never)],
  ['waitUntil', () => limit(() => new Response(), { limits: '1/1s', waitUntil: {} as never })],
  ['limits', () => limit(() => new Response(), { limits: 'many' as string })],
])('limit() refuses with: %s', (message, make) => {
  expect(make).toThrow(OptionError)
  expect(make).toThrow(message)
})

test.each([
  ['read', (response: Response) => response.text()],
  ['locked', (response: Response) => response.body?.getReader()],
])('limit() fails for a body that is %s, which would never end, and frees the slot', async (_, spoil) => {
  let isSpoilt = true
  const handler = async () => {
    const response = new Response('hello')
    if (isSpoilt) await spoil(response as Response)
    return response
  }
  const policies = [{ name: 'slots', limits: '1', algorithm: 'concurrency', slot_ttl: '1h' }] as const
  const limited = limit(handler as () => Promise<Response>, { ...QUIET, policies })
  await expect(limited(from('X'))).rejects.toThrow('the body of the response has been read already')
  isSpoilt = false
  await expect.poll(async () => (await limited(from('X'))).status).toBe(200)
})

test('limit() says that an address is not known, but nothing of X-Forwarded-For on Workers, where Cloudflare sets it', async () => {
  const events: string[] = []
  const log: LimitOptions['log'] = (_, { event }) => event !== 'in_memory_store' && events.push(event)
  const limited = limit(() => new Response(), { limits: '9/1h', by: 'ip', log })
  const headers = { 'X-Forwarded-For': '192.0.2.1', 'CF-Connecting-IP': '192.0.2.1' }
  for (let call = 0; call < 2; call++) await limited(new Request('https://app.example/', { headers }))
  expect(events).toEqual(navigator.userAgent === 'Cloudflare-Workers' ? [] : ['unknown_address'])
})

test('limit() knows an address by X-Forwarded-For if it trusts a proxy, even where nothing tells that of the connection', async () => {
  const events: string[] = []
  const log: LimitOptions['log'] = (_, { event }) => event !== 'in_memory_store' && events.push(event)
  const limited = limit(() => new Response(), { limits: '9/1h', by: 'ip', log, trustProxy: 1 })
  await limited(new Request('https://app.example/', { headers: { 'X-Forwarded-For': '192.0.2.1' } }))
  expect(events).toEqual([])
})

const SLOTS = { name: 'slots', limits: '1', algorithm: 'concurrency', slot_ttl: '1h' } as const

test('limit() delays each request by what its caller has used, exactly', async () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const handled: string[] = []
  const limited = limit(
    (request) => {
      handled.push(request.headers.get('Authorization') ?? '')
      return new Response()
    },
    { ...QUIET, limits: '4/1h', delay: ([{ limit, remaining }]) => 500 * Math.max(0, limit - remaining - 2) },
  )
  const waitFor = async (...callers: string[]) => {
    const answers = callers.map((caller) => limited(from(caller)))
    const counts: number[] = []
    // 0, 499, 500, 999 and 1,000 ms after the requests.
    for (const passedMs of [0, 499, 1, 499, 1]) {
      await vi.advanceTimersByTimeAsync(passedMs)
      counts.push(handled.splice(0).length)
    }
    return [counts, (await Promise.all(answers)).map(({ status }) => status)]
  }
  expect(await waitFor('X', 'X', 'X', 'Y', 'X', 'X')).toEqual([
    [3, 0, 1, 0, 1],
    [200, 200, 200, 200, 200, 429],
  ])
})

test('limit() does not handle a delayed request whose client has gone, and returns its slot at once', async () => {
  let handled = 0
  const limited = limit(
    () => {
      handled++
      return new Response()
    },
    { ...QUIET, policies: [SLOTS], delay: (_, request) => (request.signal.aborted || request.body ? 3_600_000 : 0) },
  )
  const gone = new AbortController()
  const leaving = limited(from('X', { method: 'POST', body: 'slow', signal: gone.signal }))
  expect((await limited(from('X'))).status).toBe(429)
  gone.abort()
  expect((await leaving).status).toBe(499)
  expect((await limited(from('X'))).status).toBe(200)
  expect(handled).toBe(1)
})
