/** Tests refusals, and the headers and charges of an app's responses. */
import { expect, test } from 'vitest'
import { type Adapter, type Handler, type Options, readRemaining, start, streamChunks, X } from './adapter.ts'

const BROWSER = { headers: { ...X.headers, Accept: 'text/html' } }

export function describeRefusals(adapter: Adapter): void {
  test('a refusal says what its policy says, to browsers as a page', async () => {
    const refusal = { detail: 'Wait {retry_after} s.', html: '<p>{retry_after}</p>' }
    const { send } = await start(adapter, { policies: [{ name: 'a', limits: '1/1m', refusal }] })
    await send(X)
    const expected = { status: 429, code: 'limit_exceeded', detail: 'Wait 60 s.' }
    expect(await (await send(X)).json()).toMatchObject(expected)
    const page = await send(BROWSER)
    const answered = [page.status, page.headers.get('RateLimit'), await page.text()]
    expect(answered).toEqual([429, '"a-1m";r=0;t=60', '<p>60</p>'])
  })

  test('a refusal redirects browsers to where its policy says', async () => {
    const refusal = { detail: 'Too fast.', redirect: 'https://example.com/upgrade' }
    const { send } = await start(adapter, { policies: [{ name: 'a', limits: '1/1h', refusal }] })
    await send(X)
    expect(await (await send(X)).json()).toMatchObject({ status: 429, detail: 'Too fast.' })
    const { status, headers } = await send(BROWSER)
    expect([status, headers.get('Location'), headers.get('Cache-Control')]).toEqual([303, refusal.redirect, 'no-store'])
  })

  test.each([
    [{ 'Cache-Control': 'private' }, ['60', 'private']],
    [{ 'Retry-After': '1' }, ['1', 'no-store']],
  ])('onLimited answers what the limits refuse, with the headers %j and those that it lacks', async (own, expected) => {
    const { send } = await start(adapter, {
      limits: '1/1m',
      anonymous: 'deny',
      onLimited: ({ outcome, retryAfterMs }) => Response.json({ outcome, retryAfterMs }, { status: 418, headers: own }),
    })
    await send(X)
    const response = await send(X)
    expect([response.status, await response.json()]).toEqual([418, { outcome: 'limited', retryAfterMs: 60_000 }])
    expect([response.headers.get('Retry-After'), response.headers.get('Cache-Control')]).toEqual(expected)
    expect(response.headers.get('RateLimit')).toBe('"default-1m";r=0;t=60')
    // Another refusal than that of a limit is a problem as ever.
    expect((await send({})).status).toBe(401)
  })

  test('refuses with the status that a policy says', async () => {
    const policies = [{ name: 'api', limits: '1/1m', refusal: { status: 402 } }] as const
    const { send } = await start(adapter, { policies })
    await send(X)
    const response = await send(X)
    expect([response.status, response.headers.get('Retry-After')]).toEqual([402, '60'])
    const problem = { status: 402, title: 'Payment Required', code: 'limit_exceeded', retry_after_ms: 60_000 }
    expect(await response.json()).toMatchObject(problem)
  })
}

export function describeResponses(adapter: Adapter): void {
  test('charges failures and actual costs when the response tells them, and the headers say it too', async () => {
    const day = { limits: '1000/1d', algorithm: 'quota', actual_cost: 'header:x-cost', untold: 1 } as const
    const policies = [
      { name: 'guesses', limits: '2/1m', counts: 'failures', failures: '401' },
      { name: 'ten', ...day, cost: 10 },
      { name: 'one', ...day },
    ] as const
    const { send } = await start(adapter, { policies }, ({ path }) => {
      return new Response(null, { status: path === '/right' ? 200 : 401, headers: { 'X-Cost': '60' } })
    })
    const answers: unknown[] = []
    for (const path of ['/right', '/a', '/b', '/right']) {
      const response = await send({ path, ...X })
      answers.push([response.status, ...readRemaining(response)])
    }
    expect(answers).toEqual([
      [200, 990, 999, 2],
      [401, 930, 939, 1],
      [401, 870, 879, 0],
      [429, 820, 820, 0],
    ])
  })

  test('charges every response, or only those that succeed, after it, and by what it tells', async () => {
    const after = { limits: '100/1d' } as const
    const policies = [
      { name: 'all', ...after, counts: 'responses', cost: 10 },
      { name: 'told', ...after, counts: 'responses', actual_cost: 'header:x-cost', untold: 1 },
      { name: 'good', ...after, counts: 'successes' },
      { name: 'ok', ...after, counts: 'successes', failures: '4xx', actual_cost: { 'header:x-cost': 2 }, untold: 1 },
    ] as const
    const { send } = await start(adapter, { policies }, ({ path }) => {
      return new Response(null, { status: Number(path.slice(1)), headers: { 'X-Cost': '7' } })
    })
    const answers: unknown[] = []
    for (const status of [200, 429, 500, 404]) answers.push(readRemaining(await send({ path: `/${status}`, ...X })))
    // What is charged by a header is known to the next one.
    expect(answers).toEqual([
      [90, 100, 99, 100],
      [80, 93, 99, 86],
      [70, 86, 99, 72],
      [60, 79, 99, 58],
    ])
  })

  test('charges what a body tells, JSON or a stream, and its bytes', async () => {
    const day = { limits: '1000/1d' } as const
    const actual_cost = { 'json:/usage/in|/message/usage/in': 1, 'json:/usage/out': 4 }
    const policies = [
      { name: 'tokens', ...day, actual_cost, untold: 1 },
      { name: 'bytes', ...day, algorithm: 'quota', actual_cost: 'bytes' },
      { name: 'later', ...day, counts: 'responses', actual_cost: 'json:/usage/out', untold: 1 },
    ] as const
    const json = '{"text":"\u00fc","usage":{"in":10,"out":5}}'
    const events = ['{"message":{"usage":{"in":10}}}', '{"text":"usage"}', '{"usage":{"out":5}}']
    const stream = events.map((data) => `data: ${data}\n\n`)
    const { send, sendInTurn } = await start(adapter, { policies }, ({ path }) => {
      if (path === '/json') return new Response(json, { headers: { 'Content-Type': 'application/json' } })
      if (path === '/none') return new Response('none')
      const chunks = stream.map((each) => new TextEncoder().encode(each))
      return new Response(streamChunks(chunks), { headers: { 'Content-Type': 'text/event-stream' } })
    })
    expect(
      await sendInTurn([
        { path: '/json', ...X },
        { path: '/stream', ...X },
      ]),
    ).toEqual([200, 200])
    const size = new TextEncoder().encode(json + stream.join('')).length
    const [tokens, bytes, later] = [1_000 - 2 * (10 + 4 * 5), 1_000 - size, 1_000 - 2 * 5]
    // What these requests cost is seen by the next ones.
    let sent = 0
    await expect
      .poll(async () => {
        const response = await send({ path: '/none', ...X })
        await response.text()
        const remaining = readRemaining(response)
        const before = sent++
        return remaining.map(
          (units, at) => units - ([tokens - before - 1, bytes - 4 * before - 1, later - before][at] ?? 0),
        )
      })
      .toEqual([0, 0, 0])
  })

  test('asks the application which responses fail, where a policy does not say it', async () => {
    const one = { limits: '9/1d' } as const
    const policies = [
      { name: 'bad', ...one, counts: 'failures' },
      { name: 'good', ...one, counts: 'successes' },
      { name: 'own', ...one, counts: 'failures', failures: '2xx' },
    ] as const
    const isFailure: Options['isFailure'] = ({ status, headers }, { path }) =>
      path === '/odd' || (status === 200 && headers.get('X-Result') === 'wrong')
    const { send } = await start(adapter, { policies, isFailure }, ({ path }) => {
      return new Response(null, { headers: { 'X-Result': path.slice(1) } })
    })
    const answers: unknown[] = []
    for (const path of ['/right', '/wrong', '/odd']) answers.push(readRemaining(await send({ path, ...X })))
    expect(answers).toEqual([
      [9, 8, 8],
      [8, 8, 7],
      [7, 8, 6],
    ])
  })

  test('takes a handler that throws for one that failed, and logs nothing of it', async () => {
    const policies = [
      { name: 'slots', limits: '9', algorithm: 'concurrency' },
      { name: 'faults', limits: '2/1m', counts: 'failures', failures: '5xx' },
    ] as const
    const fail = () => Promise.reject(new RangeError('of the app'))
    const { lines, send, sendInTurn } = await start(adapter, { policies }, fail)
    for (let sent = 0; sent < 2; sent++) expect(await (await send(X)).text()).toBe('RangeError: of the app')
    expect(await sendInTurn([X])).toEqual([429])
    expect(lines.filter(({ event }) => event !== 'in_memory_store')).toEqual([])
  })

  const own = { status: 201, headers: { RateLimit: '"own";r=1' } }
  test.each<[string, Handler, unknown]>([
    ['that has such headers', () => new Response('ok', own), [201, null, '"own";r=1, "default-1h";r=8;t=3600']],
    [
      'whose headers are closed',
      () => Response.redirect('https://api.example/') as Response,
      [302, 'https://api.example/', '"default-1h";r=8;t=3600'],
    ],
  ])('adds its headers to a response %s', async (_, handler, expected) => {
    const { status, headers } = await (await start(adapter, { limits: '9/1h' }, handler)).send(X)
    expect([status, headers.get('Location'), headers.get('RateLimit')]).toEqual(expected)
  })

  test('collects the headers of no caller in a response that the app gives to all', async () => {
    const gone = new Response(null, { status: 204 })
    const { send } = await start(adapter, { limits: '10/1h', trustProxy: () => '203.0.113.7' }, () => gone)
    for (const left of [9, 8, 7]) {
      const { status, headers } = await send({})
      expect([status, headers.get('RateLimit')]).toEqual([204, `"default-1h";r=${left};t=3600`])
    }
    expect([...gone.headers]).toEqual([])
  })
}
