import { describe, expect, test } from 'vitest'
import { createLimiter } from '../../../src/index.ts'
import { OutboundError, type OutboundOptions, outbound } from '../../../src/outbound.ts'
import { FixedWindow } from '../../support/outbound/server-limits.ts'
import { settled, VirtualClock } from '../../support/virtual-clock.ts'

const THINGS = 'https://api.example/things'

interface Arrival {
  readonly ms: number
  readonly method: string
  readonly path: string
  readonly body: string
}

interface Reply extends ResponseInit {
  /** 10 if left out. */
  readonly answerMs?: number
  readonly body?: string
}

/** A server that answers as it is told. */
function site(answer: (count: number, path: string) => Reply, options: OutboundOptions = {}) {
  const clock = (options.clock as VirtualClock | undefined) ?? new VirtualClock()
  const startMs = clock.now()
  const arrivals: Arrival[] = []
  const travel = async (input: RequestInfo | URL, init?: RequestInit) => {
    const request = new Request(input, init)
    const path = new URL(request.url).pathname
    const ms = clock.now() - startMs
    const { answerMs = 10, body, ...made } = answer(arrivals.push({ ms, method: request.method, path, body: '' }), path)
    const arrival = arrivals.at(-1) as { body: string }
    if (request.body) arrival.body = await request.text()
    await clock.sleep(answerMs)
    return new Response(body ?? null, made)
  }
  const call = outbound(travel as typeof fetch, { clock, random: () => 0, ...options })
  return { clock, arrivals, call, times: () => arrivals.map(({ ms }) => ms) }
}

const OK = { status: 200 }
const NEVER = Number.POSITIVE_INFINITY

function refused(fields: Record<string, string> = {}, status = 429) {
  return { status, headers: fields }
}

function repeat<T>(count: number, make: () => T): T[] {
  return Array.from({ length: count }, make)
}

function readOutcome(work: Promise<unknown>): Promise<unknown> {
  return work.catch((error: unknown) => error)
}

describe('limits of its own', () => {
  test.each([50, 2_000, 10_000])('are used at once, whether answers take %i ms or less', async (answerMs) => {
    const { clock, call, times } = site(() => ({ ...OK, answerMs }), { limits: '300/1m', maxWaitMs: NEVER })
    const calls = Promise.all(repeat(600, () => call(THINGS)))
    await clock.advance(30_000)
    expect(times()).toHaveLength(300)
    await clock.finish(calls)
    expect(times().slice(300)).toEqual(repeat(300, () => 60_000))
  })

  test('hold whatever the server reports', async () => {
    const headers = { 'RateLimit-Policy': '"a";q=100;w=1' }
    const { clock, call, times } = site(() => ({ headers }), { limits: '1/3s' })
    await clock.finish(Promise.all(repeat(3, () => call(THINGS))))
    expect(times()).toEqual([0, 3_000, 6_000])
  })

  test('are charged to the resource', async () => {
    const clock = new VirtualClock()
    const limiter = createLimiter({ limits: '1/3s', now: () => clock.now() })
    const { call, times } = site(() => OK, { clock, limiter, resource: ({ url }) => url.pathname })
    await clock.finish(Promise.all([call(THINGS), call(THINGS), call('https://api.example/others')]))
    expect(times()).toEqual([0, 0, 3_000])
  })
})

describe('of an unknown server', () => {
  test('one call goes first, then as many as it answers', async () => {
    const { clock, call, times } = site(() => OK)
    await clock.finish(Promise.all(repeat(8, () => call(THINGS))))
    expect(times()).toEqual([0, 10, 20, 20, 30, 30, 30, 40])
  })

  test('a call without an answer holds up the others for a second', async () => {
    const { clock, call, times } = site((count) => (count === 1 ? { answerMs: NEVER } : OK))
    void call(THINGS)
    await clock.finish(Promise.all(repeat(3, () => call(THINGS))))
    expect(times()).toEqual([0, 1_000, 1_010, 1_010])
  })

  test('a call that fails holds up nobody, and is the cause if others run out of time', async () => {
    const clock = new VirtualClock()
    const travel = async (input: RequestInfo | URL) => {
      if (`${input}`.endsWith('hang')) await clock.sleep(NEVER)
      throw new TypeError('connection refused')
    }
    const call = outbound(travel as typeof fetch, { clock, maxWaitMs: 500 })
    expect(await readOutcome(call(THINGS))).toEqual(new TypeError('connection refused'))
    void call(`${THINGS}/hang`)
    const late = await clock.finish(readOutcome(call(THINGS)))
    expect(late).toMatchObject({ code: 'WAIT_TOO_LONG', cause: new TypeError('connection refused') })
    expect(String(late)).toContain('the last call failed')
  })
})

describe('a refusal', () => {
  test('stops all calls for as long as it says, and a little more at random', async () => {
    const { clock, call, times } = site((count) => (count === 1 ? refused({ 'Retry-After': '3' }) : OK), {
      random: () => 0.5,
    })
    await clock.finish(Promise.all(repeat(3, () => call(THINGS))))
    expect(times()[1]).toBe(10 + 3_000 + 150)
    expect(times()).toHaveLength(4)
  })

  test.each([0, 1_000, 3_000, 6_000])('that takes %i ms to come stops calls from then on', async (answerMs) => {
    const answer = (count: number) => (count === 1 ? { ...refused({ 'Retry-After': '5' }), answerMs } : OK)
    const { clock, call, times } = site(answer, { retry: { attempts: 1 } })
    await clock.finish(call(THINGS))
    await clock.finish(call(THINGS))
    expect(times()).toEqual([0, answerMs + 5_000])
  })

  test.each([413, 418, 420, 430, 500, 502, 504, 509, 529])(
    'that asks for a pause with %i stops all calls, and is handed on',
    async (status) => {
      const { clock, call, times } = site((count) => (count === 1 ? refused({ 'Retry-After': '5' }, status) : OK))
      expect((await clock.finish(call(THINGS))).status).toBe(status)
      await clock.finish(call(THINGS))
      expect(times()).toEqual([0, 5_010])
    },
  )

  test('that names no time stops calls for pauseMs, and longer in a row', async () => {
    const { clock, call, times } = site((count) => (count <= 2 ? refused() : OK), {
      pauseMs: 30_000,
      maxWaitMs: NEVER,
    })
    await clock.finish(call(THINGS))
    expect(times()).toEqual([0, 30_010, 90_020])
  })

  test('by chance is forgotten as fast as calls succeed', async () => {
    const { clock, call, times } = site((count) => (count === 4 ? refused({ 'Retry-After': '1' }) : OK), {
      maxWaitMs: NEVER,
    })
    const work = async () => {
      for (;;) await call(THINGS)
    }
    for (let worker = 0; worker < 20; worker++) void work()
    await clock.advance(12_000)
    expect(times().filter((ms) => ms > 10_000).length).toBeGreaterThan(200)
  })

  test('does not stop those of another resource', async () => {
    const { clock, call, times } = site((count) => (count === 1 ? refused({ 'Retry-After': '3' }) : OK), {
      retry: { attempts: 1 },
    })
    await clock.finish(call(THINGS))
    await clock.finish(call('https://other.example/'))
    expect(times()).toEqual([0, 10])
  })

  test('does not make calls wait for one that was under way before', async () => {
    const answer = (count: number) => {
      if (count === 1) return { ...OK, answerMs: NEVER }
      return count === 3 ? refused({ 'Retry-After': '1' }) : OK
    }
    const { clock, call, times } = site(answer, { limits: '100/1s', maxWaitMs: NEVER })
    void call(THINGS)
    await clock.finish(Promise.all(repeat(6, () => call(THINGS))))
    // Six at once, one of them refused: it is repeated after its pause.
    expect(times().slice(0, 7)).toEqual(repeat(7, () => 0))
    expect(times()[7]).toBeLessThan(1_100)
  })

  test('leaves more than half of the calls that a limiter allows, though half take ten seconds', async () => {
    const { clock, call, arrivals } = site(
      (count) => (count % 25 === 0 ? refused({ 'Retry-After': '1' }) : { ...OK, answerMs: count % 2 ? 10_000 : 10 }),
      { limits: '3/1s', maxWaitMs: NEVER },
    )
    void Promise.all(repeat(400, () => call(THINGS)))
    await clock.advance(100_000)
    expect(arrivals.length).toBeGreaterThan(160)
  })

  test('that names no time is followed by pauses that double, from a second on', async () => {
    const { clock, call, times } = site((count) => (count <= 4 ? refused() : OK), { retry: { attempts: 5 } })
    await clock.finish(call(THINGS))
    const gaps = times().map((ms, index, all) => ms - (all[index - 1] ?? 0))
    expect(gaps).toEqual([0, 1_010, 2_010, 4_010, 8_010])
  })

  test.each(['0', 'Sun, 22 Nov 2020 12:00:10 GMT'])('whose time is over (%s) is followed by a second', async (text) => {
    const { clock, call, times } = site((count) => (count === 1 ? refused({ 'Retry-After': text }) : OK))
    await clock.finish(call(THINGS))
    expect(times()).toEqual([0, 1_010])
  })

  test('of several that were under way together counts once', async () => {
    const { clock, call, times } = site((count) => (count <= 3 ? refused() : OK), {
      limits: '100/1s',
      retry: { attempts: 1 },
    })
    await clock.finish(Promise.all(repeat(3, () => call(THINGS))))
    await clock.finish(call(THINGS))
    expect(times()).toEqual([0, 0, 0, 1_010])
  })

  test('without Retry-After lasts until the reset of what is used up', async () => {
    const fields = { 'X-RateLimit-Limit': '9', 'X-RateLimit-Remaining': '0', 'X-RateLimit-Reset': '7' }
    const { clock, call, times } = site((count) => (count === 1 ? refused(fields) : OK))
    await clock.finish(call(THINGS))
    expect(times()).toEqual([0, 7_060])
  })

  test.each([
    ['403 with Retry-After', 403, { 'Retry-After': '2' }, 2],
    [
      '403 with nothing remaining',
      403,
      { 'X-RateLimit-Remaining': '0', 'X-RateLimit-Limit': '9', 'X-RateLimit-Reset': '2' },
      2,
    ],
    [
      '403 with some remaining',
      403,
      { 'X-RateLimit-Remaining': '5', 'X-RateLimit-Limit': '9', 'X-RateLimit-Reset': '2' },
      1,
    ],
    ['503 with Retry-After', 503, { 'Retry-After': '2' }, 2],
    ['503 without', 503, {}, 1],
    ['418 with Retry-After, which is not repeated', 418, { 'Retry-After': '2' }, 1],
  ])('is recognized by status and headers: %s', async (_, status, fields, calls) => {
    const { clock, call, times } = site((count) => (count === 1 ? refused(fields, status) : OK))
    await clock.finish(call(THINGS))
    expect(times()).toHaveLength(calls)
  })

  test('of a broken endpoint is not one: the others go on', async () => {
    const answer = (_: number, path: string) => (path === '/broken' ? refused({}, 503) : OK)
    const { clock, call, times } = site(answer, { limits: '100/1s' })
    await clock.finish(Promise.all([...repeat(5, () => call('https://api.example/broken')), call(THINGS)]))
    expect(times()).toEqual(repeat(6, () => 0))
  })

  test('may be recognized by isRefusal, also from a body, which the caller can still read', async () => {
    const { clock, call, times } = site((count) => ({ body: count === 1 ? 'THROTTLED' : 'data' }), {
      retry: { isRefusal: async (response) => (await response.text()) === 'THROTTLED' },
      readLimits: async (response) => [{ limit: (await response.text()).length }],
    })
    expect(await (await clock.finish(call(THINGS))).text()).toBe('data')
    expect(times()).toEqual([0, 1_010])
  })

  test('is handed on where repeating it would take too long, and the error of others says so', async () => {
    const { clock, call, times } = site(() => refused({ 'Retry-After': '30' }), { maxWaitMs: 20_000 })
    expect((await clock.finish(call(THINGS))).status).toBe(429)
    const late = readOutcome(call(THINGS))
    await settled()
    expect(await late).toMatchObject({ code: 'WAIT_TOO_LONG', retryAfterMs: 30_000 })
    expect(String(await late)).toContain('not for another 30000 ms; the server last refused with 429')
    expect(times()).toEqual([0])
  })

  test('that stops calls for longer than maxPauseMs is probed', async () => {
    const { clock, call, times } = site((count) => (count === 1 ? refused({ 'Retry-After': '999999' }) : OK), {
      maxPauseMs: 5_000,
    })
    await clock.finish(call(THINGS))
    expect(times()[1]).toBeLessThan(5_100)
  })

  test.each([undefined, 'https://api.example'])('is over after resume(%s)', async (resource) => {
    const { clock, call, times } = site((count) => (count === 1 ? refused({ 'Retry-After': '99' }) : OK), {
      retry: { attempts: 1 },
    })
    await clock.finish(call(THINGS))
    call.resume('https://other.example')
    expect(await readOutcome(call(THINGS))).toBeInstanceOf(OutboundError)
    call.resume(resource)
    await clock.finish(call(THINGS))
    expect(times()).toEqual([0, 10])
  })
})

test('concurrency bounds the calls under way', async () => {
  const { clock, call, times } = site(() => ({ answerMs: 100 }), { limits: '99/1s', concurrency: 2 })
  await clock.finish(Promise.all(repeat(5, () => call(THINGS))))
  expect(times()).toEqual([0, 0, 100, 100, 200])
})

test('the more important calls go first, and all wait as long as they may', async () => {
  const { clock, call, arrivals } = site(() => OK, {
    limits: '1/1s',
    priority: ({ url }) => (url.pathname === '/urgent' ? 'critical' : 'default'),
    maxWaitMs: ({ url }) => (url.pathname === '/short' ? 500 : NEVER),
  })
  const calls = ['first', 'second', 'urgent', 'short'].map((path) => readOutcome(call(`https://api.example/${path}`)))
  const outcomes = await clock.finish(Promise.all(calls))
  expect(arrivals.map(({ path }) => path)).toEqual(['/first', '/urgent', '/second'])
  expect(outcomes[3]).toMatchObject({ code: 'WAIT_TOO_LONG' })
})

describe('a refused call is repeated', () => {
  test('for idempotent methods, as often as configured', async () => {
    const { clock, call, arrivals } = site(() => refused({ 'Retry-After': '1' }))
    for (const method of ['GET', 'PUT', 'DELETE', 'POST', 'PATCH']) {
      const response = await clock.finish(call(THINGS, { method, ...(method === 'PUT' && { body: 'text' }) }))
      expect(response.status).toBe(429)
    }
    const counts = Object.groupBy(arrivals, ({ method }) => method)
    expect(Object.entries(counts).map(([method, made]) => [method, made?.length])).toEqual([
      ['GET', 3],
      ['PUT', 3],
      ['DELETE', 3],
      ['POST', 1],
      ['PATCH', 1],
    ])
  })

  test('for others if they are named, or if the call has an Idempotency-Key', async () => {
    const { clock, call, arrivals } = site(() => refused(), { retry: { methods: ['patch'], attempts: 2 } })
    await clock.finish(call(THINGS, { method: 'PATCH', body: 'text' }))
    await clock.finish(call(THINGS, { method: 'POST', body: 'text', headers: { 'Idempotency-Key': 'k' } }))
    await clock.finish(call(THINGS))
    expect(arrivals.map(({ method, body }) => `${method} ${body}`)).toEqual([
      ...['PATCH text', 'PATCH text', 'POST text', 'POST text', 'GET '],
    ])
  })

  test('with the body of its request, but not with a stream', async () => {
    const { clock, call, arrivals } = site((count) => (count === 1 || count === 3 ? refused() : OK))
    await clock.finish(call(new Request(THINGS, { method: 'PUT', body: 'text' })))
    const stream = new Blob(['text']).stream()
    await clock.finish(call(THINGS, { method: 'PUT', body: stream, duplex: 'half' } as RequestInit))
    expect(arrivals.map(({ body }) => body)).toEqual(['text', 'text', 'text'])
  })

  test('after its connection is free, and though its body has broken off', async () => {
    const clock = new VirtualClock()
    let cancelled = 0
    const bodies = [
      () => new ReadableStream({ pull: (controller) => controller.error(new TypeError('terminated')) }),
      () => new ReadableStream({ cancel: () => Promise.reject(new TypeError('terminated')) }),
      () => new ReadableStream({ cancel: () => void cancelled++ }),
    ]
    const travel = async () => {
      const body = bodies.shift()
      return body ? new Response(body(), { status: 429 }) : new Response('done')
    }
    const call = outbound(travel as typeof fetch, { clock, retry: { attempts: 5 } })
    const response = await clock.finish(call(THINGS))
    expect([await response.text(), cancelled]).toEqual(['done', 1])
  })
})

describe('what the server reports', () => {
  test.each([0, 1_000, 4_000])(
    'after a restart with %i used, nobody else has used: the next hour is all its own',
    async (used) => {
      const [clock, hourMs] = [new VirtualClock(), 3_600_000]
      const window = new FixedWindow(5_000, hourMs, clock.now() - 3_000_000)
      if (used > 0) window.take(clock.now() - 1, used)
      let refusals = 0
      const travel = async () => {
        await clock.sleep(20)
        const isRefused = window.findFreeMs(clock.now(), 1) > clock.now()
        if (isRefused) refusals++
        else window.take(clock.now(), 1)
        const headers = {
          'X-RateLimit-Limit': '5000',
          'X-RateLimit-Remaining': `${window.countRemaining(clock.now())}`,
          'X-RateLimit-Reset': `${Math.ceil((clock.now() + window.findResetMs(clock.now())) / 1_000)}`,
        }
        return new Response(null, { status: isRefused ? 403 : 200, headers })
      }
      const call = outbound(travel as typeof fetch, { clock, random: () => 0 })
      await clock.finish(Promise.all(repeat(400, () => call(THINGS))))
      await clock.advance(700_000)
      let done = 0
      const work = async () => {
        for (let count = 0; count < 91; count++) if ((await readOutcome(call(THINGS))) instanceof Response) done++
      }
      await clock.finish(Promise.all(repeat(50, work)))
      expect([done, refusals]).toEqual([4_550, 0])
    },
  )

  test('is used to the last unit, and then waited for', async () => {
    let used = 0
    const answer = () => ({
      headers: {
        'X-RateLimit-Limit': '5',
        'X-RateLimit-Remaining': String(5 - (used++ % 5) - 1),
        'X-RateLimit-Reset': '9',
      },
    })
    const { clock, call, times } = site(answer)
    await clock.finish(Promise.all(repeat(6, () => call(THINGS))))
    expect(times().filter((ms) => ms < 9_000)).toHaveLength(5)
    expect(times()[5]).toBeLessThan(10_000)
  })

  test('holds calls back by what others have used', async () => {
    const headers = { 'RateLimit-Policy': '"a";q=5;w=10', RateLimit: '"a";r=1;t=4' }
    const { clock, call, times } = site((count) => (count === 1 ? { headers } : OK))
    await clock.finish(Promise.all(repeat(3, () => call(THINGS))))
    expect(times().slice(0, 2)).toEqual([0, 10])
    expect(times()[2]).toBeGreaterThanOrEqual(4_000)
  })

  test('of several limits in one triple of headers, each is known by its number', async () => {
    const limits = [
      { limit: '10', remaining: '0', reset: '1' },
      { limit: '100', remaining: '0', reset: '30' },
    ]
    const answer = (count: number) => {
      const { limit, remaining, reset } = limits[count - 1] ?? { limit: '10', remaining: '9', reset: '1' }
      return { headers: { 'X-RateLimit-Limit': limit, 'X-RateLimit-Remaining': remaining, 'X-RateLimit-Reset': reset } }
    }
    const { clock, call, times } = site(answer)
    await clock.finish(Promise.all(repeat(3, () => call(THINGS))))
    expect(times().map((ms) => Math.round(ms / 1_000))).toEqual([0, 1, 31])
  })

  test('of what it names does not stop calls to what it names otherwise', async () => {
    const resetS = String((1_700_000_000_000 + 3_600_000) / 1_000)
    const answer = (_: number, path: string) => {
      const [resource, limit, remaining] = path.startsWith('/search') ? ['search', '30', '0'] : ['core', '5000', '4999']
      const headers = { 'X-RateLimit-Limit': limit, 'X-RateLimit-Remaining': remaining, 'X-RateLimit-Reset': resetS }
      return { headers: { ...headers, 'X-RateLimit-Resource': resource } }
    }
    const { clock, call, arrivals } = site(answer)
    await clock.finish(call('https://api.example/search/issues'))
    await clock.finish(call('https://api.example/repos/a'))
    const search = readOutcome(call('https://api.example/search/code'))
    const core = await clock.finish(call('https://api.example/repos/b'))
    expect([core.status, await search]).toEqual([200, expect.objectContaining({ code: 'WAIT_TOO_LONG' })])
    expect(arrivals).toHaveLength(3)
  })

  test('is shared by calls that were under way before the server named what they are for', async () => {
    const answer = (count: number, path: string) => {
      const headers = { 'X-RateLimit-Bucket': 'b', 'X-RateLimit-Limit': '4', 'X-RateLimit-Reset-After': '60' }
      return {
        answerMs: path === '/a' ? 2_500 : 10_000,
        headers: { ...headers, 'X-RateLimit-Remaining': String(4 - count) },
      }
    }
    const { clock, call, times } = site(answer, { maxWaitMs: NEVER })
    void call('https://api.example/a')
    void Promise.all(repeat(9, () => call('https://api.example/a/others')))
    await clock.advance(50_000)
    // When the first is answered, four are on their way.
    expect(times()).toEqual([0, 1_000, 2_000, 2_000])
  })

  test('may be read by readLimits', async () => {
    const { clock, call, times } = site(() => ({ headers: { 'X-Left': '0' } }), {
      readLimits: ({ headers }) => [{ limit: 4, remaining: Number(headers.get('X-Left')), refillPerS: 2 }],
    })
    await clock.finish(Promise.all(repeat(3, () => call(THINGS))))
    // Half a second each, and as much as trips differ.
    expect(times()[2]).toBeGreaterThan(1_000)
    expect(times()[2]).toBeLessThan(1_500)
  })

  test('that all is used up for weeks lets one call through in maxPauseMs', async () => {
    const fields = { 'RateLimit-Policy': '"a";q=1;w=3205440', RateLimit: '"a";r=0;t=3205440' }
    const { clock, call, times } = site(() => ({ headers: fields }), { maxPauseMs: 60_000, maxWaitMs: NEVER })
    await clock.finish(Promise.all(repeat(3, () => call(THINGS))))
    expect(times().map((ms) => Math.round(ms / 60_000))).toEqual([0, 1, 2])
  })

  test('of 16 limits at most is remembered, and of thousands of resources', async () => {
    const left = new Map<string, number>()
    const clock = new VirtualClock()
    const travel = async (input: RequestInfo | URL) => {
      const user = new URL(`${input}`).search
      left.set(user, (left.get(user) ?? 2) - 1)
      const headers = {
        'RateLimit-Policy': '"h";q=2;w=3600',
        RateLimit: `"h";r=${Math.max(0, left.get(user) ?? 0)};t=3600`,
      }
      return new Response(null, { headers })
    }
    const call = outbound(travel as typeof fetch, { clock, maxWaitMs: 0, resource: ({ url }) => url.search })
    for (let round = 0; round < 3; round++) {
      for (let user = 0; user < 1_500; user++) await readOutcome(call(`${THINGS}?${user}`))
    }
    expect(Math.min(...left.values())).toBe(0)
  })
})

describe('a call', () => {
  test('is described to functions', async () => {
    const seen: string[] = []
    const { clock, call } = site(() => OK, {
      resource: ({ url, method, headers }) => {
        seen.push(`${method} ${url.pathname} ${headers.get('x-tenant')}`)
        return 'partner'
      },
      cost: () => 2,
    })
    await clock.finish(call(THINGS, { method: 'POST', headers: { 'x-tenant': 'a' } }))
    await clock.finish(call(new Request(THINGS, { headers: { 'x-tenant': 'b' } })))
    await clock.finish(call(new URL(THINGS)))
    expect(seen).toEqual(['POST /things a', 'GET /things b', 'GET /things null'])
  })

  test('waits no longer than its signal, or that of all calls', async () => {
    const [own, all] = [new AbortController(), new AbortController()]
    const options = { retry: { attempts: 1 }, signal: all.signal }
    const { clock, call, arrivals } = site(() => refused({ 'Retry-After': '5' }), options)
    await clock.finish(call(THINGS))
    const first = readOutcome(call(new Request(THINGS, { signal: own.signal })))
    const second = readOutcome(call(THINGS))
    await settled()
    own.abort('enough')
    all.abort('shutdown')
    expect([await first, await second]).toEqual(['enough', 'shutdown'])
    expect(arrivals).toHaveLength(1)
  })

  test('has no signal if that is null, as with fetch, and fails if it is none', async () => {
    const { clock, call } = site(() => OK)
    const request = new Request(THINGS, { signal: AbortSignal.abort() })
    expect((await clock.finish(call(request, { signal: null }))).status).toBe(200)
    await expect(call(THINGS, { signal: new AbortController() as never })).rejects.toThrow(
      'signal: expected an AbortSignal, got "object"',
    )
  })
})
