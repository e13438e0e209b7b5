import { describe, expect, test } from 'vitest'
import { ALGORITHMS } from '../../src/core/algorithms/algorithm-table.ts'
import type { DecisionRequest, StoreCharge } from '../../src/core/model/charge.ts'
import type { AlgorithmName, Limit } from '../../src/core/model/limits.ts'
import { EntriesToRead } from '../../src/core/store/redis/entries-to-read.ts'
import { LUA } from '../../src/core/store/redis/more-lua.ts'
import {
  joinScript,
  listReleaseArguments,
  listScriptArguments,
  readDecision,
} from '../../src/core/store/redis/script.ts'
import { createCharge, EVERY_ALGORITHM, take } from '../support/charges.ts'
import { ownRedis, total } from '../support/own-redis.ts'

// Upstash bills every command, those inside of a script one by one. What Redis itself has counted is what is billed.

const redis = ownRedis()

/** Asks Redis's clock, as the real one does, but goes by the test's. */
const CLOCK = "redis.call('TIME') return tonumber(ARGV[#ARGV])"
const script = joinScript('decide', EVERY_ALGORITHM, LUA, CLOCK)
const RELEASE = joinScript('release', EVERY_ALGORITHM, LUA, CLOCK)

const HOUR = 3_600_000
/** The very start of an hour, so that a test knows when a new one begins. */
const START_MS = 472_222 * HOUR

function billed(
  request: DecisionRequest,
  nowMs: number,
  entriesToRead?: (charge: StoreCharge) => number,
): Promise<Record<string, number>> {
  const keys = request.charges.map(({ key }) => key)
  return counted(script, keys, [...listScriptArguments(request, entriesToRead), nowMs * 1000])
}

function counted(script: string, keys: string[], args: readonly (string | number)[]): Promise<Record<string, number>> {
  return redis.billed(() => redis.client.eval(script, { keys, arguments: args.map(String) }))
}

const LIMITS: readonly Limit[] = [
  { limit: 10_000, windowMs: 1_000 },
  { limit: 20_000, windowMs: 60_000 },
  { limit: 30_000, windowMs: HOUR },
]

describe('sliding-window', () => {
  const charge = (limits: readonly Limit[]) => createCharge('sliding-window', limits)

  test.each([1, 2, 3])('an admission by %d limit(s) costs at most 4 commands and one a limit', async (count) => {
    // The hour alone, then with the minute, then with the second.
    const request = take([charge(LIMITS.slice(-count))])
    const seen: Record<string, number>[] = []
    for (let i = 0; i < 100; i++) seen.push(await billed(request, START_MS + i * 15))
    expect(Math.max(...seen.map(total))).toBeLessThanOrEqual(4 + count)
    // Busy by now: no window is covered by what is read with the last entry. The hour and the minute begin with the same.
    expect(seen.at(-1)).toEqual({ eval: 1, time: 1, xrevrange: 1, xrange: Math.max(1, count - 1), xadd: 1 })
    // The TTL was set by the first decision and by no other.
    expect(seen.filter(({ expire }) => expire).length).toBe(1)
  })

  test.each([1, 2, 3])(
    'a stream of %d limit(s) of which one entry is read at once costs the same if all hold many',
    async (count) => {
      const request = take([charge(LIMITS.slice(-count))])
      for (let i = 0; i < 20; i++) await billed(request, START_MS + i * 15)
      expect(await billed(request, START_MS + 300, () => 1)).toEqual(await billed(request, START_MS + 300))
      // Where that is too few, it costs one command more for each limit.
      const later = START_MS + 300 + HOUR - 1
      const few = { eval: 1, time: 1, xrevrange: 1, xadd: 1 }
      expect(await billed(request, later, () => 1)).toEqual({ ...few, xrange: 1, expire: 1 })
    },
  )

  test('a caller with few requests in its windows costs 4 commands however many limits there are', async () => {
    const request = take([charge(LIMITS)])
    expect(await billed(request, START_MS)).toEqual({ eval: 1, time: 1, xrevrange: 1, xadd: 1, expire: 1 })
    for (let i = 1; i <= 6; i++) {
      expect(await billed(request, START_MS + i * 200)).toEqual({ eval: 1, time: 1, xrevrange: 1, xadd: 1 })
    }
  })

  test('nor does it where no more entries are read than its windows are known to hold', async () => {
    const limits = [
      { limit: 3, windowMs: 60_000 },
      { limit: 7, windowMs: HOUR },
    ]
    const request = take([charge(limits)])
    const entriesToRead = new EntriesToRead()
    const seen: Record<string, number>[] = []
    for (let i = 0; i < 60; i++) {
      const args = [...listScriptArguments(request, entriesToRead.find), (START_MS + i ** 2 * 7_000) * 1000]
      const keys = request.charges.map(({ key }) => key)
      let reply: unknown
      const ask = async () => {
        reply = await redis.client.eval(script, { keys, arguments: args.map(String) })
      }
      seen.push(await redis.billed(ask))
      entriesToRead.update(request, readDecision(reply, request))
    }
    expect(seen.filter(({ xadd }) => !xadd)).not.toEqual([])
    expect(seen.filter(({ xrange }) => xrange)).toEqual([])
  })

  test('the TTL is renewed once in a longest window, by one command more', async () => {
    const request = take([charge(LIMITS)])
    let renewals = 0
    for (let i = 0; i < 100; i++) {
      const { expire = 0 } = await billed(request, START_MS + i * (HOUR / 10))
      renewals += expire
    }
    // Ten hours.
    expect(renewals).toBe(10)
  })

  test.each([1, 5, 16])('a refusal of cost %d by one limit costs at most 4 commands', async (cost) => {
    const hourly = charge([{ limit: 50, windowMs: HOUR }])
    for (let i = 0; i < 50; i++) await billed(take([hourly]), START_MS + i)
    const counts = await billed(take([{ ...hourly, cost }]), START_MS + 100)
    expect(counts).toEqual({ eval: 1, time: 1, xrevrange: 1, xrange: 1 })
  })

  test('a refusal of any cost finds its moment in reads that grow with the logarithm of the window', async () => {
    const hourly = charge([{ limit: 1_000, windowMs: HOUR }])
    for (let i = 0; i < 1_000; i++) await billed(take([hourly]), START_MS + i * 1_000)
    const counts = await billed(take([{ ...hourly, cost: 500 }]), START_MS + 1_000_000)
    expect(total(counts)).toBeLessThanOrEqual(4 + Math.ceil(Math.log2(HOUR)))
  })
})

describe('token-bucket', () => {
  test('an admission costs 4 commands, a refusal 3', async () => {
    const bucket = createCharge('token-bucket', [{ limit: 7, windowMs: HOUR }], { burst: 2 })
    expect(await billed(take([bucket]), START_MS)).toEqual({ eval: 1, time: 1, get: 1, set: 1 })
    expect(await billed(take([bucket]), START_MS + 1)).toEqual({ eval: 1, time: 1, get: 1, set: 1 })
    expect(await billed(take([bucket]), START_MS + 2)).toEqual({ eval: 1, time: 1, get: 1 })
  })
})

describe.each(['fixed-window', 'quota'] as const)('%s', (name) => {
  test.each([1, 2, 3])('an admission by %d limit(s) costs 4 commands, a refusal 3', async (count) => {
    const charge = createCharge(name, [{ limit: 2, windowMs: 2 * HOUR }, ...LIMITS.slice(0, count - 1)])
    expect(await billed(take([charge]), START_MS)).toEqual({ eval: 1, time: 1, get: 1, set: 1 })
    expect(await billed(take([charge]), START_MS + 1)).toEqual({ eval: 1, time: 1, get: 1, set: 1 })
    expect(await billed(take([charge]), START_MS + 2)).toEqual({ eval: 1, time: 1, get: 1 })
  })
})

describe('sorted-set', () => {
  test.each([1, 2, 3])('an admission by %d limit(s) costs 6 commands and one a limit', async (count) => {
    const charge = createCharge('sorted-set', LIMITS.slice(-count))
    const idle = { eval: 1, time: 1, zrevrange: 1, zadd: 1, zremrangebyscore: 1, expire: 1 }
    expect(await billed(take([charge]), START_MS)).toEqual(idle)
    expect(await billed(take([charge]), START_MS + 1)).toEqual({ ...idle, zrangebyscore: count })
  })

  test('a refusal costs 3 commands, one a limit, and one for each limit that refuses several units', async () => {
    const charge = createCharge('sorted-set', [{ limit: 5, windowMs: 2 * HOUR }, ...LIMITS])
    for (let i = 0; i < 5; i++) await billed(take([charge]), START_MS + i)
    const counts = { eval: 1, time: 1, zrevrange: 1, zrangebyscore: 4 }
    expect(await billed(take([charge]), START_MS + 5)).toEqual(counts)
    expect(await billed(take([{ ...charge, cost: 3 }]), START_MS + 5)).toEqual({ ...counts, zscore: 1 })
  })

  test('units of one admission are added a thousand at a time', async () => {
    const charge = createCharge('sorted-set', [{ limit: 2_001, windowMs: HOUR }])
    expect((await billed(take([{ ...charge, cost: 2_001 }]), START_MS)).zadd).toBe(3)
    expect(await redis.client.zCard(charge.key)).toBe(2_001)
  })
})

describe('concurrency', () => {
  const charge = () => createCharge('concurrency', [{ limit: 3, windowMs: 60_000 }])

  test('an admission costs 6 commands, 5 if nothing is held, 7 or 8 if deadlines have passed', async () => {
    const held = charge()
    const admission = { eval: 1, time: 1, zrange: 1, zadd: 1 }
    expect(await billed(take([held]), START_MS)).toEqual({ ...admission, pexpire: 1 })
    const another = { ...admission, zcount: 1, pttl: 1 }
    expect(await billed(take([held]), START_MS + 30_000)).toEqual(another)
    const overdue = { ...another, zremrangebyscore: 1 }
    expect(await billed(take([held]), START_MS + 60_000)).toEqual({ ...overdue, zrange: 2 })
    expect(await billed(take([held]), START_MS + 120_000)).toEqual(overdue)
  })

  test('an admission after which the key would not live long enough costs one command more', async () => {
    const held = charge()
    await billed(take([held]), START_MS)
    await redis.client.pExpire(held.key, 59_999)
    expect(await billed(take([held]), START_MS)).toMatchObject({ pttl: 1, pexpire: 1 })
    expect(await billed(take([held]), START_MS)).not.toHaveProperty('pexpire')
  })

  test('giving back what may be on its way costs 6 commands, and admissions after it two more for a minute', async () => {
    const held = charge()
    const request = take([held])
    const counts = await counted(
      RELEASE,
      [held.key],
      [...listReleaseArguments(request.charges.map((charge) => ({ charge: charge, isKnown: false }))), START_MS * 1000],
    )
    expect(counts).toEqual({ eval: 1, time: 1, zadd: 1, zremrangebyscore: 1, pttl: 1, pexpire: 1 })
    const admission = { eval: 1, time: 1, zrange: 1, zadd: 1, pttl: 1, zcount: 1 }
    expect(await billed(request, START_MS + 1)).toEqual({ ...admission, zremrangebyscore: 1 })
    expect(await billed(take([held]), START_MS + 60_000)).toEqual({ ...admission, zremrangebyscore: 1 })
    expect(await billed(take([held]), START_MS + 60_001)).toEqual(admission)
  })

  test('a refusal costs 4 commands, and one more if it is of several units', async () => {
    const held = charge()
    for (let i = 0; i < 3; i++) await billed(take([held]), START_MS + i)
    expect(await billed(take([held]), START_MS + 5)).toEqual({ eval: 1, time: 1, zrange: 1, zcount: 1 })
    const dear = await billed(take([{ ...held, cost: 2 }]), START_MS + 5)
    expect(dear).toEqual({ eval: 1, time: 1, zrange: 2, zcount: 1 })
  })
})

describe('a policy with a penalty', () => {
  const penalty = { durationMs: HOUR, after: 2 }
  const LIMITED: readonly Limit[] = [{ limit: 3, windowMs: 2 * HOUR }]
  const one = { eval: 1, time: 1 }
  /** What is read, charged, and remembered of a refusal. */
  const COSTS = {
    'sliding-window': [{ xrevrange: 1 }, { xadd: 1 }, { xadd: 1, expire: 1 }],
    'sorted-set': [
      { zrevrange: 1, zrangebyscore: 1 },
      { zadd: 1, zremrangebyscore: 1, expire: 1 },
      { zadd: 1, expire: 1 },
    ],
    'token-bucket': [{ get: 1 }, { set: 1 }, { set: 1 }],
    'fixed-window': [{ get: 1 }, { set: 1 }, { set: 1 }],
    quota: [{ get: 1 }, { set: 1 }, { set: 1 }],
  } as const
  const names = Object.keys(COSTS) as (keyof typeof COSTS)[]

  test.each(names)('%s: admissions cost no command more, with refusals between them neither', async (name) => {
    const [read, charged, remembered] = COSTS[name]
    const charge = createCharge(name, LIMITED, { penalty })
    await billed(take([charge]), START_MS)
    expect(await billed(take([charge]), START_MS + 1)).toEqual({ ...one, ...read, ...charged })
    expect(await billed(take([{ ...charge, cost: 2 }]), START_MS + 2)).toEqual({
      ...one,
      ...read,
      ...remembered,
    })
    expect(await billed(take([charge]), START_MS + 3)).toEqual({ ...one, ...read, ...charged })
  })

  test.each(names)('%s: refusals cost a command or two, until the penalty begins', async (name) => {
    const [read, , remembered] = COSTS[name]
    const charge = createCharge(name, LIMITED, { penalty })
    for (let i = 0; i < 3; i++) await billed(take([charge]), START_MS + i)
    expect(await billed(take([charge]), START_MS + 3)).toEqual({ ...one, ...read, ...remembered })
    // The entry of the refusal before is removed.
    const again = name === 'sliding-window' ? { ...remembered, xdel: 1 } : remembered
    expect(await billed(take([charge]), START_MS + 4)).toEqual({ ...one, ...read, ...again })
    expect(await billed(take([charge]), START_MS + 5)).toEqual({ ...one, ...read })
    expect(await billed(take([charge], { action: 'peek' }), START_MS + 6)).toEqual({ ...one, ...read })
  })

  test('sliding-window: a busy caller whose window begins with a refusal is admitted at no command more', async () => {
    const limits = [{ limit: 40, windowMs: HOUR }]
    const charge = createCharge('sliding-window', limits, { penalty: { ...penalty, after: 9 } })
    await billed(take([charge]), START_MS)
    await billed(take([{ ...charge, cost: 40 }]), START_MS + 1_000)
    for (let i = 0; i < 20; i++) await billed(take([charge]), START_MS + 2_000 + i)
    // The first admission has left the window, and the refusal has not.
    const counts = await billed(take([charge]), START_MS + HOUR + 500)
    expect(counts).toEqual({ ...one, xrevrange: 1, xrange: 1, xadd: 1, expire: 1 })
  })
})

test('a decision over several algorithms costs what they do, but for one EVAL and one TIME', async () => {
  const charges: StoreCharge[] = [
    createCharge('sliding-window', [{ limit: 10, windowMs: 1_000 }]),
    createCharge('quota', [{ limit: 1_000, windowMs: 24 * HOUR }]),
    createCharge('token-bucket', [{ limit: 50, windowMs: 1_000 }]),
    createCharge('concurrency', [{ limit: 20, windowMs: 60_000 }]),
    createCharge('sliding-window', [{ limit: 5_000, windowMs: 1_000 }]),
  ]
  await billed(take(charges), START_MS)
  const one = { eval: 1, time: 1 }
  const sliding = { xrevrange: 2, xadd: 2 }
  const strings = { get: 2, set: 2 }
  const held = { zrange: 1, zcount: 1, zadd: 1, pttl: 1 }
  expect(await billed(take(charges), START_MS + 1)).toEqual({ ...one, ...sliding, ...strings, ...held })
})

test.each<AlgorithmName>(EVERY_ALGORITHM)('%s: a peek writes nothing', async (name) => {
  const charge = createCharge(name, [{ limit: 10, windowMs: 1_000 }])
  await billed(take([charge], { action: 'peek' }), START_MS)
  expect(await redis.client.exists(charge.key)).toBe(0)
})

test.each(EVERY_ALGORITHM.filter((name) => ALGORITHMS[name].lease))(
  'permits that are leased by %s cost the commands of one decision',
  async (name) => {
    const charge = createCharge(name, [{ limit: 1_000, windowMs: HOUR }])
    const other = { ...charge, key: `${charge.key}:other` }
    for (let i = 0; i < 20; i++) {
      const leased = await billed(
        take([charge], { action: 'take-up-to', permits: 10, leaseMs: 6_000 }),
        START_MS + i * 15,
      )
      expect(leased).toEqual(await billed(take([other], { permits: 10 }), START_MS + i * 15))
    }
  },
)

test('permits that are leased of two policies by one call cost two commands less than by two calls', async () => {
  const charges = [LIMITS.slice(1, 2), LIMITS.slice(2)].map((limits) => createCharge('sliding-window', limits))
  const lease = { action: 'take-up-to', permits: 10, leaseMs: 6_000 } as const
  for (let i = 0; i < 20; i++) await billed(take(charges, lease), START_MS + i * 15)
  for (const charge of charges) expect(total(await billed(take([charge], lease), START_MS + 300))).toBe(5)
  expect(await billed(take(charges, lease), START_MS + 315)).toEqual({
    eval: 1,
    time: 1,
    xrevrange: 2,
    xrange: 2,
    xadd: 2,
  })
})
