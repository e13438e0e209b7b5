import { describe, expect, test, vi } from 'vitest'
import type { DecisionRequest, StoreCharge } from '../../../src/core/model/charge.ts'
import type { Store } from '../../../src/core/model/store.ts'
import { MAX_KEYS } from '../../../src/core/store/memory/expiring-states.ts'
import { createLimiter, memoryStore } from '../../../src/index.ts'
import { type Notes, type OutboundOptions, outbound } from '../../../src/outbound.ts'
import { settled, VirtualClock } from '../../support/virtual-clock.ts'

const START_MS = 1_700_000_000_000
const THINGS = 'https://api.example/things'

interface Arrival {
  readonly ms: number
  readonly method: string
  readonly path: string
}

/** A server that answers as told, after 10 ms. */
function site(answer: (count: number) => ResponseInit, options: OutboundOptions = {}) {
  const clock = (options.clock as VirtualClock | undefined) ?? new VirtualClock()
  const startMs = clock.now()
  const arrivals: Arrival[] = []
  const travel = async (input: RequestInfo | URL, init?: RequestInit) => {
    const request = new Request(input, init)
    arrivals.push({ ms: clock.now() - startMs, method: request.method, path: new URL(request.url).pathname })
    const made = answer(arrivals.length)
    await clock.sleep(10)
    return new Response(null, made)
  }
  const call = outbound(travel as typeof fetch, { clock, random: () => 0.5, ...options })
  return { clock, arrivals, call, times: () => arrivals.map(({ ms }) => ms) }
}

const OK = { status: 200 }

function readOutcome(work: Promise<unknown>): Promise<unknown> {
  return work.catch((error: unknown) => error)
}

function refused(fields: Record<string, string> = {}, status = 429) {
  return { status, headers: fields }
}

test('until the first answer has come, one call is on its way', async () => {
  const { clock, call, times } = site(() => OK)
  await clock.finish(Promise.all([1, 2, 3, 4].map(() => call(THINGS))))
  expect(times()).toEqual([0, 10, 10, 10])
})

test('a refusal whose body has broken off is repeated as any', async () => {
  const clock = new VirtualClock()
  const bodies = [
    () => new ReadableStream({ pull: (controller) => controller.error(new TypeError('terminated')) }),
    () => new ReadableStream({ cancel: () => Promise.reject(new TypeError('terminated')) }),
    () => new ReadableStream(),
  ]
  let made = 0
  const travel = async () => {
    const body = bodies[made++]
    const refusal = new Response(body?.(), { status: 429, headers: { 'Retry-After': '1' } })
    // Somebody else reads the last one.
    if (made === bodies.length) refusal.body?.getReader()
    return body ? refusal : new Response('done')
  }
  const call = outbound(travel as typeof fetch, { clock, retries: 5 })
  expect((await clock.finish(call(THINGS))).status).toBe(200)
})

test('the limits of a server are remembered for more than a thousand identities', async () => {
  const left = new Map<string, number>()
  const fields = { 'RateLimit-Policy': '"h";q=2;w=3600' }
  const travel = async (input: RequestInfo | URL) => {
    const user = new URL(`${input}`).search
    const remaining = (left.get(user) ?? 2) - 1
    left.set(user, remaining)
    const headers = { ...fields, RateLimit: `"h";r=${Math.max(0, remaining)};t=3600` }
    return new Response(null, { status: remaining < 0 ? 429 : 200, headers })
  }
  const options = {
    clock: new VirtualClock(),
    maxWaitMs: 0,
    retries: 0,
    identity: ({ url }: { url: URL }) => url.search,
  }
  const call = outbound(travel as typeof fetch, options)
  for (let round = 0; round < 3; round++) {
    for (let user = 0; user < 1_500; user++) await call(`${THINGS}?${user}`).catch(() => {})
  }
  expect(Math.min(...left.values())).toBe(0)
})

test('paused identities do not keep others from being deleted', async () => {
  const clock = new VirtualClock()
  let kept = 0
  const identity = ({ url }: { url: URL }) => url.search
  const travel = async (input: RequestInfo | URL) => {
    const isPaused = /\?p/.test(`${input}`)
    return new Response(null, { status: isPaused ? 429 : 200, headers: { 'Retry-After': '3600' } })
  }
  const call = outbound(travel as typeof fetch, { clock, maxWaitMs: 0, retries: 0, identity })
  for (let user = 0; user < 10; user++) await call(`${THINGS}?p${user}`).catch(() => {})
  const { set } = Map.prototype
  const sizes = vi.spyOn(Map.prototype, 'set').mockImplementation(function (this: Map<unknown, unknown>, key, value) {
    const done = set.call(this, key, value)
    if (`${key}`.startsWith('?')) kept = this.size
    return done
  })
  try {
    for (let user = 0; user < 3_000; user++) await call(`${THINGS}?${user}`)
  } finally {
    sizes.mockRestore()
  }
  expect(kept).toBeGreaterThan(100)
  expect(kept).toBeLessThan(1_100)
})

test('null takes the signal of a request away, as with fetch, and another signal is refused', async () => {
  const { clock, call } = site(() => OK)
  const request = new Request(THINGS, { signal: AbortSignal.abort() })
  expect((await clock.finish(call(request, { signal: null }))).status).toBe(200)
  await expect(call(THINGS, { signal: new AbortController() as never })).rejects.toThrow(
    'signal: expected an AbortSignal, got "object"',
  )
})

test('a call that fails teaches nothing', async () => {
  const { clock, call, times } = site((count) => {
    if (count === 1) throw new TypeError('network')
    return OK
  })
  const calls = [1, 2, 3].map(() => call(THINGS).catch((error: unknown) => error))
  const [first] = await clock.finish(Promise.all(calls))
  expect(first).toEqual(new TypeError('network'))
  expect(times()).toEqual([0, 0, 10])
})

test('a generous server loosens no configured limit', async () => {
  const clock = new VirtualClock()
  const limiter = createLimiter({ limits: '1/3s', now: () => clock.now() })
  const generous = site(() => ({ status: 200, headers: { 'RateLimit-Policy': '"a";q=100;w=1' } }), { limiter, clock })
  await clock.finish(Promise.all([1, 2, 3].map(() => generous.call(THINGS))))
  expect(generous.times()).toEqual([0, 3_000, 6_000])
})

test('what others have used of the same budget is held too', async () => {
  // Three of five were spent by others, for another four seconds.
  const headers = { 'RateLimit-Policy': '"a";q=5;w=10', RateLimit: '"a";r=1;t=4' }
  const { clock, call, times } = site((count) => (count === 1 ? { status: 200, headers } : OK))
  await clock.finish(Promise.all([1, 2, 3].map(() => call(THINGS))))
  expect(times()).toEqual([0, 10, 4_015])
})

test('a limit in other units than requests stops nobody', async () => {
  const headers = { 'RateLimit-Policy': '"a";q=1;qu="concurrent-requests"', RateLimit: '"a";r=0' }
  const { clock, call, times } = site(() => ({ status: 200, headers }))
  await clock.finish(Promise.all([1, 2, 3].map(() => call(THINGS))))
  expect(times()).toEqual([0, 10, 10])
})

test('countedWithinMs: a call is counted from then on, however long its answer takes', async () => {
  const clock = new VirtualClock()
  const times: number[] = []
  const slow = async () => {
    times.push(clock.now() - START_MS)
    await clock.sleep(times.length === 1 ? 10 : 5_000)
    return new Response(null, { headers: { 'RateLimit-Policy': '"a";q=1;w=1' } })
  }
  const call = outbound(slow as typeof fetch, { clock, countedWithinMs: 200 })
  await clock.finish(Promise.all([1, 2, 3].map(() => call(THINGS))))
  expect(times).toEqual([0, 1_012, 2_214])
})

test('a server that names new limits in each response pushes no count of another server out', {
  tags: ['slow'],
}, async () => {
  const clock = new VirtualClock()
  const honest: number[] = []
  let count = 0
  const travel = async (input: RequestInfo | URL) => {
    if (String(input) === THINGS) {
      honest.push(clock.now() - START_MS)
      return new Response(null, { headers: { 'RateLimit-Policy': '"a";q=2;w=60' } })
    }
    const policies = Array.from({ length: 16 }, () => `"${count++}";q=9;w=86400`)
    return new Response(null, { headers: { 'RateLimit-Policy': policies.join(', ') } })
  }
  const call = outbound(travel as typeof fetch, { clock, maxWaitMs: Number.POSITIVE_INFINITY })
  await clock.finish(Promise.all([call(THINGS), call(THINGS)]))
  // More than the memory of a process holds.
  while (count < MAX_KEYS) await call('https://hostile.example/')
  await clock.finish(call(THINGS))
  expect(honest.map((ms) => Math.round(ms / 1_000))).toEqual([0, 0, 60])
})

test('a limit of thousands is kept with some time to spare', async () => {
  const headers = { 'RateLimit-Policy': '"a";q=2001;w=10' }
  const { clock, call, times } = site(() => ({ status: 200, headers }), { maxQueued: 3_000 })
  await clock.finish(Promise.all(Array.from({ length: 2_003 }, () => call(THINGS))))
  // The first one is entered when it is answered. The others go at once, but for two: a second after the window.
  expect(times().slice(-3)).toEqual([10, 11_010, 11_010])
})

describe('a refusal', () => {
  test('stops all calls of the identity for as long as it says, and a little more at random', async () => {
    const { clock, call, times } = site((count) => (count === 2 ? refused({ 'Retry-After': '3' }) : OK), { retries: 0 })
    await clock.finish(call(THINGS))
    const second = call(THINGS)
    await clock.advance(10)
    expect((await second).status).toBe(429)
    await clock.finish(Promise.all([call(THINGS), call(THINGS)]))
    // Half of a tenth later one goes, and the next at four fifths of the pace of what was admitted: 1 in 3,010 ms.
    expect(times()).toEqual([0, 10, 20 + 3_150, 20 + 3_150 + 3_010 / 0.8])
  })

  test('does not stop those of another identity', async () => {
    const { clock, call, times } = site((count) => (count === 1 ? refused({ 'Retry-After': '3' }) : OK), { retries: 0 })
    await clock.finish(call(THINGS))
    await clock.finish(call('https://other.example/'))
    expect(times()).toEqual([0, 10])
  })

  test('without Retry-After lasts until the reset of what is used up', async () => {
    const fields = { 'X-RateLimit-Limit': '9', 'X-RateLimit-Remaining': '0', 'X-RateLimit-Reset': '7' }
    const { clock, call, times } = site((count) => (count === 1 ? refused(fields) : OK))
    await clock.finish(call(THINGS))
    expect(times()).toEqual([0, 10 + 7_350])
  })

  test('that says nothing doubles the pause each time', async () => {
    const { clock, call, times } = site((count) => (count <= 4 ? refused({}, 503) : OK), { retries: 4 })
    await clock.finish(call(THINGS))
    const gaps = times().map((ms, index, all) => ms - (all[index - 1] ?? 0))
    expect(gaps).toEqual([0, 10 + 1_050, 10 + 2_100, 10 + 4_200, 10 + 8_400])
  })

  test('of several that were on their way together counts once', async () => {
    const { clock, call, times } = site((count) => (count >= 2 && count <= 4 ? refused() : OK), { retries: 0 })
    await clock.finish(call(THINGS))
    await clock.finish(Promise.all([call(THINGS), call(THINGS), call(THINGS)]))
    await clock.finish(call(THINGS))
    expect(times().at(-1)).toBe(10 + 10 + 1_050)
  })

  test('is repeated for idempotent methods only, and as often as configured', async () => {
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

  test('is not repeated if the body is gone', async () => {
    const { clock, call, arrivals } = site(() => refused({ 'Retry-After': '1' }))
    const stream = new Blob(['text']).stream()
    await clock.finish(call(THINGS, { method: 'PUT', body: stream, duplex: 'half' } as RequestInit))
    await clock.finish(call(new Request(THINGS, { method: 'PUT', body: 'text' })))
    expect(arrivals).toHaveLength(2)
  })

  test('is handed on where repeating it would take too long', async () => {
    const { clock, call, times } = site(() => refused({ 'Retry-After': '30' }), { maxWaitMs: 20_000 })
    expect((await clock.finish(call(THINGS))).status).toBe(429)
    const late = call(THINGS).catch((error: unknown) => error)
    await settled()
    // The next one is not sent at all.
    expect(await late).toMatchObject({ code: 'WAIT_TOO_LONG', retryAfterMs: 30_500 })
    expect(times()).toEqual([0])
  })

  test('frees the call’s connection before it is repeated', async () => {
    const clock = new VirtualClock()
    let cancelled = 0
    let count = 0
    const travel = async () => {
      if (count++ > 0) return new Response('done')
      const body = new ReadableStream({ cancel: () => void cancelled++ })
      return new Response(body, { status: 429, headers: { 'Retry-After': '1' } })
    }
    const response = await clock.finish(outbound(travel as typeof fetch, { clock })(THINGS))
    expect([await response.text(), cancelled]).toEqual(['done', 1])
  })
})

describe('a server that stalls', () => {
  const forever = { 'Retry-After': '999999999999' }

  test.each([
    [forever, undefined, 3_600_000],
    [{ 'Retry-After': 'Fri, 31 Dec 9999 23:59:59 GMT' }, 5_000, 5_000],
    [{ 'RateLimit-Policy': '"a";q=1;w=1', RateLimit: '"a";r=0;t=32054400' }, 5_000, 5_000],
  ])('pauses by %j and maxPauseMs %s for no longer than %s', async (fields, maxPauseMs, pauseMs) => {
    const { clock, call, times } = site((count) => (count === 1 ? refused(fields) : OK), {
      retries: 0,
      maxWaitMs: Number.POSITIVE_INFINITY,
      ...(maxPauseMs && { maxPauseMs }),
    })
    await clock.finish(call(THINGS))
    await clock.finish(Promise.all([call(THINGS), call(THINGS)]))
    // A random part of a second comes on top; then one goes alone.
    const [, probeMs = 0, nextMs = 0] = times()
    expect([probeMs >= pauseMs, probeMs <= pauseMs + 1_010]).toEqual([true, true])
    expect(nextMs).toBeGreaterThanOrEqual(probeMs + 10)
  })

  test.each([undefined, 'https://api.example'])('is called again at once after resume(%s)', async (identity) => {
    const { clock, call, times } = site((count) => (count === 1 ? refused(forever) : OK), { retries: 0 })
    await clock.finish(call(THINGS))
    const startMs = clock.now()
    await call.resume('https://other.example')
    const waiting = readOutcome(call(THINGS))
    await settled()
    expect(await waiting).toMatchObject({ code: 'WAIT_TOO_LONG' })
    await call.resume(identity)
    await clock.finish(call(THINGS))
    expect(times()).toEqual([0, startMs - START_MS])
  })

  test('by a limit is called again at once after resume(), and so are those that wait', async () => {
    const fields = { 'RateLimit-Policy': '"a";q=1;w=600', RateLimit: '"a";r=0;t=600' }
    const options = { maxWaitMs: Number.POSITIVE_INFINITY }
    const { clock, call, times } = site((count) => (count === 1 ? { status: 200, headers: fields } : OK), options)
    await clock.finish(call(THINGS))
    const waiting = call(THINGS)
    await clock.advance(1_000)
    await call.resume()
    await clock.finish(waiting)
    expect(times()).toEqual([0, 1_010])
  })

  test('is called again after resume(), even if a limiter that was called before refuses later', async () => {
    let answer = { granted: false, retryAfterMs: 600_000 }
    const take = async () => {
      const given = answer
      await clock.sleep(1_000)
      return given
    }
    const { clock, call, times } = site(() => OK, { limiter: { take }, maxWaitMs: Number.POSITIVE_INFINITY })
    const waiting = call(THINGS)
    await clock.advance(500)
    answer = { granted: true, retryAfterMs: 0 }
    await call.resume()
    await clock.finish(waiting)
    expect(times()).toEqual([2_000])
  })

  test('by a limit of weeks is called once in maxPauseMs, and kept to it while it refuses', async () => {
    const fields = { 'RateLimit-Policy': '"a";q=1;w=32054400' }
    const options = { retries: 0, maxPauseMs: 60_000, maxWaitMs: Number.POSITIVE_INFINITY }
    const { clock, call, times } = site((count) => {
      return count === 2 ? refused({ ...fields, 'Retry-After': '32054400' }) : { status: 200, headers: fields }
    }, options)
    await clock.finish(call(THINGS))
    const statuses = await clock.finish(Promise.all([call(THINGS), call(THINGS)]))
    expect(statuses.map(({ status }) => status)).toEqual([429, 200])
    const gaps = times().map((ms, index, all) => Math.floor((ms - (all[index - 1] ?? 0)) / 1_000))
    expect(gaps).toEqual([0, 60, 60])
  })
})

describe('a call’s own terms', () => {
  test('are computed by functions of it', async () => {
    const seen: string[] = []
    const { clock, call } = site(() => OK, {
      identity: ({ url, method, headers }) => {
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

  test('the signal of a request ends its wait', async () => {
    const { clock, call, arrivals } = site(() => refused({ 'Retry-After': '5' }), { retries: 0 })
    await clock.finish(call(THINGS))
    const controller = new AbortController()
    const waiting = call(new Request(THINGS, { signal: controller.signal })).catch((error: unknown) => error)
    await settled()
    controller.abort(new Error('enough'))
    expect(await waiting).toMatchObject({ message: 'enough' })
    expect(arrivals).toHaveLength(1)
  })
})

describe('several processes', () => {
  /** What they share. */
  function shareLimits(clock: VirtualClock) {
    const texts = new Map<string, string>()
    const notes: Notes = {
      read: async (key) => texts.get(key),
      write: async (key, text) => texts.set(key, text),
    }
    return { texts, shared: { store: memoryStore({ now: () => clock.now() }), notes } }
  }

  test('a pause that one learned of stops the others, which look for news once a second', async () => {
    const clock = new VirtualClock()
    const { shared } = shareLimits(clock)
    const answer = (count: number) => (count === 2 ? refused({ 'Retry-After': '5' }) : OK)
    const first = site(answer, { clock, shared, retries: 0 })
    const second = site(() => OK, { clock, shared })
    await clock.finish(first.call(THINGS))
    await clock.finish(second.call(THINGS))
    await clock.finish(first.call(THINGS))
    await clock.advance(1_000)
    await clock.finish(second.call(THINGS))
    await clock.finish(second.call(THINGS))
    expect(second.times()).toEqual([10, 30 + 5_250, 40 + 5_250])
  })

  test('one whose clock is minutes behind ends a pause when the others do', async () => {
    const clock = new VirtualClock()
    const { shared } = shareLimits(clock)
    const first = site(() => refused({ 'Retry-After': '5' }), { clock, shared, retries: 0 })
    await clock.finish(first.call(THINGS))
    const behind = new VirtualClock(clock.now() - 300_000)
    const startMs = behind.now()
    const store = memoryStore({ now: () => behind.now() + 300_000 })
    const second = site(() => OK, { clock: behind, shared: { ...shared, store } })
    await behind.finish(second.call(THINGS))
    expect(second.times()).toEqual([5_250])
    expect(behind.now() - startMs).toBeLessThan(6_000)
  })

  test('one that comes later knows at once what others have learned', async () => {
    const clock = new VirtualClock()
    const { shared, texts } = shareLimits(clock)
    const answer = () => ({ status: 200, headers: { 'RateLimit-Policy': '"a";q=3;w=60' } })
    const first = site(answer, { clock, shared })
    await clock.finish(first.call(THINGS))
    expect([...texts.keys()]).toEqual([expect.stringMatching(/^sluice:outbound-[\w-]{22}:n:\{[\w-]{22}\}$/)])
    const second = site(answer, { clock, shared, maxWaitMs: Number.POSITIVE_INFINITY })
    void Promise.all([1, 2, 3].map(() => second.call(THINGS)))
    await clock.advance(50_000)
    // No call goes first alone, and of three one is spent.
    expect(second.times()).toEqual([0, 0])
  })

  test('the last word of the server holds for all, whichever it was said to', async () => {
    const clock = new VirtualClock()
    const { shared } = shareLimits(clock)
    const options = { clock, shared, maxWaitMs: Number.POSITIVE_INFINITY }
    const first = site((count) => ({ headers: { 'RateLimit-Policy': `"a";q=${count === 1 ? 2 : 5};w=10` } }), options)
    const second = site(() => OK, options)
    await clock.finish(first.call(THINGS))
    await clock.finish(second.call(THINGS))
    // The limit of two is used up until ten seconds have passed; then the server says five.
    await clock.finish(first.call(THINGS))
    await clock.advance(1_000)
    await clock.finish(second.call(THINGS))
    await clock.finish(Promise.all([second.call(THINGS), second.call(THINGS)]))
    const [, thirdMs = 0, ...lastMs] = second.times()
    expect(thirdMs).toBeLessThan(12_000)
    expect(lastMs).toEqual([thirdMs + 10, thirdMs + 10])
  })

  test('without the store and the notes each goes on by itself', async () => {
    const clock = new VirtualClock()
    const unavailable = () => Promise.reject(new Error('unavailable'))
    const store = { decide: unavailable, renew: unavailable, release: unavailable } as unknown as Store
    const remote = { isRemote: true, timeoutMs: 500, open: () => store }
    const notes = { read: unavailable, write: unavailable }
    const headers = { 'RateLimit-Policy': '"a";q=2;w=1' }
    const { call, times } = site(() => ({ status: 200, headers }), { clock, shared: { store: remote, notes } })
    await clock.finish(Promise.all([1, 2, 3].map(() => call(THINGS))))
    expect(times()).toEqual([0, 10, 1_012])
  })

  test('a store that takes longer than a window keeps nobody forever', async () => {
    const clock = new VirtualClock()
    const { shared } = shareLimits(clock)
    const near = shared.store.open([])
    const late = async <T>(work: () => Promise<T>) => {
      await clock.sleep(200)
      return work()
    }
    const store = {
      decide: (request: DecisionRequest) => late(() => near.decide(request)),
      renew: (charges: readonly StoreCharge[]) => late(() => near.renew(charges)),
      release: (charges: readonly StoreCharge[]) => late(() => near.release(charges)),
    } as Store
    const headers = { 'RateLimit-Policy': '"a";q=2;w=0.1' }
    const answer = () => ({ status: 200, headers })
    const far = { isRemote: true, timeoutMs: 500, open: () => store }
    const { call } = site(answer, { clock, shared: { ...shared, store: far } })
    const responses = await clock.finish(Promise.all([1, 2, 3].map(() => call(THINGS))))
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 200])
  })

  test('what others have noted is not believed if it cannot be read', async () => {
    for (const text of ['{}', 'sluice-outbound {', 'sluice-outbound {"limits":[{"limit":0}],"pausedUntilMs":0}', 7]) {
      const notes = { read: async () => text, write: async () => {} }
      const shared = { store: memoryStore({ now: () => START_MS }), notes }
      const { clock, call, times } = site(() => OK, { shared })
      await clock.finish(Promise.all([call(THINGS), call(THINGS)]))
      expect(times()).toEqual([0, 10])
    }
  })
})
