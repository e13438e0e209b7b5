/** Which requests are admitted, and what headers, apps and logs learn of it. */
import { describe, expect, test } from 'vitest'
import { type Store, StoreError } from '../../../src/core/model/store.ts'
import { MemoryStore } from '../../../src/core/store/memory/memory-store.ts'
import type { RateLimit } from '../../../src/http/request/rate-limit.ts'
import { type Adapter, judge, type Options, readRemaining, type Sent, start, X, Y } from './adapter.ts'

export function describeDecisions(adapter: Adapter): void {
  test('admits what fits, for each caller, and reports the limits', async () => {
    const { clock, send, sendInTurn } = await start(adapter, { limits: '2/1s, 3/1m' })
    const first = await send(X)
    expect(first.status).toBe(200)
    expect(first.headers.get('RateLimit-Policy')).toBe('"default-1s";q=2;w=1, "default-1m";q=3;w=60')
    expect(first.headers.get('RateLimit')).toBe('"default-1s";r=1;t=1, "default-1m";r=2;t=60')
    const limits = [
      { name: 'default-1s', limit: 2, windowMs: 1_000, remaining: 1, retryAfterMs: 0 },
      { name: 'default-1m', limit: 3, windowMs: 60_000, remaining: 2, retryAfterMs: 0 },
    ]
    expect(await first.json()).toEqual({
      outcome: 'admitted',
      limits: limits.map((one) => expect.objectContaining(one)),
    })
    expect(await sendInTurn([X])).toEqual([200])
    clock.nowMs += 400
    const refused = await send(X)
    const fields = ['Content-Type', 'Cache-Control', 'Retry-After', 'RateLimit'].map((name) =>
      refused.headers.get(name),
    )
    const reported = '"default-1s";r=0;t=1, "default-1m";r=1;t=60'
    expect([refused.status, ...fields]).toEqual([429, 'application/problem+json', 'no-store', '1', reported])
    const problem = { status: 429, 'violated-policies': ['default-1s'], retry_after_ms: 600 }
    expect(await refused.json()).toMatchObject(problem)
    expect(await sendInTurn([Y])).toEqual([200])
    clock.nowMs += 599
    expect(await sendInTurn([X])).toEqual([429])
    clock.nowMs += 1
    expect(await sendInTurn([X])).toEqual([200])
  })

  test('admits exactly as many requests as a limit has units', async () => {
    const { send, sendInTurn } = await start(adapter, { limits: '10/1h' })
    expect(await sendInTurn(Array(25).fill(X))).toEqual([...Array(10).fill(200), ...Array(15).fill(429)])
    const [refused, other] = [await send(X), await send(Y)]
    expect([refused.status, refused.headers.get('Retry-After')]).toEqual([429, '3600'])
    expect([other.status, other.headers.get('RateLimit')]).toEqual([200, '"default-1h";r=9;t=3600'])
  })

  test('keeps a refused caller out until its penalty ends, and says so in the documented fields alone', async () => {
    const policies = [{ name: 'api', limits: '2/1s', penalty: '1m', penalty_after: 2 }]
    const onLimited: Options['onLimited'] = (rateLimit) => Response.json(rateLimit)
    const { clock, send } = await start(adapter, { policies, onLimited })
    const decide = async () => (await send(X)).json()
    const limit = { policy: 'api', name: 'api-1s', limit: 2, windowMs: 1_000, remaining: 0 }
    const admitted = (remaining: number) => ({
      outcome: 'admitted',
      limits: [{ ...limit, remaining, resetMs: 1_000, retryAfterMs: 0 }],
    })
    expect([await decide(), await decide()]).toEqual([admitted(1), admitted(0)])
    const limited = (retryAfterMs: number, penalty = {}) => ({
      outcome: 'limited',
      limits: [{ ...limit, resetMs: retryAfterMs, retryAfterMs, ...penalty }],
      retryAfterMs,
    })
    expect(await decide()).toEqual(limited(1_000))
    expect(await decide()).toEqual(limited(60_000, { penaltyMs: 60_000 }))
    clock.nowMs += 59_999
    expect(await decide()).toMatchObject({ outcome: 'limited', limits: [{ penaltyMs: 1 }] })
    clock.nowMs += 1
    expect(await decide()).toEqual(admitted(1))
  })

  test('takes policies as the gateway does: all that match must admit, or none is charged', async () => {
    const { send, sendInTurn } = await start(adapter, {
      policies: [
        { name: 'all', limits: '3/1m' },
        { name: 'login', limits: '1/1m', match: 'POST /login' },
      ],
      exempt: 'GET /healthz',
    })
    const login = { path: '/login', method: 'POST', ...X }
    const requests = [login, login, login, X, X, X, { path: '/healthz', ...X }]
    expect(await sendInTurn(requests)).toEqual([200, 429, 429, 200, 200, 429, 200])
    // Each is `/login` to some frameworks, and another path to others.
    for (const path of ['/x%2F..%2Flogin', '/%C0%AE%C0%AE/login']) {
      expect((await send({ path, method: 'POST', ...Y })).status).toBe(400)
    }
  })

  test('charges whatever spelling its router takes for a route', async () => {
    const policies = [
      { name: 'all', limits: '1000/1h', by: 'ip' },
      { name: 'login', limits: '1/1h', by: 'ip', match: 'POST /login' },
    ]
    const routes = { 'POST /login': () => new Response('in'), '*': () => new Response('other') }
    const { send } = await start(adapter, { policies }, routes)
    const spellings = [
      ...['/login', '/login/', '/LOGIN', '/Login?x', '/login?_method=GET', '/./login', '/x/../login', '/%6Cogin'],
      ...['//login', '/x/%2e%2e/login', '/%2e/login#x', '/x\\..\\login', '/login#x', '/login;x', '/login;a'],
      ...['/login%2F', '/login%00', '/login%20', 'http://x/login', 'http://x/../login', 'HTTP://x//login', 'login'],
    ]
    const bodies: string[] = []
    for (const path of spellings) {
      const response = await send({ method: 'POST', path }).catch(
        () => new Response('a target that the server refuses'),
      )
      bodies.push(await response.text())
    }
    expect(bodies.filter((body) => body === 'in')).toHaveLength(1)
  })

  test('ignores the case of a path, unless a policy says otherwise', async () => {
    const policies = [
      { name: 'login', limits: '1/1m', match: '/login' },
      { name: 'exact', limits: '1/1m', match: '/exact', ignore_case: false },
    ]
    const requests = ['/login', '/LOGIN', '/exact', '/EXACT'].map((path) => ({ path, ...X }))
    expect(await judge(adapter, { policies }, requests)).toEqual([200, 429, 200, 200])
  })

  test('takes quotas by the calendar', async () => {
    const plan = {
      name: 'plan',
      algorithm: 'quota',
      limits: '1/month',
      time_zone: 'Europe/Berlin',
      starts: 15,
    } as const
    const { clock, sendInTurn } = await start(adapter, { policies: [plan] })
    expect(await sendInTurn([X, X])).toEqual([200, 429])
    clock.nowMs = Date.parse('2023-11-15T00:00+01:00')
    expect(await sendInTurn([X, X])).toEqual([200, 429])
  })

  test('with mode = "shadow", reports and refuses nothing', async () => {
    const { lines, sendInTurn } = await start(adapter, { limits: '1/1m', mode: 'shadow', anonymous: 'deny' })
    expect(await sendInTurn([X, X, {}])).toEqual([200, 200, 200])
    expect(lines).toContainEqual(expect.objectContaining({ event: 'shadow_limited', violated: ['default-1m'] }))
  })

  test('names keys and formats headers as rateLimitHeaders, name and keyPrefix say', async () => {
    const keys: string[] = []
    const memory = new MemoryStore(Date.now)
    const store = Object.assign(Object.create(memory) as Store, {
      decide: (request: Parameters<Store['decide']>[0]) => {
        keys.push(...request.charges.map(({ key }) => key))
        return memory.decide(request)
      },
    })
    const remote = { isRemote: true, timeoutMs: 1_000, open: () => store }
    const own = { name: 'mine', keyPrefix: 'shop', rateLimitHeaders: 'draft-6', store: remote } as const
    const { send } = await start(adapter, { limits: '5/1m', ...own })
    expect((await send(X)).headers.get('RateLimit-Remaining')).toBe('4')
    expect(keys).toEqual([expect.stringMatching(/^shop:mine:w:\{[\w-]{22}\}$/)])
  })

  test.each([
    ['local', [200, 429]],
    ['open', [200, 200]],
    ['closed', [503, 503]],
  ] as const)('with onStoreError = "%s" and no store, answers %j', async (onStoreError, expected) => {
    const fail = () => Promise.reject(new StoreError('unavailable', { mayHaveRun: false }))
    const store = { isRemote: true, timeoutMs: 1_000, open: () => new Proxy({} as Store, { get: () => fail }) }
    const { lines, send, sendInTurn } = await start(adapter, { limits: '1/1m', onStoreError, store })
    expect(await sendInTurn([X, X])).toEqual(expected)
    expect((await send(X)).headers.get('Sluice-Degraded')).toBe(onStoreError)
    expect(lines).toContainEqual(expect.objectContaining({ event: 'store_error' }))
  })

  describe('cost', () => {
    const costing = (units: number | string): Sent => ({ headers: { 'X-Cost': `${units}`, ...X.headers } })
    const options: Options = { limits: '10/1m', cost: ({ headers }) => Number(headers.get('X-Cost')) }

    test('is what the function says', async () => {
      expect(await judge(adapter, options, [7, 4, 3, 1].map(costing))).toEqual([200, 429, 200, 429])
    })

    test.each(['0', '-1', '1.5', 'x', '-Infinity'])('of %s is an error that is thrown, and no pass', async (n) => {
      const { send } = await start(adapter, options)
      const failed = await send(costing(n))
      const expected = `RangeError: cost: expected an integer from 1 to 10, got ${Number(n)}`
      expect([failed.status, await failed.text()]).toEqual([500, expected])
      expect(readRemaining(await send(costing(1)))).toEqual([9])
    })

    test.each(['11', '10.5', 'Infinity'])(
      'of %s, which no request may have, is a problem with what it may',
      async (n) => {
        const { send } = await start(adapter, options)
        const refused = await send(costing(n))
        const problem = { status: 413, title: 'Content Too Large', code: 'invalid_cost', max_cost: 10 }
        expect([refused.status, refused.headers.get('Retry-After')]).toEqual([413, null])
        expect(await refused.json()).toMatchObject(problem)
        expect(readRemaining(await send(costing(1)))).toEqual([9])
        const { sendInTurn } = await start(adapter, { ...options, mode: 'shadow' })
        expect(await sendInTurn([costing(n)])).toEqual([200])
        const byHeader = [{ name: 'one', limits: '10/1m', cost: 'header:x-cost', max_cost: 10 }]
        const other = await start(adapter, { policies: byHeader })
        expect(await other.sendInTurn(['11', '0', '5'].map(costing))).toEqual([413, 400, 200])
      },
    )

    test('does not replace that of a policy, of slots or of new identities', async () => {
      const { send } = await start(adapter, {
        policies: [
          { name: 'own', limits: '10/1m', cost: 2 },
          { name: 'slots', limits: '3', algorithm: 'concurrency' },
          { name: 'new', limits: '5/1m', counts: 'new-identities', by: 'global' },
        ],
        cost: () => 9,
      })
      const { limits } = (await (await send(X)).json()) as RateLimit
      expect(limits.map(({ name, remaining }) => `${name}: ${remaining}`)).toEqual([
        'own-1m: 8',
        'slots: 2',
        'new-1m: 4',
      ])
    })
  })
}
