/** The simulation behind bench/results/scale.md: its own parts, and laws that hold for whatever it simulates. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { computeRoundTripMs, createPlaces, findMetro, METROS } from '../../../bench/scale/map.ts'
import { ObjectSite } from '../../../bench/scale/object-site.ts'
import { createCharges, HOT_GLOBAL, type Limits, type ScalePolicies } from '../../../bench/scale/policies.ts'
import { createZipfPopulation } from '../../../bench/scale/population.ts'
import { RedisSite } from '../../../bench/scale/redis-site.ts'
import { Server } from '../../../bench/scale/server.ts'
import { type ScaleFigures, type Scenario, simulate } from '../../../bench/scale/simulate.ts'
import { runInVirtualTime, START_MS, VirtualTime } from '../../../bench/scale/virtual-time.ts'
import type { Store } from '../../../src/core/model/store.ts'
import { Deadlines } from '../../../src/core/runtime/call-context.ts'
import { DurableObjectStore } from '../../../src/core/store/durable-object/durable-object-store.ts'
import { openObjects } from '../../../src/core/store/durable-object/objects.ts'
import { seededRandom } from '../../../tools/seeded-random.ts'

const never = () => 0

describe('VirtualTime', () => {
  test('runs what is due by its time, and what is due at once in the order in which it was scheduled', async () => {
    const time = new VirtualTime()
    const seen: string[] = []
    const at = (ms: number, name: string) =>
      time.at(START_MS + ms, () => void seen.push(`${name} ${time.nowMs - START_MS}`))
    for (const [ms, name] of [
      [7, 'd'],
      [3, 'b'],
      [7, 'e'],
      [1, 'a'],
      [5, 'c'],
      [99, 'late'],
    ] as const)
      at(ms, name)
    await time.runUntil(START_MS + 50)
    expect(seen).toEqual(['a 1', 'b 3', 'c 5', 'd 7', 'e 7'])
    expect(time.nowMs).toBe(START_MS + 50)
  })

  test('any order of asking leads to the same order of running', async () => {
    const orders = fc.array(fc.integer({ min: 0, max: 20 }), { maxLength: 60 })
    await fc.assert(
      fc.asyncProperty(orders, async (due) => {
        const time = new VirtualTime()
        const ran: number[] = []
        for (const ms of due) time.quietlyAt(START_MS + ms, () => void ran.push(ms))
        await time.runUntil(START_MS + 20)
        expect(ran).toEqual(due.toSorted((a, b) => a - b))
      }),
      { numRuns: 50 },
    )
  })

  test('all that one event has settled is handled before the next', async () => {
    const time = new VirtualTime()
    const received: number[] = []
    time.at(START_MS + 1, () => {
      let chain = Promise.resolve()
      for (let step = 0; step < 100; step++) chain = chain.then(() => {})
      void chain.then(() => received.push(time.nowMs - START_MS))
    })
    time.at(START_MS + 1.5, () => received.push(1.5))
    await time.runUntil(START_MS + 2)
    expect(received).toEqual([1, 1.5])
  })

  test('a timer holds its owner until it fires or is cleared', async () => {
    const time = new VirtualTime()
    let holds = 0
    const owner = { hold: () => void holds++, release: () => void holds-- }
    let cleared: ReturnType<VirtualTime['setTimeout']> | undefined
    time.at(
      START_MS,
      () => {
        time.setTimeout(() => {}, 10)
        cleared = time.setTimeout(() => expect.unreachable(), 20)
      },
      owner,
    )
    await time.runUntil(START_MS + 5)
    expect(holds).toBe(2)
    await time.runUntil(START_MS + 15)
    expect(holds).toBe(1)
    time.clearTimeout(cleared)
    time.clearTimeout(cleared)
    expect(holds).toBe(0)
    await time.runUntil(START_MS + 30)
    expect(holds).toBe(0)
  })

  test('runInVirtualTime() gives back clock, timers and chance, also after a failure', async () => {
    const before = [Date.now, Math.random, setTimeout, clearTimeout, Response, Error.stackTraceLimit]
    const time = new VirtualTime()
    const failing = runInVirtualTime(time, never, async () => {
      expect([Date.now(), Math.random()]).toEqual([START_MS, 0])
      throw new Error('it fails')
    })
    await expect(failing).rejects.toThrow('it fails')
    expect([Date.now, Math.random, setTimeout, clearTimeout, Response, Error.stackTraceLimit]).toEqual(before)
  })
})

describe('Server', () => {
  test('serves one call after the other, and refuses those that would wait too long', () => {
    const server = new Server(0, never)
    const starts: number[] = []
    const arrive = (ms: number, serviceMs: number) =>
      server.arrive(ms, (startMs) => {
        starts.push(startMs)
        return serviceMs
      })
    expect([arrive(0, 2), arrive(1, 2), arrive(5, 300), arrive(6, 1), arrive(100, 1)]).toEqual([
      true,
      true,
      true,
      false,
      true,
    ])
    expect(starts).toEqual([0, 2, 5, 305])
  })

  test('calls that are not simulated take their share of its time', () => {
    const random = seededRandom(1)
    const server = new Server(9, random)
    const waits: number[] = []
    // With nine others each, 1,000 calls of 0.5 ms a second: busy half of the time.
    for (let ms = 0; ms < 100_000; ms += -Math.log(1 - random()) * 10) {
      server.arrive(ms, (startMs) => {
        waits.push(startMs - ms)
        return 0.5
      })
    }
    const mean = waits.slice(100).reduce((sum, wait) => sum + wait, 0) / (waits.length - 100)
    // One server, random arrivals, one length: busy × length / (2 × idle).
    expect(mean).toBeGreaterThan(0.22)
    expect(mean).toBeLessThan(0.28)
  })
})

test('computeRoundTripMs() is near the round trips from Paris that are published', () => {
  // https://github.com/Azure/azure-cosmos-dotnet-v3, RegionProximityUtil: France Central to where these metros are.
  const published = {
    Washington: 80,
    Toronto: 92,
    London: 7,
    Frankfurt: 10,
    Mumbai: 116,
    Singapore: 150,
    'Hong Kong': 184,
  }
  const farther = { Seoul: 212, Tokyo: 218, Sydney: 238, Johannesburg: 166, 'São Paulo': 186 }
  for (const [name, ms] of Object.entries({ ...published, ...farther })) {
    const ratio = computeRoundTripMs(findMetro('Paris'), findMetro(name)) / ms
    expect(ratio, name).toBeGreaterThan(0.6)
    expect(ratio, name).toBeLessThan(1.4)
  }
})

test('createPlaces() has ten places for each metro, and one in ten has one', () => {
  expect(METROS.reduce((sum, { share }) => sum + share, 0)).toBe(100)
  expect(createPlaces(1, seededRandom(1))).toHaveLength(300)
  expect(new Set(createPlaces(10, seededRandom(1)).map(({ metro }) => metro.name)).size).toBe(30)
})

test('createZipfPopulation(): the nth sends 1/n of what the first sends, and one stands for the average of many', () => {
  const shares = (oneIn: number) => {
    const { size, callerAt } = createZipfPopulation(100, oneIn)
    const counts = new Array<number>(size).fill(0)
    for (let i = 0; i < 100_000; i++) (counts[callerAt(i / 100_000)] as number) += 1
    return counts.map((count) => count / 100_000)
  }
  const [all, some] = [shares(1), shares(10)]
  expect((all[0] as number) / (all[9] as number)).toBeCloseTo(10, 1)
  expect(some).toHaveLength(10)
  expect(some[0]).toBeCloseTo(
    all.slice(0, 10).reduce((sum, share) => sum + share, 0),
    3,
  )
})

describe('by hand', () => {
  const charge = createCharges({ perCaller: { limit: 2, windowMs: 1_000 } }, 1, 1)
  const request = { action: 'take', permits: 1, charges: charge } as const

  /** When each of these decisions came, after it was asked for, and what it said. */
  async function requested(time: VirtualTime, store: Store, atMs: readonly number[]) {
    const received: { afterMs: number; granted: number; decidedMs: number }[] = []
    for (const ms of atMs) {
      time.at(START_MS + ms, () => {
        const sentMs = time.nowMs
        const context = { deadlines: new Deadlines(), waitUntil() {} }
        void store.decide(request, context).then(({ granted, nowMs }) => {
          received.push({ afterMs: Number((time.nowMs - sentMs).toFixed(3)), granted, decidedMs: nowMs - START_MS })
        })
      })
    }
    await time.runUntil(START_MS + (atMs.at(-1) ?? 0) + 1_000)
    return received
  }

  test('RedisSite: two calls at once, 100 ms away, and one a little later', async () => {
    const time = new VirtualTime()
    const site = new RedisSite({ time, random: never, others: 0, timeoutMs: 500 })
    const received = await runInVirtualTime(time, never, () => requested(time, site.storeAt(100), [0, 0, 200]))
    expect(received).toEqual([
      // Five commands of 0.1 ms: a new caller's time to live is one.
      { afterMs: 100.5, granted: 1, decidedMs: 50 },
      // They begin when the first five have ended.
      { afterMs: 100.9, granted: 1, decidedMs: 50 },
      // A refusal writes nothing.
      { afterMs: 100.3, granted: 0, decidedMs: 250 },
    ])
    expect([site.calls, site.commands]).toEqual([3, 12])
  })

  test('ObjectSite: two calls at once from the place where the object is made, and one from far away', async () => {
    const time = new VirtualTime()
    const site = new ObjectSite({ time, random: never, lookMs: 0, countOthers: () => 0 })
    const [paris, sydney] = ['Paris', 'Sydney'].map((name) => {
      const metro = findMetro(name)
      return new DurableObjectStore({ objects: openObjects(site.namespaceAt({ ...metro, metro })), timeoutMs: 500 })
    }) as unknown as [Store, Store]
    const unavailableMs = Number(computeRoundTripMs(findMetro('Paris'), findMetro('Sydney')).toFixed(3))
    await runInVirtualTime(time, never, async () => {
      // 2 ms of way, 1 ms of work, 5 ms until it is on disk; the second has to wait for the work of the first.
      expect(await requested(time, paris, [0, 0])).toEqual([
        { afterMs: 8, granted: 1, decidedMs: 1 },
        { afterMs: 9, granted: 1, decidedMs: 2 },
      ])
      // Table and key, row and alarm; then a row.
      expect(site.readBill()).toMatchObject({ requests: 2, rowsWritten: 5 })
      // From the first's arrival until the second's answer has left.
      expect(site.readBill().gbSeconds).toBeCloseTo((7 / 1_000) * 0.128)
      expect(site.made).toBe(1)
      // There and back, and the work.
      expect(await requested(time, sydney, [5_000])).toEqual([
        { afterMs: unavailableMs + 6, granted: 1, decidedMs: expect.any(Number) },
      ])
    })
  })
})

describe('simulate()', () => {
  const of = (name: string, limits: Limits): ScalePolicies => ({ name, findLimits: () => limits })
  const windowMs = 4_000
  const AMPLE = of('ample limits', { perCaller: { limit: 400, windowMs } })
  const BOTH = of('ample limits, also for all', {
    perCaller: { limit: 400, windowMs },
    ofAll: { limit: 1_200, windowMs },
  })
  const THREE = of('three identities', {
    perCaller: { limit: 400, windowMs },
    perTenant: { limit: 800, windowMs },
    ofAll: { limit: 1_200, windowMs },
  })
  const TIGHT = of('tight limits', { perCaller: { limit: 100, windowMs }, ofAll: { limit: 600, windowMs } })
  const FLOODED = of('a flooded limit', { ofAll: { limit: 400, windowMs } })
  const small = (policies: ScalePolicies, store: Scenario['store'], leases: Scenario['leases']): Scenario => {
    return {
      policies,
      store,
      leases,
      perSecond: 200,
      oneIn: 1,
      callers: 50,
      warmUpMs: 4_000,
      measuredMs: 4_000,
      seed: 1,
    }
  }

  test.each(['redis', 'durable-object'] as const)('is the same for the same seed (%s)', async (store) => {
    const scenario = { ...small(BOTH, store, 'auto'), measuredMs: 1_000, warmUpMs: 0 }
    const figures = await simulate(scenario)
    expect(await simulate(scenario)).toEqual(figures)
    expect(await simulate({ ...scenario, seed: 2 })).not.toEqual(figures)
  })

  test.each(
    [AMPLE, BOTH, THREE, TIGHT, FLOODED, HOT_GLOBAL].flatMap((policies) =>
      (['redis', 'durable-object'] as const).map((store) => ({ policies, store, name: policies.name })),
    ),
  )(
    '$name over $store: no true window is over its limit, each request has one fate, and leases save calls',
    async ({ policies, store }) => {
      const figures = async (leases: Scenario['leases']) => await simulate(small(policies, store, leases))
      const [without, withLeases] = [await figures('off'), await figures('auto')]
      for (const { fullest, admitted, refused, undecided, requests } of [without, withLeases]) {
        expect(fullest).toBeLessThanOrEqual(1)
        expect(admitted + refused + undecided).toBe(requests)
        expect(requests).toBeGreaterThan(350)
      }
      // Far from an object that refuses what another has reserved, two round trips can take too long.
      expect(without.undecided).toBeLessThan(0.01 * without.requests)
      expect(without.admitted / without.ideal).toBeGreaterThan(0.97)
      // Who is at a limit is asked about again and again, with leases or without.
      if (policies !== FLOODED && policies !== TIGHT) expect(withLeases.calls).toBeLessThanOrEqual(without.calls)
    },
  )

  test('a store with too much to do leaves requests undecided, and admits none of them', async () => {
    const figures: ScaleFigures = await simulate({
      ...{ ...small(HOT_GLOBAL, 'redis', 'off'), perSecond: 30_000, oneIn: 10, warmUpMs: 500, measuredMs: 500 },
    })
    expect(figures.undecided).toBeGreaterThan(figures.requests / 4)
    expect(figures.fullest).toBeLessThanOrEqual(1)
  })
})
