import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { ALGORITHM_NAMES, type AlgorithmName } from '../../src/core/model/limits.ts'
import { StoreError } from '../../src/core/model/store.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import {
  concurrency,
  createLimiter,
  type Decision,
  fixedWindow,
  type LimiterOptions,
  type Limits,
  memoryStore,
  type ObservedDecision,
  OptionError,
  quota,
  redisStore,
  SlidingWindowCounter,
  slidingWindow,
  sortedSet,
  type TakeOptions,
  tokenBucket,
} from '../../src/index.ts'

const START_MS = 1_700_000_000_000

/** The package has a function for each algorithm. */
const DEFINITIONS: Readonly<Record<AlgorithmName, Limits>> = {
  'sliding-window': slidingWindow('1/1s'),
  'token-bucket': tokenBucket('1/1s'),
  'fixed-window': fixedWindow('1/1s'),
  quota: quota('1/1s'),
  'sorted-set': sortedSet('1/1s'),
  concurrency: concurrency(1),
}

test.each(ALGORITHM_NAMES)('%s has a function that defines it', (name) => {
  expect(DEFINITIONS[name].algorithm).toBe(name)
})

function subject(options: LimiterOptions) {
  const clock = { now: START_MS }
  return { clock, limiter: createLimiter({ now: () => clock.now, ...options }) }
}

describe('take()', () => {
  test('grants up to the limit, then says when the same will be granted', async () => {
    const { clock, limiter } = subject({ limits: '2/1s, 3/1m' })
    expect(await limiter.take('alice')).toEqual({
      granted: true,
      limits: [
        {
          policy: 'default',
          name: 'default-1s',
          limit: 2,
          windowMs: 1_000,
          remaining: 1,
          resetMs: 1_000,
          retryAfterMs: 0,
        },
        {
          policy: 'default',
          name: 'default-1m',
          limit: 3,
          windowMs: 60_000,
          remaining: 2,
          resetMs: 60_000,
          retryAfterMs: 0,
        },
      ],
      retryAfterMs: 0,
      decidedAtMs: START_MS,
      charged: 1,
    })
    clock.now += 400
    await limiter.take('alice')
    const refused = await limiter.take('alice')
    expect(refused).toMatchObject({ granted: false, retryAfterMs: 600, charged: 0 })
    clock.now += 599
    expect((await limiter.take('alice')).granted).toBe(false)
    clock.now += 1
    expect((await limiter.take('alice')).granted).toBe(true)
    expect(await limiter.take('alice')).toMatchObject({ granted: false, retryAfterMs: 59_000 })
  })

  test('a shadow policy says what it would refuse, and refuses nothing', async () => {
    const { limiter } = subject({
      policies: [
        { name: 'new', ...slidingWindow('1/1s'), mode: 'shadow' },
        { name: 'day', ...quota('9/1d') },
      ],
    })
    await limiter.take('alice')
    const decision = await limiter.take('alice')
    expect(decision).toMatchObject({ granted: true, retryAfterMs: 0 })
    expect(decision.limits[0]).toMatchObject({ policy: 'new', retryAfterMs: 1_000 })
  })

  test('each identity has limits of its own: texts, lists, or one for each policy', async () => {
    const policies = [
      { name: 'user', ...slidingWindow('2/1s') },
      { name: 'address', ...slidingWindow('3/1s') },
    ]
    const { limiter } = subject({ policies })
    const remaining = async (identity: Parameters<typeof limiter.take>[0]) =>
      (await limiter.take(identity)).limits.map((limit) => limit.remaining)
    expect(await remaining('alice')).toEqual([1, 2])
    expect(await remaining(['alice'])).toEqual([0, 1])
    expect(await remaining(['ali', 'ce'])).toEqual([1, 2])
    expect(await remaining('["ali","ce"]')).toEqual([1, 2])
    expect(await remaining({ user: 'bob', address: ['ip', '192.0.2.1'] })).toEqual([1, 2])
    expect(await remaining({ user: 'eve', address: ['ip', '192.0.2.1'] })).toEqual([1, 1])
  })

  test('limiters that are given one memory share it', async () => {
    const store = memoryStore()
    const limiters = [1, 2].map(() => createLimiter({ limits: '1/1m', store }))
    const granted = await Promise.all(limiters.map(async (limiter) => (await limiter.take('alice')).granted))
    expect(granted.toSorted()).toEqual([false, true])
  })
})

describe('takeUpTo()', () => {
  test('grants as much as all policies have, and loses nothing of the others', async () => {
    const { limiter } = subject({
      policies: [
        { name: 'minute', ...quota('300/1m') },
        { name: 'hour', ...tokenBucket('100/1h') },
      ],
    })
    expect(await limiter.takeUpTo('partner', 40)).toMatchObject({ granted: 40, charged: 40, retryAfterMs: 0 })
    const { granted, limits } = await limiter.takeUpTo('partner', 200)
    expect(granted).toBe(60)
    expect(limits.map(({ remaining }) => remaining)).toEqual([200, 0])
    expect(await limiter.takeUpTo('partner', 5)).toMatchObject({ granted: 0, charged: 0, retryAfterMs: 36_000 })
  })

  test('counts permits at their cost', async () => {
    const { limiter } = subject({ limits: '10/1s' })
    expect(await limiter.takeUpTo('alice', 9, { cost: 3 })).toMatchObject({ granted: 3, charged: 9 })
  })
})

describe('a policy with a penalty', () => {
  const options = { policies: [{ name: 'api', ...slidingWindow('3/1s'), penalty: '1m', penaltyAfter: 2 }] }

  test('refuses who was refused as often as said, for as long as said', async () => {
    const { clock, limiter } = subject(options)
    await limiter.take('alice', { cost: 2 })
    expect(await limiter.take('alice', { cost: 2 })).toMatchObject({ granted: false, retryAfterMs: 1_000 })
    const refused = await limiter.take('alice', { cost: 2 })
    const state = { policy: 'api', name: 'api-1s', remaining: 0, resetMs: 60_000, penaltyMs: 60_000 }
    expect(refused).toMatchObject({ granted: false, retryAfterMs: 60_000, charged: 0, limits: [state] })
    clock.now += 30_000
    expect(await limiter.take('alice')).toMatchObject({ granted: false, retryAfterMs: 30_000 })
    expect(await limiter.peek('alice')).toMatchObject({ granted: false, limits: [{ penaltyMs: 30_000 }] })
    expect(await limiter.take('bob')).toMatchObject({ granted: true })
    clock.now += 30_000
    const { limits } = await limiter.take('alice')
    expect(limits[0]).not.toHaveProperty('penaltyMs')
  })

  test('lets nobody take in advance, and reset() lifts it', async () => {
    const { limiter } = subject({ ...options, leases: 'auto' })
    for (let i = 0; i < 6; i++) await limiter.take('alice')
    expect(await limiter.take('alice')).toMatchObject({ granted: false, limits: [{ penaltyMs: 60_000 }] })
    await limiter.reset('alice')
    expect(await limiter.take('alice')).toMatchObject({ granted: true })
  })

  test('gives penalties in each process by itself while the store is unavailable', async () => {
    const store = { isRemote: true, timeoutMs: 500, open: () => new UnavailableStore() }
    const { limiter } = subject({ ...options, store: store as never, log: () => {} })
    for (let i = 0; i < 5; i++) await limiter.take('alice')
    expect(await limiter.take('alice')).toMatchObject({ degraded: 'local', limits: [{ penaltyMs: 60_000 }] })
  })
})

/** As a store that is out of reach. */
class UnavailableStore extends MemoryStore {
  constructor() {
    super(() => START_MS)
  }

  override async decide(): Promise<never> {
    throw new StoreError('unavailable', { mayHaveRun: false })
  }
}

describe('onDecision', () => {
  function observe(options: LimiterOptions) {
    const decisions: ObservedDecision[] = []
    return { decisions, ...subject({ onDecision: (decision) => decisions.push(decision), ...options }) }
  }

  test('gets what was requested and decided, and no identity', async () => {
    const { limiter, decisions } = observe({ limits: '3/1s' })
    const { limits, decidedAtMs } = await limiter.take('alice', { cost: 2 })
    expect(await limiter.takeUpTo('alice', 5)).toMatchObject({ granted: 1 })
    await limiter.peek('alice')
    const [first, ...others] = decisions
    expect(first).toEqual({
      ...{ action: 'take', permits: 1, granted: 1, costs: { default: 2 }, charged: 2 },
      ...{ limits, retryAfterMs: 0, decidedAtMs, decidedBy: 'memory', durationMs: expect.any(Number) },
    })
    expect(first?.durationMs).toBeGreaterThanOrEqual(0)
    expect(others).toMatchObject([
      { action: 'take-up-to', permits: 5, granted: 1, charged: 1, costs: { default: 1 } },
      { action: 'peek', permits: 1, granted: 0, charged: 0, retryAfterMs: 1_000 },
    ])
    expect(JSON.stringify(decisions)).not.toContain('alice')
  })

  test('gets a hold, each try of a wait, and the plan', async () => {
    const slots = observe({ policies: [{ name: 'jobs', ...concurrency(1), plans: { pro: '2' } }] })
    await slots.limiter.hold('alice', { plan: 'pro' })
    expect(slots.decisions).toMatchObject([{ action: 'take', granted: 1, costs: { jobs: 1 }, plan: 'pro' }])
    const { limiter, decisions } = observe({ limits: '1/1s' })
    await limiter.waitFor('alice')
    await limiter.waitFor('alice', { maxWaitMs: 0 })
    expect(decisions.map(({ granted }) => granted)).toEqual([1, 0])
  })

  test('tells what the refusal cache has refused, of calls at once each by itself', async () => {
    const { limiter, decisions, clock } = observe({ limits: '1/1s', refusalCache: true })
    await Promise.all(['alice', 'bob'].map((identity) => limiter.take(identity)))
    await limiter.take('alice')
    await Promise.all(['alice', 'carol', 'alice'].map((identity) => limiter.take(identity)))
    const cached = ({ decidedBy, granted }: ObservedDecision) => `${decidedBy} ${granted}`
    expect(decisions.slice(0, 3).map(cached)).toEqual(['memory 1', 'memory 1', 'memory 0'])
    expect(decisions.slice(3).map(cached).toSorted()).toEqual(['memory 1', 'refusal-cache 0', 'refusal-cache 0'])
    clock.now += 1_000
    await limiter.take('alice')
    expect(decisions.at(-1)).toMatchObject({ decidedBy: 'memory', granted: 1 })
  })

  test('tells what leases have granted: of one policy, and of two', async () => {
    const long = { name: 'long', ...slidingWindow('90000/1h') }
    for (const options of [{ limits: '1000/1m' }, { policies: [{ name: 'a', ...slidingWindow('1000/1m') }, long] }]) {
      const { limiter, decisions } = observe({ ...options, leases: 'auto' })
      for (let i = 0; i < 300; i++) await limiter.take('alice')
      const count = (name: string) => decisions.filter(({ decidedBy }) => decidedBy === name).length
      expect(decisions[0]?.decidedBy).toBe('memory')
      expect(count('lease')).toBeGreaterThan(0)
      expect(count('lease') + count('memory')).toBe(300)
    }
  })

  test.each([
    ['local', 1],
    ['open', 1],
    ['closed', 0],
  ] as const)('tells the fallback: %s', async (onStoreError, granted) => {
    const store = { isRemote: true, timeoutMs: 500, open: () => new UnavailableStore() }
    const { limiter, decisions } = observe({ limits: '1/1s', store: store as never, log: () => {}, onStoreError })
    await limiter.take('alice')
    expect(decisions).toMatchObject([{ decidedBy: onStoreError, granted, degraded: onStoreError }])
  })

  test('tells of a remote store', async () => {
    const store = { isRemote: true, timeoutMs: 500, open: () => new MemoryStore(() => START_MS) }
    const { limiter, decisions } = observe({ limits: '1/1s', store: store as never })
    for (let i = 0; i < 3; i++) await limiter.take('alice')
    expect(decisions.map(({ decidedBy }) => decidedBy)).toEqual(['store', 'store', 'refusal-cache'])
  })

  test.each([
    () => {
      throw new Error('broken')
    },
    () => Promise.reject(new Error('broken')),
  ])('changes no decision by what it throws, which is logged: %s', async (onDecision) => {
    const lines: unknown[] = []
    const { limiter } = subject({ limits: '1/1s', onDecision, log: (level, fields) => lines.push([level, fields]) })
    expect(await limiter.take('alice')).toMatchObject({ granted: true })
    expect(await limiter.take('alice')).toMatchObject({ granted: false, retryAfterMs: 1_000 })
    const message = 'onDecision: broken'
    expect(lines).toEqual([['error', { event: 'background_error', message }]])
  })

  test('gets no decision that was not made', async () => {
    const { limiter, decisions } = observe({ limits: '1/1s' })
    await expect(limiter.take('')).rejects.toThrow(OptionError)
    await expect(limiter.take('alice', { cost: 2 })).rejects.toThrow(OptionError)
    expect(decisions).toEqual([])
  })
})

test('peek() answers what take() would, and takes nothing', async () => {
  const { limiter } = subject({ limits: '1/1s' })
  expect(await limiter.peek('alice')).toMatchObject({ granted: true, charged: 0 })
  expect(await limiter.take('alice')).toMatchObject({ granted: true })
  expect(await limiter.peek('alice')).toMatchObject({ granted: false, retryAfterMs: 1_000 })
})

test('reset() gives an identity all of its limits, and no other', async () => {
  const { limiter } = subject({ limits: '1/1s' })
  await limiter.take('alice')
  await limiter.take('bob')
  await limiter.reset('alice')
  expect((await limiter.take('alice')).granted).toBe(true)
  expect((await limiter.take('bob')).granted).toBe(false)
})

/** As a store far away, whose answers come when a test lets them. */
class SlowStore extends MemoryStore {
  isSlow = false
  arrive = (): void => {}

  constructor() {
    super(() => START_MS)
  }

  override async decide(request: Parameters<MemoryStore['decide']>[0]) {
    const decision = this.decideNow(request)
    const { promise, resolve } = Promise.withResolvers<void>()
    this.arrive = resolve
    if (this.isSlow) await promise
    return decision
  }
}

function slowSubject(options: LimiterOptions) {
  const slow = new SlowStore()
  const store = { isRemote: true, timeoutMs: 60_000, open: () => slow }
  return { slow, ...subject({ store, ...options }) }
}

test('reset() is not undone by a refusal from before it that is still on its way', async () => {
  const { slow, limiter } = slowSubject({ limits: '1/1h' })
  await limiter.take('alice')
  slow.isSlow = true
  const late = limiter.take('alice')
  slow.isSlow = false
  await limiter.reset('alice')
  slow.arrive()
  expect((await late).granted).toBe(false)
  expect((await limiter.take('alice')).granted).toBe(true)
})

describe('settle()', () => {
  test.each([
    ['slidingWindow', slidingWindow, [2, 1, 0]],
    ['sortedSet', sortedSet, [2, 1, 0]],
    ['fixedWindow', fixedWindow, [2, 2, 0]],
    ['quota', quota, [2, 2, 0]],
    ['tokenBucket', tokenBucket, [2, 2, 0]],
  ] as const)('%s: charges what it has cost above, and gives back what it can', async (_name, limits, expected) => {
    const { limiter } = subject({ policies: [{ name: 'p', ...limits('10/1d') }] })
    const remaining: (number | undefined)[] = []
    for (const [cost, actual] of [
      [3, 8],
      [1, 0],
      [1, 1_000],
    ] as const) {
      const decision = await limiter.take('alice', { cost })
      await limiter.settle('alice', decision, actual)
      remaining.push((await limiter.peek('alice')).limits[0]?.remaining)
    }
    // What is above all that there is counts as all.
    expect(remaining).toEqual(expected)
    const refused = await limiter.take('alice', { cost: 9 })
    await limiter.settle('alice', refused, 9)
    expect(refused).toMatchObject({ granted: false, charged: 0 })
  })

  test('slidingWindow: what is above is dated when it is known', async () => {
    const { clock, limiter } = subject({ limits: '10/1m' })
    const decision = await limiter.take('alice')
    clock.now += 40_000
    await limiter.settle('alice', decision, 10)
    clock.now += 20_000
    // The first unit has left the window, the others not.
    expect((await limiter.peek('alice')).limits[0]).toMatchObject({ remaining: 1, resetMs: 40_000 })
  })

  test('takes integers from 0, and no slots', async () => {
    const { limiter } = subject({ limits: '10/1m' })
    const decision = await limiter.take('alice')
    await expect(limiter.settle('alice', decision, -1)).rejects.toThrow('units: expected an integer from 0')
    await expect(limiter.settle('alice', {} as typeof decision, 1)).rejects.toThrow('decision.charged: expected')
    const { limiter: slots } = subject({ policies: [{ name: 'jobs', ...concurrency(2) }] })
    await expect(slots.settle('alice', decision, 1)).rejects.toThrow('settle: expected policies without concurrency()')
  })
})

describe('refund()', () => {
  test.each([
    ['tokenBucket', tokenBucket],
    ['fixedWindow', fixedWindow],
    ['quota', quota],
  ] as const)('%s: gives back what was charged, or a part of it', async (_name, limits) => {
    const { limiter } = subject({ policies: [{ name: 'p', ...limits('10/1m') }] })
    const decision = await limiter.take('alice', { cost: 8 })
    await limiter.refund('alice', decision, 3)
    expect((await limiter.peek('alice')).limits[0]?.remaining).toBe(5)
    await limiter.refund('alice', await limiter.takeUpTo('alice', 5))
    expect((await limiter.peek('alice')).limits[0]?.remaining).toBe(5)
  })

  test('gives nothing back of a refusal, nor to a shadow policy that was not charged', async () => {
    const { limiter } = subject({
      policies: [
        { name: 'p', ...quota('5/1m') },
        { name: 'new', ...quota('4/1m'), mode: 'shadow' },
      ],
    })
    const remaining = async () => (await limiter.peek('alice')).limits.map((limit) => limit.remaining)
    await limiter.take('alice', { cost: 3 })
    const decision = await limiter.take('alice', { cost: 2 })
    expect(await remaining()).toEqual([0, 1])
    await limiter.refund('alice', decision)
    expect(await remaining()).toEqual([2, 1])
    await limiter.refund('alice', await limiter.take('alice', { cost: 4 }))
    expect(await remaining()).toEqual([2, 1])
  })

  test('says which policy cannot be corrected, and refuses more than was charged', async () => {
    const { limiter } = subject({ limits: '2/1s' })
    await expect(limiter.refund('alice', await limiter.take('alice'))).rejects.toThrow(
      'refund: expected policies of tokenBucket(), fixedWindow() or quota() only, got "default: sliding-window"',
    )
    const { limiter: other } = subject({ policies: [{ name: 'p', ...quota('5/1m') }] })
    await expect(other.refund('alice', await other.take('alice'), 2)).rejects.toThrow(
      'units: expected an integer from 1 to 1, got 2',
    )
  })
})

describe('quota() by the calendar', () => {
  const monthly = quota('3/month', { timeZone: 'Europe/Berlin', starts: 15 })
  const policies = [{ name: 'plan', ...monthly }]

  test('refuses until the month ends, to the millisecond, and refunds until then', async () => {
    const { clock, limiter } = subject({ policies })
    const endMs = Date.parse('2023-11-15T00:00+01:00')
    const decision = await limiter.take('alice', { cost: 2 })
    await limiter.take('alice')
    const refused = await limiter.take('alice')
    expect(refused).toMatchObject({ granted: false, retryAfterMs: endMs - START_MS })
    expect(refused.limits[0]).toMatchObject({ name: 'plan-month', limit: 3, resetMs: endMs - START_MS })
    expect(refused.limits[0]).not.toHaveProperty('calendar')
    await limiter.refund('alice', decision, 1)
    expect((await limiter.take('alice')).granted).toBe(true)
    clock.now = endMs - 1
    expect((await limiter.take('alice')).granted).toBe(false)
    clock.now = endMs
    const next = await limiter.take('alice')
    expect([next.granted, next.limits[0]?.resetMs]).toEqual([true, Date.parse('2023-12-15T00:00+01:00') - endMs])
    await limiter.refund('alice', decision, 1)
    expect((await limiter.peek('alice')).limits[0]?.remaining).toBe(2)
  })

  test('no day holds more than its limit with leases, which end with it', async () => {
    const { clock, limiter } = subject({ policies: [{ name: 'day', ...quota('900/day') }], leases: 'auto' })
    clock.now = Date.parse('2023-11-14T23:59:59Z')
    const granted = [0, 0]
    for (let step = 0; step < 2_000; step++) {
      clock.now += 1
      const day = Number(clock.now >= Date.parse('2023-11-15'))
      if ((await limiter.take('alice')).granted) granted[day] = (granted[day] ?? 0) + 1
    }
    expect(granted[0]).toBeGreaterThan(800)
    expect(granted[1]).toBeGreaterThan(800)
    expect(Math.max(...granted)).toBeLessThanOrEqual(900)
  })

  test.each([
    [() => quota('3/month', { timeZone: 'Mars' }), 'quota.timeZone: expected the IANA name of a time zone'],
    [() => quota('3/week', { starts: 2 }), 'quota.starts: expected limits by month with it, got 2'],
    [() => quota('3/month', { starts: 32 }), 'quota.starts: expected an integer from 1 to 31, got 32'],
    [() => quota('3/month', { zone: 'UTC' } as object), 'quota.zone: unknown option; expected one of timeZone, starts'],
    [() => fixedWindow('3/month' as string), 'fixedWindow.limits: expected algorithm = "quota" with limits by month'],
  ])('%s is refused', (make, message) => {
    expect(make).toThrow(message)
  })
})

test('waitFor() ends when the clock of the program has moved, whatever its timers do', async () => {
  let nowMs = 0
  const limiter = createLimiter({ limits: '1/1h', now: () => nowMs })
  await limiter.take('alice')
  const waiting = limiter.waitFor('alice')
  nowMs += 3_600_000
  expect(await waiting).toMatchObject({ granted: true, decidedAtMs: 3_600_000 })
})

test('a limiter in shadow mode grants everything, and reports what its policies say', async () => {
  const policies = [
    { name: 'calls', ...slidingWindow('1/1m') },
    { name: 'jobs', ...concurrency(1) },
  ]
  const limiter = createLimiter({ policies, mode: 'shadow' })
  await limiter.hold('alice')
  const slot = await limiter.hold('alice')
  expect(slot).toMatchObject({ granted: true, retryAfterMs: 0, limits: [{ remaining: 0 }, { remaining: 0 }] })
  await slot.release()
  expect(() => createLimiter({ limits: '1/1m', mode: 'off' as 'shadow' })).toThrow(
    'mode: expected "enforce" or "shadow"',
  )
})

describe('waitFor()', () => {
  test('waits exactly as long as the decision says: a millisecond that the clock shows counts until its end', async () => {
    vi.useFakeTimers({ now: START_MS })
    onTestFinished(() => void vi.useRealTimers())
    const limiter = createLimiter({ limits: '2/1s, 3/1m' })
    await limiter.takeUpTo('alice', 2)
    let decidedAtMs = 0
    const waiting = limiter.waitFor('alice').then((decision) => {
      decidedAtMs = decision.decidedAtMs
    })
    await vi.advanceTimersByTimeAsync(1_000)
    expect(decidedAtMs).toBe(0)
    await vi.advanceTimersByTimeAsync(1)
    await waiting
    expect(decidedAtMs).toBe(START_MS + 1_001)
    const last = limiter.waitFor('alice')
    await vi.advanceTimersToNextTimerAsync()
    expect(await last).toMatchObject({ granted: true, decidedAtMs: START_MS + 60_001 })
  })

  test('sleeps for longer than a timer can', async () => {
    vi.useFakeTimers({ now: START_MS })
    onTestFinished(() => void vi.useRealTimers())
    const limiter = createLimiter({ policies: [{ name: 'p', ...quota('1/26d') }] })
    await limiter.take('alice')
    const waiting = limiter.waitFor('alice')
    await vi.advanceTimersByTimeAsync(26 * 86_400_000)
    expect(await waiting).toMatchObject({ granted: true, decidedAtMs: START_MS + 26 * 86_400_000 })
  })

  test('says at once if it would have to wait for too long', async () => {
    const { limiter } = subject({ limits: '1/1m' })
    expect((await limiter.waitFor('alice', { maxWaitMs: 0 })).granted).toBe(true)
    expect(await limiter.waitFor('alice', { maxWaitMs: 59_999 })).toMatchObject({
      granted: false,
      retryAfterMs: 60_000,
    })
    await expect(limiter.waitFor('alice', { maxWaitMs: Number.NaN })).rejects.toThrow('maxWaitMs: expected')
  })

  test.each([
    ['tokenBucket', tokenBucket],
    ['fixedWindow', fixedWindow],
    ['quota', quota],
  ] as const)('%s: ends in time while the store hangs, and gives back what is granted late', async (_name, limits) => {
    vi.useFakeTimers({ now: START_MS })
    onTestFinished(() => void vi.useRealTimers())
    const works: Promise<unknown>[] = []
    const { slow, limiter } = slowSubject({
      policies: [{ name: 'p', ...limits('5/1d') }],
      waitUntil: (work) => works.push(work),
    })
    slow.isSlow = true
    const waiting = limiter.waitFor('alice', { maxWaitMs: 200 })
    await vi.advanceTimersByTimeAsync(200)
    const refusal = { granted: false, degraded: 'closed', retryAfterMs: 1_000, charged: 0, limits: [] }
    expect(await waiting).toMatchObject(refusal)
    slow.arrive()
    const controller = new AbortController()
    const signalled = limiter.waitFor('alice', { signal: controller.signal, cost: 2 })
    controller.abort('enough')
    await expect(signalled).rejects.toBe('enough')
    slow.arrive()
    await Promise.all(works)
    slow.isSlow = false
    expect(await limiter.peek('alice')).toMatchObject({ limits: [{ remaining: 5 }] })
    // Those of other files of this worker, which came meanwhile, are over then.
    await vi.advanceTimersByTimeAsync(600_000)
    expect(vi.getTimerCount()).toBe(0)
  })

  test('ends with the reason of its signal, before and while it waits', async () => {
    const { limiter } = subject({ limits: '1/1m' })
    await limiter.take('alice')
    const controller = new AbortController()
    const waiting = limiter.waitFor('alice', { signal: controller.signal })
    const reason = new Error('enough')
    controller.abort(reason)
    await expect(waiting).rejects.toBe(reason)
    await expect(limiter.waitFor('bob', { signal: controller.signal })).rejects.toBe(reason)
    expect((await limiter.peek('bob')).granted).toBe(true)
  })
})

test('refund() takes what was decided, and nothing else', async () => {
  const { limiter } = subject({ policies: [{ name: 'day', ...quota('20/1d') }] })
  for (const wrong of [undefined, 3, limiter.take('alice')]) {
    await expect(limiter.refund('alice', wrong as never)).rejects.toThrow('decision.charged: expected an integer')
  }
})

describe('hold()', () => {
  test('is what takes slots: other methods refuse, with a code', async () => {
    const { limiter } = subject({ policies: [{ name: 'jobs', ...concurrency(1) }] })
    const calls = [() => limiter.take('alice'), () => limiter.takeUpTo('alice', 2), () => limiter.waitFor('alice')]
    for (const call of calls) await expect((async () => call())()).rejects.toMatchObject({ code: 'NEEDS_HOLD' })
  })

  test('holds a slot until its block ends', async () => {
    const { limiter } = subject({ policies: [{ name: 'jobs', ...concurrency(1) }] })
    {
      await using slot = await limiter.hold('alice')
      expect(slot).toMatchObject({ granted: true, charged: 1 })
      await using other = await limiter.hold('alice')
      expect(other).toMatchObject({ granted: false, retryAfterMs: 60_000 })
    }
    expect((await limiter.peek('alice')).granted).toBe(true)
  })

  test('is released once, and charges rates alongside it', async () => {
    const policies = [
      { name: 'jobs', ...concurrency(2) },
      { name: 'starts', ...slidingWindow('3/1m') },
    ]
    const { limiter } = subject({ policies })
    const [first] = [await limiter.hold('alice'), await limiter.hold('alice')]
    await first?.release()
    await first?.release()
    const { limits } = await limiter.peek('alice')
    expect(limits.map(({ name, remaining }) => [name, remaining])).toEqual([
      ['jobs', 1],
      ['starts-1m', 1],
    ])
  })

  test('renews a slot that lasts for weeks no more often than others', async () => {
    const timers = vi.spyOn(globalThis, 'setInterval')
    onTestFinished(() => void timers.mockRestore())
    const slot = await createLimiter({ policies: [{ name: 'jobs', ...concurrency(1, { slotTtl: '53w' }) }] }).hold('a')
    // Node fires what would be longer at once.
    expect(timers.mock.calls.map(([, everyMs]) => everyMs)).toEqual([2 ** 31 - 1])
    await slot.release()
  })

  test('keeps a slot beyond its deadline while it is held', async () => {
    vi.useFakeTimers({ now: START_MS })
    onTestFinished(() => void vi.useRealTimers())
    const limiter = createLimiter({ policies: [{ name: 'jobs', ...concurrency(1, { slotTtl: '3s' }) }] })
    const slot = await limiter.hold('alice')
    await vi.advanceTimersByTimeAsync(60_000)
    expect((await limiter.peek('alice')).granted).toBe(false)
    await slot.release()
    // Those of other files of this worker, which came meanwhile, are over then.
    await vi.advanceTimersByTimeAsync(600_000)
    expect(vi.getTimerCount()).toBe(0)
  })

  test('is for limiters with slots, and they are for nothing else', async () => {
    await expect(createLimiter({ limits: '1/1s' }).hold('alice')).rejects.toThrow(
      'hold: expected a limiter with a policy of concurrency(), got ["default"]',
    )
    const limiter = createLimiter({ policies: [{ name: 'jobs', ...concurrency(1) }] })
    await expect(limiter.take('alice')).rejects.toThrow('take: expected policies without concurrency()')
    await expect(limiter.takeUpTo('alice', 1)).rejects.toThrow(OptionError)
    await expect(limiter.waitFor('alice')).rejects.toThrow(OptionError)
  })
})

/** A store in memory that is used as if it were far away. */
function openRemote() {
  const store = new MemoryStore(Date.now)
  return { isRemote: true, timeoutMs: 60_000, open: () => store }
}

describe('limits of a call', () => {
  test.each([memoryStore, openRemote])(
    'replace those of the limiter, and what was used counts in all',
    async (open) => {
      const store = open()
      const limiter = createLimiter({ limits: '2/1h', store, log() {} })
      await limiter.takeUpTo('alice', 2)
      expect(await limiter.take('alice')).toMatchObject({ granted: false })
      const limits = '5/1h'
      expect(await limiter.take('alice', { limits })).toMatchObject({
        granted: true,
        limits: [{ limit: 5, remaining: 2 }],
      })
      expect(await limiter.peek('alice')).toMatchObject({ granted: false, limits: [{ limit: 2, remaining: 0 }] })
      expect(await limiter.take('alice', { limits: '3/1h' })).toMatchObject({ granted: false, limits: [{ limit: 3 }] })
      expect(await limiter.take('bob', { limits: '9/1h', cost: 9 })).toMatchObject({ granted: true, charged: 9 })
      await expect(limiter.take('bob', { limits: '9/1h', cost: 10 })).rejects.toThrow(
        'cost: expected an integer from 1 to 9',
      )
      await expect(limiter.take('bob', { cost: 3 })).rejects.toThrow('cost: expected an integer from 1 to 2')
    },
  )

  test('are those of each policy by name, of buckets too, which are refunded by them', async () => {
    const policies = [
      { name: 'calls', ...tokenBucket('2/1h') },
      { name: 'day', ...quota('9/1d'), plans: { pro: '99/1d' } },
    ]
    const limiter = createLimiter({ policies, now: () => START_MS })
    const limits = { calls: '4/1h' }
    const decision = await limiter.take('alice', { limits, cost: 3 })
    const remaining = ({ limits }: typeof decision) => limits.map((each) => each.remaining)
    expect(remaining(decision)).toEqual([1, 6])
    await limiter.refund('alice', decision)
    expect(remaining(await limiter.peek('alice', { limits }))).toEqual([4, 9])
    expect(await limiter.takeUpTo('bob', 9, { limits: { calls: '5/1h', day: '3/1d' } })).toMatchObject({ granted: 3 })
  })

  test.each([
    [{ limits: '5/1m' }, 'limits: expected the same windows in every plan, got "5/1m"'],
    [{ limits: '5' }, 'limits: expected limits such as'],
    [{ limits: { other: '5/1h' } }, 'limits: expected names of policies (default), got "other"'],
    [{ limits: 5 }, 'limits: expected limits by policy (default), got 5'],
    [{ limits: '5/1h', plan: 'pro' }, 'plan: expected no plan beside limits, got "pro"'],
  ])('%j are refused, and take nothing', async (options, message) => {
    const limiter = createLimiter({ limits: '2/1h', plans: { pro: '9/1h' } })
    await expect(limiter.take('alice', options as object)).rejects.toThrow(message)
    expect((await limiter.peek('alice')).limits[0]?.remaining).toBe(2)
  })
})

describe('a plan', () => {
  const PLANS = { limits: '2/1s', plans: { pro: '5/1s', trial: '1/1s' } }
  const readLeft = ({ limits }: Pick<Decision, 'limits'>) => limits.map(({ limit, remaining }) => [limit, remaining])

  test('has its own limits, in every method, and what was used counts in each', async () => {
    const { clock, limiter } = subject(PLANS)
    expect(await limiter.take('alice', { plan: 'trial' })).toMatchObject({ granted: true, plan: 'trial' })
    const own = { policy: 'default', name: 'default-1s', limit: 5, windowMs: 1_000 }
    expect((await limiter.peek('alice', { plan: 'pro' })).limits).toMatchObject([{ ...own, remaining: 4 }])
    expect(await limiter.takeUpTo('alice', 9, { plan: 'pro' })).toMatchObject({ granted: 4, charged: 4, plan: 'pro' })
    expect(await limiter.take('alice')).toMatchObject({ granted: false, retryAfterMs: 1_000 })
    expect(await limiter.waitFor('alice', { plan: 'pro', maxWaitMs: 0 })).toMatchObject({ granted: false })
    clock.now += 1_000
    expect(readLeft(await limiter.waitFor('alice', { plan: 'pro' }))).toEqual([[5, 4]])
    expect(readLeft(await limiter.take('alice', { plan: undefined }))).toEqual([[2, 0]])
  })

  test('is of the policies that know it: all others have their limits', async () => {
    const calls = { name: 'calls', ...tokenBucket('2/1s', { burst: 4 }), plans: { pro: '8/1s' } }
    const jobs = { name: 'jobs', ...concurrency(1), plans: { pro: '2', team: '3' } }
    const { limiter } = subject({ policies: [calls, jobs] })
    expect(readLeft(await limiter.hold('alice', { plan: 'pro' }))).toEqual([
      [8, 3],
      [2, 1],
    ])
    expect(readLeft(await limiter.hold('alice', { plan: 'team' }))).toEqual([
      [2, 2],
      [3, 1],
    ])
    expect(await limiter.hold('alice')).toMatchObject({ granted: false })
  })

  test('that no policy knows is a mistake, and takes nothing', async () => {
    const { limiter } = subject(PLANS)
    await expect(limiter.take('alice', { plan: 'gold' })).rejects.toThrow(
      'plan: expected one of pro, trial, got "gold"',
    )
    await expect(limiter.peek('alice', { plan: 7 as never })).rejects.toThrow(OptionError)
    expect(readLeft(await limiter.take('alice'))).toEqual([[2, 1]])
    const plain = subject({ limits: '1/1s' }).limiter
    await expect(plain.take('alice', { plan: 'pro' })).rejects.toThrow('plan: expected a limiter with plans, got "pro"')
  })

  test('allows no cost that another plan could never grant', async () => {
    const { limiter } = subject(PLANS)
    await expect(limiter.take('alice', { cost: 2, plan: 'pro' })).rejects.toThrow(
      'cost: expected an integer from 1 to 1',
    )
  })
})

test.each([{ leases: 'auto' }, { refusalCache: true }] as const)(
  'with %j, no identity with a cost or a plan is taken for another identity',
  async (options) => {
    const { limiter } = subject({ limits: '500/1h', plans: { pro: '20/1h' }, ...options })
    const takeAll = (...calls: (readonly [string, TakeOptions])[]) =>
      Promise.all(calls.map(([identity, options]) => limiter.take(identity, options)))
    for (let round = 0; round < 10; round++) {
      await takeAll(['a', { cost: 5 }], ['a 5', {}], ['a', { cost: 5 }], ['a 5', {}])
      await takeAll(['b', { plan: 'pro' }], ['b pro', {}], ['b', { plan: 'pro' }], ['b pro', {}])
    }
    expect((await limiter.take('b', { plan: 'pro' })).granted).toBe(false)
    expect((await limiter.take('b pro')).granted).toBe(true)
    for (const [identity, used, options] of [
      ['a', 100],
      ['a 5', 20],
      ['b', 20, { plan: 'pro' }],
      ['b pro', 20],
    ] as const) {
      // Of what it has used, nothing was charged to another one.
      const { limits } = await limiter.peek(identity, options)
      expect([identity, limits.every(({ limit, remaining }) => limit - remaining >= used)]).toEqual([identity, true])
    }
  },
)

test.each<[object, string]>([
  [{}, 'limits: expected limits or policies, got nothing'],
  [
    { limit: '1/1s' },
    'createLimiter.limit: unknown option; see limits, e.g. "100/1m"; expected one of limits, plans, policies, store, ',
  ],
  [{ limits: '1/1s', policies: [] }, 'limits: expected either limits or policies, got "1/1s"'],
  [{ limits: 'many' }, 'limits: expected limits such as "10/1s, 120/1m"'],
  [{ limits: 5 }, 'limits: expected limits such as'],
  [{ limits: '100001/1m' }, 'limits: expected limits up to 100000 '],
  [{ limits: '1/1s', plans: 'pro' }, 'plans: expected limits by plan, got "pro"'],
  [{ limits: '1/1s', plans: { 'a b': '1/1s' } }, 'plans: expected up to 64 letters, digits, "-" or "_", got "a b"'],
  [{ limits: '1/1s', plans: { pro: '9/1m' } }, 'plans.pro: expected the same windows in every plan, got "9/1m"'],
  [{ limits: '1/1s', plans: { pro: 9 } }, 'plans.pro: expected limits such as "10/1s, 120/1m", got 9'],
  [
    { policies: [], plans: { pro: '9/1s' } },
    'plans: expected limits with it, or plans in policies, got {"pro":"9/1s"}',
  ],
  [
    { policies: [{ name: 'a', ...quota('1/month'), plans: { pro: '9/day' } }] },
    'policies[0].plans.pro: expected the same windows in every plan, got "9/day"',
  ],
  [{ policies: [] }, 'policies: expected a list of policies, got []'],
  [{ policies: [{ name: 'a b', ...quota('1/1s') }] }, 'policies[0].name: expected up to 64 letters'],
  [{ policies: [{ name: 'a', ...quota('1/1s'), on: 1 }] }, 'policies[0].on: unknown option; expected one of name'],
  [
    {
      policies: [
        { name: 'p', ...quota('1/1s') },
        { name: 'p', ...quota('1/1s') },
      ],
    },
    'policies[1].name: expected a name used once, got "p"',
  ],
  [{ limits: '1/1s', store: new Map() }, 'store: expected what memoryStore() or redisStore() makes'],
  [{ limits: '1/1s', keyPrefix: 'a b' }, 'keyPrefix: expected up to 64 letters'],
  [
    { limits: '1/1s', identitySecret: 'short' },
    'identitySecret: expected at least 16 characters, got a value not shown here',
  ],
  [{ limits: '1/1s', leases: 1 }, 'leases: expected "off", "auto" or an integer from 2 to 10000, got 1'],
  [{ limits: '1/1s', onDecision: 1 }, 'onDecision: expected a function, got 1'],
  [{ limits: '1/1s', onStoreError: 'no' }, 'onStoreError: expected "local" or "open" or "closed", got "no"'],
  [{ limits: '1/1s', localShare: 0 }, 'localShare: expected a share above 0 and at most 1, got 0'],
  [{ limits: '1/1s', refusalCache: 'on' }, 'refusalCache: expected true or false, got "on"'],
  [{ limits: '1/1s', now: () => Number.NaN }, 'now: expected a clock that returns milliseconds, got NaN'],
  [{ limits: '1/1s', now: 5 }, 'now: expected a function, got 5'],
  [
    { policies: [{ name: 'a', ...quota('1/1s'), penalty: 60 }] },
    'policies[0].penalty: expected a duration from 1ms to 53w such as "30s" (units ms s m h d w), got 60',
  ],
  [
    { policies: [{ name: 'a', ...quota('1/1s'), penaltyAfter: 2 }] },
    'policies[0].penaltyAfter: expected penalty, e.g. "10m", with it, got 2',
  ],
  [
    { policies: [{ name: 'a', ...quota('1/1s'), penalty: '1m', penaltyAfter: 1_001 }] },
    'policies[0].penaltyAfter: expected an integer from 1 to 1000, got 1001',
  ],
  [
    { policies: [{ name: 'a', ...concurrency(1), penalty: '1m' }] },
    'policies[0].penalty: expected an algorithm other than "concurrency" with it, got "1m"',
  ],
])('createLimiter() refuses %j', (options, message) => {
  expect(() => createLimiter(options as LimiterOptions)).toThrow(OptionError)
  expect(() => createLimiter(options as LimiterOptions)).toThrow(message)
})

test.each([
  ['slidingWindow.limits: expected limits', () => slidingWindow('0/1s' as string)],
  ['sortedSet.limits: expected limits', () => sortedSet('1/1' as string)],
  ['tokenBucket.limits: expected one limit', () => tokenBucket('1/1s, 2/1m')],
  ['tokenBucket.burst: expected an integer from 1', () => tokenBucket('1/1s', { burst: 0 })],
  ['tokenBucket.limits: expected at most 140 units with this window', () => tokenBucket('1000000000/53w')],
  ['concurrency.limits: expected a number of requests at once', () => concurrency(0)],
  ['concurrency.limits: expected a number of requests at once', () => concurrency('5' as never)],
  ['concurrency.slotTtl: expected a duration', () => concurrency(1, { slotTtl: 'x' })],
  ['concurrency.deadline: unknown option; expected one of slotTtl', () => concurrency(1, { deadline: '1s' } as object)],
  ['tokenBucket.bursts: unknown option; expected one of burst', () => tokenBucket('1/1s', { bursts: 5 } as object)],
  [
    'slidingWindow.allowLargeLog: expected true or false, got "yes"',
    () => slidingWindow('1/1s', { allowLargeLog: 'yes' } as object),
  ],
  ['tokenBucket.slotTtl: unknown option', () => tokenBucket('1/1s', { slotTtl: '1s' } as object)],
  ['quota: expected an object', () => quota('1/1d', null as never)],
  ['memoryStore.maxKeys: expected an integer from 1', () => memoryStore({ maxKeys: 0 })],
] as const)('limits that cannot be had are refused at once, with: %s', (message, make) => {
  expect(make).toThrow(OptionError)
  expect(make).toThrow(message)
})

test('redisStore() takes several clients, each under a name of its own, and not all on the move', () => {
  const create = () => ({ serverWords: () => undefined }) as never
  const [one, other] = [create(), create()]
  const bad = [
    [],
    [
      { name: 'a', client: one },
      { name: 'a', client: other },
    ],
    [
      { name: 'a', client: one },
      { name: 'b', client: one },
    ],
    [{ name: 'a b', client: one }],
    [{ client: one } as never],
    [{ name: 'a', client: one, state: 'joining' as const }],
    [{ name: 'a', client: one, state: 'leaving' as const }],
    [
      { name: 'a', client: one },
      { name: 'b', client: other, state: 'gone' as never },
    ],
  ]
  for (const shards of bad) expect(() => redisStore(shards)).toThrow('redisStore: expected a list of { name, client }')
  expect(() => redisStore([{ name: 'a', client: {} as never }])).toThrow('redisStore: expected a client of')
  createLimiter({
    limits: '5/1m',
    store: redisStore([
      { name: 'a', client: one },
      { name: 'b', client: other },
    ]),
  })
  createLimiter({
    limits: '5/1m',
    store: redisStore([
      { name: 'a', client: create(), state: 'leaving' },
      { name: 'b', client: create(), state: 'joining' },
    ]),
  })
})

test('no limiter of a store can drop what another one counts: each set of windows has a name of its own', () => {
  const client = { serverWords: () => undefined } as never
  for (const open of [memoryStore, () => redisStore(client)]) {
    const [one, other] = open === memoryStore ? Array(2).fill(memoryStore()) : [open(), open()]
    createLimiter({ limits: '5/1m', store: one })
    // The same windows, for other callers.
    createLimiter({ limits: '50/1m', store: other })
    createLimiter({ limits: '100/1s', store: other, keyPrefix: 'fast' })
    createLimiter({ policies: [{ name: 'fast', ...slidingWindow('100/1s') }], store: other })
    expect(() => createLimiter({ limits: '100/1s', store: other })).toThrow(
      'name: expected a name or a keyPrefix of its own for each set of limits in one store, got "default"',
    )
    createLimiter({ policies: [{ name: 'plan', ...quota('9/day') }], store: one })
    // A day may have as many hours.
    for (const others of [quota('9/25h'), quota('9/day', { timeZone: 'Asia/Tokyo' })]) {
      expect(() => createLimiter({ policies: [{ name: 'plan', ...others }], store: other })).toThrow(OptionError)
    }
    new SlidingWindowCounter({ window: '5m', store: one })
    expect(() => new SlidingWindowCounter({ window: '1s', store: other })).toThrow(OptionError)
  }
})

test('an argument that a method does not know is refused, and takes nothing', async () => {
  const policies = [{ name: 'jobs', ...concurrency(1) }]
  const slots = createLimiter({ policies })
  const limiter = createLimiter({ limits: '2/1h' })
  const misspelt = { costs: 2 } as object
  await expect(limiter.take('alice', misspelt)).rejects.toThrow('take.costs: unknown option; expected one of cost')
  await expect(limiter.take('alice', 2 as never)).rejects.toThrow('take: expected an object, got 2')
  await expect(limiter.takeUpTo('alice', 2, misspelt)).rejects.toThrow('takeUpTo.costs: unknown option')
  await expect(limiter.peek('alice', misspelt)).rejects.toThrow('peek.costs: unknown option')
  await expect(slots.hold('alice', misspelt)).rejects.toThrow('hold.costs: unknown option')
  await expect(limiter.waitFor('alice', misspelt)).rejects.toThrow('waitFor.costs: unknown option')
  const wait = (options: object) => limiter.waitFor('alice', options)
  await expect(wait({ maxWaitMs: '10' })).rejects.toThrow('maxWaitMs: expected milliseconds from 0, got "10"')
  await expect(wait({ signal: new AbortController() })).rejects.toThrow('signal: expected an AbortSignal')
  await expect(limiter.take('alice', { cost: null as never })).rejects.toThrow('cost: expected an integer')
  expect((await limiter.peek('alice')).limits[0]?.remaining).toBe(2)
})

test('a cost that no call may have has a code of its own, for costs that clients choose', async () => {
  const limiter = createLimiter({ limits: '2/1s' })
  await expect(limiter.take('alice', { cost: 3 })).rejects.toMatchObject({ code: 'COST_TOO_HIGH' })
  await expect(limiter.take('alice', { cost: 0 })).rejects.toMatchObject({ code: 'INVALID_OPTION' })
})

test.each([
  ['cost', { cost: 3 }, 'cost: expected an integer from 1 to 2, got 3'],
  ['cost', { cost: 0 }, 'cost: expected an integer from 1 to 2, got 0'],
  ['cost', { cost: 1.5 }, 'cost: expected an integer from 1 to 2, got 1.5'],
])('take() refuses a %s that can never be granted', async (_name, options, message) => {
  await expect(createLimiter({ limits: '2/1s' }).take('alice', options)).rejects.toThrow(message)
})

test.each([
  [undefined, 'identity: expected a string that is not empty, or a list of strings, got nothing'],
  [null, 'identity: expected a string that is not empty, or a list of strings, got null'],
  ['', 'identity: expected a string that is not empty, or a list of strings, got ""'],
  [[], 'identity: expected a string that is not empty, or a list of strings, got []'],
  [[1], 'identity: expected a string that is not empty, or a list of strings, got [1]'],
  [{}, 'identity.default: expected a string that is not empty, or a list of strings, got nothing'],
  [{ defaults: 'a' }, 'identity: expected names of policies (default), got "defaults"'],
  [{ default: 5 }, 'identity.default: expected a string that is not empty, or a list of strings, got 5'],
])('take() refuses %j, which is no identity', async (identity, message) => {
  await expect(createLimiter({ limits: '2/1s' }).take(identity as never)).rejects.toThrow(message)
})

test('createLimiter() says what stands for the habitual options of other limiters', () => {
  const points = { points: 10, duration: 1 } as LimiterOptions
  expect(() => createLimiter(points)).toThrow('points: unknown option; see limits, e.g. "100/1m"; expected one of')
})

test('createLimiter() throws errors with stable codes, which name the place', () => {
  const policies = [{ name: 'a', ...quota('1/1s'), on: 1 }]
  const unknown = { code: 'UNKNOWN_OPTION', option: 'policies[0].on', variable: 'policies', path: [0, 'on'] }
  expect(() => createLimiter({ policies } as LimiterOptions)).toThrow(expect.objectContaining(unknown))
  expect(() => createLimiter({})).toThrow(expect.objectContaining({ code: 'MISSING_OPTION', option: 'limits' }))
})

test('a module that is loaded again may change its limits, in development', async () => {
  const store = memoryStore()
  const load = (limits: string) => createLimiter({ limits, store })
  load('3/1m')
  // At once, the same lines make two limiters.
  expect(() => load('5/1s')).toThrow(OptionError)
  await Promise.resolve()
  const limiter = load('5/1s')
  expect((await limiter.take('caller')).limits[0]?.limit).toBe(5)
  await Promise.resolve()
  vi.stubEnv('NODE_ENV', 'production')
  onTestFinished(() => void vi.unstubAllEnvs())
  expect(() => load('7/1h')).toThrow('a name or a keyPrefix of its own')
})
