/** The middleware for all that takes a `Request` and gives a `Response`, on workerd and on Node alike. */
import { describe, expect, expectTypeOf, test } from 'vitest'
import { type LimitOptions, limit, OptionError, readRateLimit } from '../../../src/fetch.ts'

const NOW_MS = 1_700_000_000_000
const QUIET = { now: () => NOW_MS, log: () => {} }

const from = (caller: string, init?: RequestInit) =>
  new Request('https://app.example/', { ...init, headers: { Authorization: `Bearer ${caller}` } }) as Request

async function statuses(handler: (request: Request) => Promise<Response>, requests: readonly Request[]) {
  const seen: number[] = []
  for (const request of requests) seen.push((await handler(request)).status)
  return seen
}

test('limit() lets through what fits, for each caller, and tells of the limits', async () => {
  const limited = limit(() => new Response('ok'), { ...QUIET, limits: '10/1h' })
  const requests = Array.from({ length: 25 }, () => from('X'))
  expect((await statuses(limited, requests)).filter((status) => status === 200)).toHaveLength(10)
  const [refused, admitted] = [await limited(from('X')), await limited(from('Y'))]
  expect([refused.status, refused.headers.get('Retry-After'), refused.headers.get('Content-Type')]).toEqual([
    429,
    '3600',
    'application/problem+json',
  ])
  expect([admitted.status, admitted.headers.get('RateLimit')]).toEqual([200, '"default-1h";r=9;t=3600'])
})

test('limit() passes on what the platform gives beside a request, to the handler and to all functions', async () => {
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
    (request: Request, env: { readonly key: string }, count: number) => Promise<Response>
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

test('a refusal of the app gets what it lacks, and keeps what it has', async () => {
  const limited = limit(() => new Response(null), {
    ...QUIET,
    limits: '1/1h',
    onLimited: () => new Response('wait', { status: 503, headers: { 'Retry-After': '1' } }),
  })
  await limited(from('X'))
  const { status, headers } = await limited(from('X'))
  expect([status, headers.get('Retry-After'), headers.get('Cache-Control')]).toEqual([503, '1', 'no-store'])
  expect(headers.get('RateLimit')).toBe('"default-1h";r=0;t=3600')
})

test('fields are added to a response whose own are closed', async () => {
  const limited = limit(() => Response.redirect('https://api.example/') as Response, { ...QUIET, limits: '1/1h' })
  const { status, headers } = await limited(from('X'))
  expect([status, headers.get('Location'), headers.get('RateLimit')]).toEqual([
    302,
    'https://api.example/',
    '"default-1h";r=0;t=3600',
  ])
})

test('a response that the app gives to all collects the fields of none', async () => {
  const gone = new Response(null, { status: 204 })
  const handle = limit(() => gone, { limits: '10/1h', trustProxy: () => '203.0.113.7' })
  for (let left = 9; left > 6; left--) {
    const { status, headers } = await handle(new Request('http://localhost/'))
    expect([status, headers.get('RateLimit')]).toEqual([204, expect.stringContaining(`;r=${left};`)])
    expect(headers.get('RateLimit')).not.toContain(',')
  }
  expect([...gone.headers]).toEqual([])
})

test('a path that another policy may mean is refused, and a handler whose answer is no response throws', async () => {
  const policies = [{ name: 'login', limits: '1/1m', match: '* /login' }]
  const handler = (() => undefined) as unknown as () => Response
  const limited = limit(handler, { ...QUIET, limits: '5/1h', policies })
  expect((await limited(new Request('https://app.example/%C0%AE%C0%AE/login') as Request)).status).toBe(400)
  await expect(limited(from('X'))).rejects.toThrow('expected the handler to return a Response, got undefined')
})

test('a body that a policy counts by is left to the handler; one that was read before is ambiguous', async () => {
  const limited = limit(async (request) => new Response(await request.text()), {
    ...QUIET,
    policies: [{ name: 'users', limits: '1/1h', by: 'json:/user' }],
  })
  const post = () =>
    new Request('https://app.example/', {
      method: 'POST',
      body: '{"user":"a"}',
      headers: { 'Content-Type': 'application/json' },
    }) as Request
  const [first, second] = [await limited(post()), await limited(post())]
  expect([first.status, await first.text(), second.status]).toEqual([200, '{"user":"a"}', 429])
  const read = post()
  await read.text()
  expect((await limited(read)).status).toBe(401)
})

describe('slots', () => {
  const policies = [{ name: 'slots', limits: '1', algorithm: 'concurrency', slot_ttl: '1h' }] as const
  const open = () => new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(9)) })

  test('are given back when the body has been read, or is no longer wanted, or none came', async () => {
    const answers: (() => Response)[] = [
      () => new Response('short'),
      () => new Response(open()) as Response,
      () => new Response(null, { status: 204 }),
      () => {
        throw new Error('of the handler')
      },
      () => new Response('last'),
    ]
    const limited = limit(() => (answers.shift() as () => Response)(), { ...QUIET, policies })
    const first = await limited(from('X'))
    expect((await limited(from('X'))).status).toBe(429)
    expect(await first.text()).toBe('short')
    const peek = async () => (await limited(from('X'))).status
    let second: Response | undefined
    await expect
      .poll(async () => {
        second = await limited(from('X'))
        return second.status
      })
      .toBe(200)
    expect(await peek()).toBe(429)
    await second?.body?.cancel()
    await expect.poll(peek).toBe(204)
    await expect.poll(() => peek().catch((error: Error) => error.message)).toBe('of the handler')
    await expect.poll(peek).toBe(200)
  })

  test('are given back by work that the platform waits for, wherever it offers that', async () => {
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
})

test('a handler that throws has failed, and that is no failure of what comes after it', async () => {
  const lines: unknown[] = []
  const limited = limit(() => Promise.reject(new RangeError('of the app')), {
    now: () => NOW_MS,
    log: (...line) => lines.push(line),
    policies: [
      { name: 'slots', limits: '1', algorithm: 'concurrency' },
      { name: 'faults', limits: '2/1m', counts: 'failures', failures: '5xx' },
    ],
  })
  for (let sent = 0; sent < 2; sent++) await expect(limited(from('X'))).rejects.toThrow('of the app')
  expect((await limited(from('X'))).status).toBe(429)
  expect(lines).toEqual([])
})

test('limit() without a handler or options is refused in one line', () => {
  expect(() => limit(() => new Response(), undefined as never)).toThrow('options: expected an object, got nothing')
  expect(() => limit(undefined as never, { limits: '1/1s' })).toThrow('handler: expected a function, got nothing')
})

test('failures are charged when the response says so, and a cost that it tells is made up', async () => {
  const limited = limit(
    (request) => new Response(null, { status: request.method === 'PUT' ? 401 : 200, headers: { 'X-Cost': '60' } }),
    {
      ...QUIET,
      policies: [
        { name: 'guesses', limits: '1/1m', counts: 'failures', failures: '401' },
        { name: 'day', limits: '100/1d', algorithm: 'quota', actual_cost: 'header:x-cost', cost: 10 },
      ],
    },
  )
  const seen: unknown[] = []
  for (const method of ['GET', 'PUT', 'GET']) {
    const { status, headers } = await limited(from('X', { method }))
    seen.push([
      status,
      headers
        .get('RateLimit')
        ?.match(/(?<=;r=)\d+/g)
        ?.join(),
    ])
  }
  expect(seen).toEqual([
    [200, '90,1'],
    [401, '30,0'],
    [429, '0,0'],
  ])
})

test.each<[string, () => unknown]>([
  ['handler', () => limit({ limits: '1/1s' } as never, {} as never)],
  ['waitUntil', () => limit(() => new Response(), { limits: '1/1s', waitUntil: {} as never })],
  ['limits', () => limit(() => new Response(), { limits: 'many' })],
  ['limit', () => limit(() => new Response(), { limit: '1/1s' } as never)],
])('a wrong %s is refused with its name', (name, make) => {
  expect(make).toThrow(OptionError)
  expect(make).toThrow(name)
})
