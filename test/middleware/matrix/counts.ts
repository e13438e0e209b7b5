/** Counts that an application reads and resets by identity, and shares with a limiter of the library. */
import { expect, test } from 'vitest'
import { createLimiter, type LimiterOptions, memoryStore } from '../../../src/index.ts'
import type { CallerCounts } from '../../../src/middleware/counts.ts'
import { type Adapter, readRemaining, start, X, Y } from './adapter.ts'

const BY_USER = { identify: ({ headers }: { readonly headers: Headers }) => headers.get('Authorization') ?? undefined }
const PLANS = { limits: '2/1h', plans: { pro: '9/1h' } }

/** Limits that the library takes, and how middleware says the same. */
const SAME: readonly (readonly [name: string, ofLibrary: LimiterOptions, ofMiddleware: object])[] = [
  ['limits', { limits: '2/1h' }, { limits: '2/1h' }],
  ['plans', PLANS, { ...PLANS, plan: () => 'pro' }],
  ...(
    [
      { name: 'two', algorithm: 'sliding-window', limits: '2/1h, 9/1d' },
      { name: 'bucket', algorithm: 'token-bucket', limits: '2/1h', burst: 5 },
      { name: 'month', algorithm: 'quota', limits: '2/month', starts: 15 },
      { name: 'fixed', algorithm: 'fixed-window', limits: '2/1h', penalty: '1h' },
    ] as const
  ).map((policy) => [policy.algorithm, { policies: [policy] }, { policies: [policy] }] as const),
]

export function describeCounts(adapter: Adapter): void {
  const make = (options: object) => adapter.make({ log() {}, ...options }) as CallerCounts

  test('resets and peeks at the counts of one caller, and no other', async () => {
    const now = () => 1_700_000_000_000
    const options = { limits: '2/1h', store: memoryStore({ now }), now }
    const { sendInTurn, send } = await start(adapter, options)
    const { reset, peek } = make(options)
    expect(await sendInTurn([X, X, X, Y])).toEqual([200, 200, 429, 200])
    expect(await peek('X')).toMatchObject({ granted: false, retryAfterMs: 3_600_000, limits: [{ remaining: 0 }] })
    expect(await peek('Y')).toMatchObject({ granted: true, charged: 0, limits: [{ policy: 'default', remaining: 1 }] })
    await reset('X')
    expect((await peek('X')).limits[0]?.remaining).toBe(2)
    expect(readRemaining(await send(X))).toEqual([1])
    expect(readRemaining(await send(Y))).toEqual([0])
  })

  test('knows a caller by what its function, or each kind of `by`, makes of it', async () => {
    const sent = { headers: { Authorization: 'Bearer X', 'X-Key': 'Key', 'X-User': 'a' }, path: '/?q=1' }
    const cases: readonly (readonly [options: object, identity: Parameters<CallerCounts['reset']>[0]])[] = [
      [BY_USER, 'Bearer X'],
      [{ by: 'token' }, 'X'],
      [{ by: 'header:x-key', fold: 'lower' }, 'KEY'],
      [{ by: 'query:q' }, '1'],
      [{ by: 'header:x-user+query:q' }, ['header:x-user', 'a', 'query:q', '1']],
      [{ by: 'global' }, ['global', '']],
      [{ by: 'ip', trustProxy: () => '2001:db8::1' }, '2001:db8:0:0:ffff::'],
      [{ by: 'ip', trustProxy: () => '192.0.2.1' }, '::ffff:192.0.2.1'],
      [{ by: 'header:x-none', trustProxy: () => '2001:db8::1' }, ['ip', '2001:db8::/64']],
      [{ by: 'ip', identitySecret: 'a secret of 16 characters', trustProxy: () => '192.0.2.1' }, '192.0.2.1'],
      [{ limits: undefined, policies: [{ name: 'one', limits: '2/1h', by: 'header:x-user' }] }, { one: 'a' }],
    ]
    for (const [options, identity] of cases) {
      const whole = { limits: '2/1h', store: memoryStore(), ...options }
      const { sendInTurn } = await start(adapter, { ...whole, now: undefined })
      const { reset, peek } = make(whole)
      expect([options, await sendInTurn([sent, sent, sent])]).toEqual([options, [200, 200, 429]])
      expect([options, (await peek(identity)).limits[0]?.remaining]).toEqual([options, 0])
      await reset(identity)
      expect([options, await sendInTurn([sent])]).toEqual([options, [200]])
    }
  })

  test('peeks at new identities by the limits of a plan, too', async () => {
    const limits = { free: '2/1h', pro: '5/1h' }
    const policies = [
      { name: 'calls', limits: '9/1h', by: 'token' },
      { name: 'callers', by: 'ip', counts: 'new-identities', limits, plan: 'header:x-plan', default_plan: 'free' },
    ] as const
    const options = { policies, trustProxy: () => '192.0.2.1', store: memoryStore() }
    const { sendInTurn } = await start(adapter, { ...options, now: undefined })
    const { peek } = make(options)
    const asPro = ({ headers }: typeof X) => ({ headers: { ...headers, 'X-Plan': 'pro' } })
    expect(await sendInTurn([asPro(X), asPro(Y), asPro(X)])).toEqual([200, 200, 200])
    expect((await peek({ callers: '192.0.2.1' }, { plan: 'pro' })).limits[0]?.remaining).toBe(3)
    expect((await peek({ callers: '192.0.2.1' })).limits[0]?.remaining).toBe(0)
  })

  test('resets the counts of the policies that are named, by what each counts', async () => {
    const policies = [
      { name: 'calls', limits: '9/1h', by: 'token' },
      { name: 'login', limits: '2/1h', by: 'ip' },
    ] as const
    const options = { policies, trustProxy: () => '192.0.2.1', store: memoryStore() }
    const { send } = await start(adapter, { ...options, now: undefined })
    const { reset, peek } = make(options)
    for (let sent = 0; sent < 3; sent++) await (await send(X)).text()
    await reset({ login: '192.0.2.1' })
    expect(readRemaining(await send(X))).toEqual([6, 1])
    expect((await peek({ calls: 'X' })).limits).toMatchObject([{ policy: 'calls', remaining: 6 }])
    await expect(peek('X')).rejects.toThrow('identity: expected one for each policy (calls, login), got "X"')
    await expect(reset({ logins: 'X' })).rejects.toThrow('identity: expected names of policies (calls, login)')
    await expect(reset({ login: 'X' })).rejects.toThrow('identity: expected an address, got "X"')
    await expect(reset('')).rejects.toThrow('identity: expected a string that is not empty, or a list of strings')
    await expect(peek(undefined as never)).rejects.toThrow('identity: expected')
  })

  test('peeks by the plan that is named', async () => {
    const options = { ...PLANS, plan: () => 'pro', store: memoryStore() }
    const { sendInTurn } = await start(adapter, { ...options, now: undefined })
    const { peek } = make(options)
    expect(await sendInTurn([X, X])).toEqual([200, 200])
    expect((await peek('X', { plan: 'pro' })).limits).toMatchObject([{ limit: 9, remaining: 7 }])
    expect((await peek('X')).limits).toMatchObject([{ limit: 2, remaining: 0 }])
  })

  test.each(SAME)(
    'shares a store with a limiter of the same %s, and its counts',
    async (_, ofLibrary, ofMiddleware) => {
      for (const isFirst of [true, false]) {
        const store = memoryStore()
        const createOther = () => createLimiter({ ...ofLibrary, store })
        const first = isFirst ? createOther() : undefined
        const { send } = await start(adapter, { ...ofMiddleware, store, now: undefined } as object)
        const limiter = first ?? createOther()
        const plan = 'plans' in ofLibrary ? { plan: 'pro' } : {}
        const [before = 0] = (await limiter.peek(['token', 'X'], plan)).limits.map(({ remaining }) => remaining)
        await send(X)
        expect((await limiter.peek(['token', 'X'], plan)).limits[0]?.remaining).toBe(before - 1)
      }
    },
  )

  test('does not share a store with a limiter of other windows', () => {
    const store = memoryStore()
    make({ limits: '2/1h', store })
    expect(() => createLimiter({ limits: '2/1m', store })).toThrow('a name or a keyPrefix of its own')
    expect(() => make({ limits: '3/1h', store })).toThrow('a name or a keyPrefix of its own')
    // Another number for the same windows, as customers have them.
    createLimiter({ limits: '5/1h', store })
    expect(() => make({ limits: '3/1h', store })).toThrow('a name or a keyPrefix of its own')
  })
}
