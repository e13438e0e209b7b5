/** Whom a request is counted for. */
import { describe, expect, test } from 'vitest'
import { makeKey, signToken } from '../../support/tokens.ts'
import { type Adapter, judge, type Options, readRemaining, start, X } from './adapter.ts'

/** On Workers, `CF-Connecting-IP` holds the address: Cloudflare sets it. */
const { navigator } = globalThis as { navigator?: { readonly userAgent?: string } }
const isWorker = navigator?.userAgent === 'Cloudflare-Workers'

export function describeCallers(adapter: Adapter): void {
  const withHeader = (name: string, ...values: readonly string[]) =>
    values.map((value) => ({ headers: { ...X.headers, [name]: value } }))

  // No proxy of ours stands between a client and an app: it sees every field.
  test.each(['x-real-ip', 'x_key', 'x-forwarded-user'])('counts by header:%s in every form of policy', async (name) => {
    const by = `header:${name}`
    for (const options of [{ limits: '1/1m', by }, { policies: [{ name: 'a', limits: '1/1m', by }] }]) {
      expect(await judge(adapter, options, withHeader(name, 'a', 'a', 'b'))).toEqual([200, 429, 200])
    }
    const policies = [{ name: 'a', limits: '2/1m', cost: `header:${name}`, max_cost: 2 }]
    expect(await judge(adapter, { policies }, withHeader(name, '2', '2'))).toEqual([200, 429])
  })

  test('counts two credentials in one request as none', async () => {
    const both = { headers: { Authorization: ['Bearer X', 'Bearer Y'] } }
    expect(await judge(adapter, { limits: '1/1h' }, [X, {}, both])).toEqual([200, 200, 429])
  })

  describe('identify', () => {
    const KEYS: Readonly<Record<string, string>> = { k1: 'ada', k2: 'ada', k3: 'bob' }
    const options: Options = {
      limits: '1/1m',
      identify: async ({ headers }) => KEYS[headers.get('X-Key') ?? ''],
      trustProxy: ({ headers }) => headers.get('X-Test-Address') ?? undefined,
    }
    const key = (name: string, address = '192.0.2.1') => ({ headers: { 'X-Key': name, 'X-Test-Address': address } })

    test('says who calls, and counts by address a caller whom it does not know', async () => {
      const requests = [key('k1'), key('k2'), key('k3'), key('k4'), key('k5'), key('k4', '192.0.2.2')]
      expect(await judge(adapter, options, requests)).toEqual([200, 429, 200, 200, 429, 200])
    })

    test.each([
      ['deny', [200, 401, 401]],
      ['deny:403', [200, 403, 403]],
      ['skip', [200, 200, 200]],
    ])('leaves it to anonymous = "%s" what becomes of one whom it does not know', async (anonymous, expected) => {
      expect(await judge(adapter, { ...options, anonymous }, [key('k1'), key('k4'), key('')])).toEqual(expected)
    })

    test('throws what is neither text nor undefined, and admits nobody for it', async () => {
      const { send } = await start(adapter, { ...options, identify: () => 7 as never })
      const response = await send(X)
      const expected = 'TypeError: identify: expected a string or undefined, got a number'
      expect([response.status, await response.text()]).toEqual([500, expected])
    })
  })

  describe('plan', () => {
    const options: Options = {
      limits: '2/1m',
      plans: { pro: '4/1m', trial: '1/1m' },
      plan: async ({ headers }) => headers.get('X-Test-Plan') ?? undefined,
    }
    const of = (plan: string, who = 'X') => ({
      headers: { Authorization: `Bearer ${who}`, ...(plan && { 'X-Test-Plan': plan }) },
    })

    test('gives each caller the limits of its plan, and those of none to all others', async () => {
      const { send } = await start(adapter, options)
      for (const [plan, left] of [
        ['pro', 3],
        ['', 1],
        ['gold', 1],
        ['constructor', 1],
        ['trial', 0],
      ] as const) {
        expect([plan, ...readRemaining(await send(of(plan, `of-${plan}`)))]).toEqual([plan, left])
      }
    })

    test('of a caller may change: what it has used counts in each', async () => {
      const { send, sendInTurn } = await start(adapter, options)
      expect(await sendInTurn([of(''), of(''), of(''), of('pro'), of('trial')])).toEqual([200, 200, 429, 200, 429])
      const response = await send(of('pro'))
      const fields = ['RateLimit-Policy', 'RateLimit'].map((name) => response.headers.get(name))
      expect(fields).toEqual(['"default-1m";q=4;w=60', '"default-1m";r=0;t=60'])
    })

    test('is that of policies that say none themselves', async () => {
      const byPlan = { limits: { free: '1/1m', pro: '3/1m' }, default_plan: 'free' }
      const policies = [
        { name: 'api', ...byPlan },
        { name: 'own', ...byPlan, limits: { free: '5/1m', pro: '9/1m' }, plan: 'header:x-own' },
      ]
      const { send } = await start(adapter, { policies, plan: options.plan })
      expect(readRemaining(await send(of('pro')))).toEqual([2, 4])
      expect(readRemaining(await send(of('', 'Y')))).toEqual([0, 4])
    })

    test('throws what is neither text nor undefined', async () => {
      const { send } = await start(adapter, { ...options, plan: () => null as never })
      const response = await send(X)
      const expected = 'TypeError: plan: expected a string or undefined, got null'
      expect([response.status, await response.text()]).toEqual([500, expected])
    })
  })

  describe('onDecision', () => {
    test('gets each decision with the request, and no identity', async () => {
      const calls: (readonly [path: string, decision: unknown])[] = []
      const { sendInTurn } = await start(adapter, {
        policies: [{ name: 'all', limits: '2/1m', cost: '2' }],
        exempt: '/free',
        skip: ({ path }) => path === '/skipped',
        onDecision: (decision, { path }) => calls.push([path, decision]),
      })
      const paths = ['/a', '/b', '/free', '/skipped']
      expect(await sendInTurn(paths.map((path) => ({ path, ...X })))).toEqual([200, 429, 200, 200])
      const durationMs = expect.any(Number)
      const limit = { policy: 'all', limit: 2, remaining: 0 }
      expect(calls).toMatchObject([
        ['/a', { outcome: 'admitted', costs: { all: 2 }, decidedBy: 'memory', limits: [limit], durationMs }],
        ['/b', { outcome: 'limited', costs: { all: 2 }, decidedBy: 'memory', retryAfterMs: 60_000, durationMs }],
        ['/free', { outcome: 'admitted', costs: {}, limits: [], durationMs }],
      ])
      expect(calls[2]?.[1]).not.toHaveProperty('decidedBy')
      expect(JSON.stringify(calls)).not.toContain('Bearer')
    })

    test('changes no answer by what it throws, which is logged', async () => {
      const onDecision = () => {
        throw new Error('broken')
      }
      const { sendInTurn, lines } = await start(adapter, { limits: '1/1m', onDecision })
      expect(await sendInTurn([X, X])).toEqual([200, 429])
      expect(lines).toContainEqual({ level: 'error', event: 'background_error', message: 'onDecision: broken' })
    })
  })

  describe('delay', () => {
    test('ends when the clock of the program has moved', async () => {
      const { clock, send } = await start(adapter, { limits: '9/1m', delay: () => 3_600_000 })
      const waiting = send(X)
      const moving = setInterval(() => {
        clock.nowMs += 3_600_000
      }, 10)
      expect((await waiting).status).toBe(200)
      clearInterval(moving)
    })

    test('makes what is admitted wait by what its limits have left, and no refusal', async () => {
      const waits: (readonly [number, number])[] = []
      const { send, sendInTurn } = await start(adapter, {
        limits: '4/1m, 100/1h',
        exempt: '/free',
        delay: async ([minute, hour], { path }) => {
          waits.push([minute.limit - minute.remaining, hour?.remaining ?? -1])
          return path === '/slow' ? 30 : 0
        },
      })
      const slow = { path: '/slow', ...X }
      expect(await sendInTurn([X, slow, slow])).toEqual([200, 200, 200])
      const beganAtMs = performance.now()
      expect((await send(slow)).status).toBe(200)
      expect(performance.now() - beganAtMs).toBeGreaterThanOrEqual(29)
      expect(await sendInTurn([slow, { path: '/free', ...X }])).toEqual([429, 200])
      const expected = [1, 2, 3, 4].map((used) => [used, 100 - used])
      expect(waits).toEqual(expected)
    })

    test('is none in shadow mode', async () => {
      const delay = () => Promise.reject(new Error('it is called'))
      expect(await judge(adapter, { limits: '1/1m', mode: 'shadow', delay }, [X, X])).toEqual([200, 200])
    })

    test.each([-1, Number.NaN, Number.POSITIVE_INFINITY, '5'])('throws for %s, and keeps no slot', async (waitMs) => {
      const policies = [{ name: 'slots', limits: '1', algorithm: 'concurrency', slot_ttl: '1h' }] as const
      const delay: Options['delay'] = (_, { path }) => (path === '/wrong' ? (waitMs as number) : 0)
      const { send, sendInTurn } = await start(adapter, { policies, delay })
      const response = await send({ path: '/wrong', ...X })
      const expected = `RangeError: delay: expected milliseconds from 0, got ${waitMs}`
      expect([response.status, await response.text()]).toEqual([500, expected])
      await expect.poll(() => sendInTurn([X])).toEqual([200])
    })
  })

  test('skip admits a request without limits, and says so', async () => {
    const { send, sendInTurn } = await start(adapter, { limits: '1/1m', skip: async ({ path }) => path === '/free' })
    const free = { path: '/free', ...X }
    expect(await sendInTurn([X, X, free])).toEqual([200, 429, 200])
    const response = await send(free)
    expect(response.headers.has('RateLimit')).toBe(false)
    expect(await response.json()).toEqual({ outcome: 'admitted', limits: [] })
  })

  const policies = [{ name: 'own', limits: '1/1m', by: 'query:user' }]
  const identify: Options['identify'] = ({ path }) => new URLSearchParams(path.slice(1)).get('user') ?? undefined
  test.each<[string, Options, readonly number[]]>([
    ['what people type in another case', { limits: '1/1m', fold: 'lower', by: 'query:user' }, [200, 429, 200]],
    ['what the app says', { limits: '1/1m', fold: 'lower trim', identify }, [200, 429, 200]],
    ['nothing for a policy that says itself', { policies, fold: 'lower', by: 'header:x' }, [200, 200, 200]],
  ])('fold makes one caller of %s', async (_, options, expected) => {
    const requests = ['/?user=Ada', '/?user=%20aDA', '/?user=eve'].map((path) => ({ path }))
    expect(await judge(adapter, options, requests)).toEqual(expected)
  })

  test('without trustProxy, no field of a client is believed', async () => {
    const names = ['X-Forwarded-For', 'X-Real-IP', ...(isWorker ? [] : ['CF-Connecting-IP'])]
    const claims = names.map((name, index) => ({ headers: { [name]: `192.0.2.${index}` } }))
    expect(await judge(adapter, { limits: '1/1m', by: 'ip' }, [{}, ...claims])).toEqual([200, ...claims.map(() => 429)])
  })

  test.each([
    [1, ['192.0.2.1', '192.0.2.2, 192.0.2.1', '192.0.2.3'], [200, 429, 200]],
    [2, ['192.0.2.1, 198.51.100.1', '192.0.2.9, 192.0.2.1, 198.51.100.2'], [200, 429]],
    [2, ['192.0.2.2:4711, 198.51.100.1', '192.0.2.2, 198.51.100.1'], [200, 429]],
    [2, ['[2001:db8::1]:443, 198.51.100.1', '2001:db8::2, 198.51.100.1'], [200, 429]],
  ])('with trustProxy: %i, the client itself sent whatever comes before their entries: %j', async (...args) => {
    const [trustProxy, hops, expected] = args
    const requests = withHeader('X-Forwarded-For', ...hops)
    expect(await judge(adapter, { limits: '1/1m', by: 'ip', trustProxy }, requests)).toEqual(expected)
  })
}

const SECRET = 'a secret of thirty-two characters'
const BY_CLAIM = { limits: '2/1h', by: 'claim:sub', anonymous: 'deny' }

export function describeClaims(adapter: Adapter): void {
  async function startWith(options: Options) {
    const { send } = await start(adapter, { now: Date.now, ...options })
    return async (claims?: object, secret = SECRET) => {
      const token = claims && (await signToken({ ...claims }, { secret }))
      const response = await send({ headers: token === undefined ? {} : { Authorization: `Bearer ${token}` } })
      return [response.status, ...readRemaining(response)]
    }
  }

  test('counts by a claim', async () => {
    const call = await startWith({ ...BY_CLAIM, jwt: { secret: SECRET } })
    expect(await call({ sub: 'alice' })).toEqual([200, 1])
    expect(await call({ sub: 'alice', jti: '2' })).toEqual([200, 0])
    expect(await call({ sub: 'alice', jti: '3' })).toEqual([429, 0])
    expect(await call({ sub: 'bob' })).toEqual([200, 1])
    expect(await call()).toEqual([401])
    expect(await call({ sub: 'bob' }, 'x'.repeat(32))).toEqual([401])
    expect(await call({ sub: 'bob', exp: 1 })).toEqual([401])
  })

  test('gives each caller the limits of the plan that a claim says', async () => {
    const policy = { name: 'api', limits: { free: '2/1h', pro: '9/1h' }, plan: 'claim:plan', default_plan: 'free' }
    const call = await startWith({ policies: [{ ...policy, by: 'claim:sub' }], jwt: { secret: SECRET } })
    expect(await call({ sub: 'alice', plan: 'pro' })).toEqual([200, 8])
    expect(await call({ sub: 'bob', plan: 'gold' })).toEqual([200, 1])
    expect(await call({ sub: 'carol', plan: ['pro'] })).toEqual([200, 1])
    expect(await call({ sub: 'dave', plan: 'pro' }, 'x'.repeat(32))).toEqual([200, 1])
  })

  test('does not take a public key for a secret', async () => {
    const { jwk } = await makeKey('one')
    const call = await startWith({ ...BY_CLAIM, jwt: { jwksUrl: 'https://id.example.invalid/keys' } })
    expect(await call({ sub: 'alice' }, JSON.stringify(jwk))).toEqual([401])
  })
}
