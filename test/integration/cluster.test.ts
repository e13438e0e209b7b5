/** Two decisions over the same hash slots, in every order in which their calls can arrive. */
import { describe, expect, test } from 'vitest'
import { withHashSlots } from '../../src/core/engine/places/hash-slots.ts'
import type { Decision, DecisionRequest, StoreCharge } from '../../src/core/model/charge.ts'
import { type Store, StoreError } from '../../src/core/model/store.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { LUA } from '../../src/core/store/redis/more-lua.ts'
import { RedisStore } from '../../src/core/store/redis/redis-store.ts'
import { adaptNodeRedis } from '../../src/core/store/redis/tcp-clients.ts'
import { EVERY_ALGORITHM, findCapacity, storeWith, take, unhurried } from '../support/charges.ts'
import { refuseSeveralSlots } from '../support/cluster-script.ts'
import { shareRedis } from '../support/own-redis.ts'
import { settled } from '../support/virtual-clock.ts'

const redis = shareRedis()
const TIMEOUT_MS = 60_000

/** Calls that wait until the test lets them through. */
class Gate {
  readonly #waiting: (() => Promise<void>)[] = []

  get size(): number {
    return this.#waiting.length
  }

  async open(index: number): Promise<void> {
    const [call] = this.#waiting.splice(index, 1)
    await call?.()
    await settled()
  }

  /** @returns a store of which each call waits, and holds keys of one slot */
  guard(store: Store): Store {
    const pass = <T>(charges: readonly StoreCharge[], call: () => Promise<T>) =>
      new Promise<T>((resolve, reject) => {
        refuseSeveralSlots(charges.map(({ key }) => key))
        this.#waiting.push(() => call().then(resolve, reject))
      })
    return storeWith({
      decide: (request) => pass(request.charges, () => store.decide(request)),
      release: (charges) => pass(charges, () => store.release(charges)),
      settle(differences, chargedAtMs) {
        const charges = differences.map(({ charge }) => charge)
        return pass(charges, () => store.settle(differences, chargedAtMs))
      },
    })
  }
}

const STORES: Readonly<Record<string, () => Store>> = {
  memory: () => new MemoryStore(() => Date.now()),
  Redis: () => {
    const client = adaptNodeRedis(redis)
    return new RedisStore({ client, algorithms: EVERY_ALGORITHM, moreLua: LUA, timeoutMs: TIMEOUT_MS })
  },
}

interface Scenario {
  readonly requests: readonly DecisionRequest[]
  readonly earlier?: readonly DecisionRequest[]
}

interface Outcome {
  readonly decisions: readonly Decision[]
  /** Units charged under the key of a charge. */
  used(charge: StoreCharge): Promise<number>
}

/** Plays a scenario once for each order of calls. @returns their number */
async function playEveryOrder<S extends Scenario>(
  store: Store,
  create: () => S,
  check: (scenario: S, outcome: Outcome) => Promise<void>,
): Promise<number> {
  const gate = new Gate()
  const cluster = withHashSlots(gate.guard(store), { timeoutMs: TIMEOUT_MS, isCluster: true })
  const used = async (charge: StoreCharge) => {
    const { usage } = await store.decide(take([{ ...charge, counts: 'requests' }], { action: 'peek' }))
    return findCapacity(charge) - (usage[0]?.[0]?.remaining ?? 0)
  }
  let played = 0
  for (let path: number[] | undefined = []; path; played++) {
    const scenario = create()
    for (const request of scenario.earlier ?? []) await store.decide(request)
    const deciding = Promise.all(scenario.requests.map((request) => cluster.decide(request)))
    const taken: { index: number; of: number }[] = []
    for (await settled(); gate.size > 0; ) {
      const index: number = path[taken.length] ?? 0
      taken.push({ index, of: gate.size })
      await gate.open(index)
    }
    await check(scenario, { decisions: await deciding, used })
    const last = taken.findLastIndex(({ index, of }) => index + 1 < of)
    path = last < 0 ? undefined : taken.slice(0, last + 1).map(({ index }, at) => (at === last ? index + 1 : index))
  }
  return played
}

function granted(decisions: readonly Decision[]): number {
  return decisions.reduce((sum, decision) => sum + decision.granted, 0)
}

describe.each(Object.entries(STORES))('%s', (_name, createStore) => {
  test('one of two gets the last unit, and the other charges nothing', async () => {
    const create = () => {
      const charges = [unhurried('sliding-window', 1), unhurried('sliding-window', 5)] as const
      return { charges, requests: [take(charges), take(charges)] }
    }
    const orders = await playEveryOrder(createStore(), create, async ({ charges }, { decisions, used }) => {
      expect(granted(decisions)).toBe(1)
      expect(await Promise.all(charges.map(used))).toEqual([1, 1])
      const refused = decisions.find((decision) => decision.granted === 0) as Decision
      expect(refused.usage.map(([limit]) => (limit?.retryAfterMs ?? 0) > 0)).toEqual([true, false])
    })
    expect(orders).toBeGreaterThan(100)
  })
})

describe('memory', () => {
  const createStore = () => new MemoryStore(() => Date.now())
  test.each(['token-bucket', 'quota', 'concurrency'] as const)(
    'what %s has charged before another slot refuses is given back',
    async (algorithm) => {
      // Each takes all of what is last for the other.
      const create = () => {
        const [first, second] = [unhurried(algorithm, 2), unhurried(algorithm, 2)]
        const requests = [take([first, { ...second, cost: 2 }]), take([second, { ...first, cost: 2 }])]
        return { first, second, requests }
      }
      let lost = 0
      await playEveryOrder(createStore(), create, async ({ first, second }, { decisions, used }) => {
        const [one = 0, other = 0] = decisions.map((decision) => decision.granted)
        expect(one + other).toBeLessThanOrEqual(1)
        if (one + other === 0) lost++
        const over = [(await used(first)) - one - 2 * other, (await used(second)) - 2 * one - other]
        // What a bucket may have refilled meanwhile is not given back once more, so that a part of a unit is missing.
        for (const units of over) expect(algorithm === 'token-bucket' ? [0, 1] : [0]).toContain(units)
      })
      expect(lost).toBeGreaterThan(0)
    },
  )

  test('permits that another slot has no more are given back', async () => {
    const create = () => {
      const charges = [unhurried('token-bucket', 3), unhurried('quota', 4)] as const
      const request = () => take(charges, { action: 'take-up-to', permits: 2 })
      return { charges, requests: [request(), request()] }
    }
    await playEveryOrder(createStore(), create, async ({ charges }, { decisions, used }) => {
      expect(granted(decisions)).toBe(3)
      expect(await Promise.all(charges.map(used))).toEqual([3, 3])
    })
  })

  test('no more new identities are admitted than may be, and each is counted before it is known', async () => {
    const create = () => {
      const callers = [unhurried('sliding-window', 5), unhurried('sliding-window', 5)]
      const newIdentities = unhurried('sliding-window', 1, { counts: 'new-identities' })
      return { callers, newIdentities, requests: callers.map((caller) => take([caller, newIdentities])) }
    }
    await playEveryOrder(createStore(), create, async ({ callers, newIdentities }, { decisions, used }) => {
      expect(granted(decisions)).toBe(1)
      expect(await used(newIdentities)).toBe(1)
      expect(await Promise.all(callers.map(used))).toEqual(decisions.map((decision) => decision.granted))
    })
  })

  test('what counts new identities elsewhere is charged before the slot in which they become known', async () => {
    const create = () => {
      const newIdentities = unhurried('sliding-window', 1, { counts: 'new-identities' })
      const pairs = [1, 2].map(() => {
        const own = unhurried('sliding-window', 5)
        const tag = own.key.slice(own.key.indexOf('{'))
        return [
          own,
          unhurried('sliding-window', 5, { key: `test:new-identities:${tag}`, counts: 'new-identities' }),
        ] as const
      })
      return { newIdentities, pairs, requests: pairs.map((pair) => take([...pair, newIdentities])) }
    }
    await playEveryOrder(createStore(), create, async ({ newIdentities, pairs }, { decisions, used }) => {
      expect(granted(decisions)).toBe(1)
      expect(await used(newIdentities)).toBe(1)
      const known = await Promise.all(pairs.map(([own]) => used(own)))
      expect(known).toEqual(decisions.map((decision) => decision.granted))
    })
  })

  test('a new identity that comes twice at once is known afterwards, and counted once or twice', async () => {
    const create = () => {
      const caller = unhurried('sliding-window', 5)
      const newIdentities = unhurried('sliding-window', 5, { counts: 'new-identities' })
      const request = () => take([caller, newIdentities])
      return { caller, newIdentities, requests: [request(), request()] }
    }
    await playEveryOrder(createStore(), create, async ({ caller, newIdentities }, { decisions, used }) => {
      expect(granted(decisions)).toBe(2)
      expect(await used(caller)).toBe(2)
      expect([1, 2]).toContain(await used(newIdentities))
    })
  })

  test('a refusal counts towards the penalty of the charge that refuses, and never charges', async () => {
    const create = () => {
      const strict = unhurried('sliding-window', 1, { penalty: { durationMs: 60_000, after: 2 } })
      const other = unhurried('sliding-window', 5, { penalty: { durationMs: 60_000, after: 1 } })
      return { strict, other, earlier: [take([strict])], requests: [take([strict, other]), take([strict, other])] }
    }
    await playEveryOrder(createStore(), create, async ({ strict, other }, { decisions, used }) => {
      expect(granted(decisions)).toBe(0)
      expect([await used(strict), await used(other)]).toEqual([1, 0])
      expect(decisions.map(({ usage }) => usage[0]?.[0]?.penaltyMs ?? 0).toSorted((a, b) => a - b)).toEqual([0, 60_000])
      expect(decisions.flatMap(({ usage }) => usage[1]?.[0]?.penaltyMs ?? [])).toEqual([])
    })
  })

  test('a shadow charge refuses nothing, and a decision without room for it is granted', async () => {
    const create = () => {
      const charges = [unhurried('quota', 1, { mode: 'shadow' }), unhurried('sliding-window', 2)] as const
      return { charges, requests: [take(charges), take(charges)] }
    }
    await playEveryOrder(createStore(), create, async ({ charges }, { decisions, used }) => {
      expect(granted(decisions)).toBe(2)
      expect(await Promise.all(charges.map(used))).toEqual([1, 2])
    })
  })

  test('nothing is decided if an identity becomes new in between, so that it would not be counted', async () => {
    const store = createStore()
    const gate = new Gate()
    const cluster = withHashSlots(gate.guard(store), { timeoutMs: TIMEOUT_MS, isCluster: true })
    const caller = unhurried('sliding-window', 5)
    const newIdentities = unhurried('sliding-window', 1, { counts: 'new-identities' })
    await store.decide(take([caller]))
    const deciding = cluster.decide(take([caller, newIdentities])).catch((error: unknown) => error)
    await gate.open(0)
    await gate.open(0)
    await store.delete([caller.key])
    await gate.open(0)
    expect(await deciding).toBeInstanceOf(StoreError)
    expect((await store.decide(take([caller, newIdentities]))).granted).toBe(1)
  })

  test('what was charged before a slot gives no answer is given back', async () => {
    const store = createStore()
    const failing = storeWith({
      ...store,
      settle: (differences, chargedAtMs) => store.settle(differences, chargedAtMs),
      async decide(request) {
        if (request.action === 'take' && request.charges[0]?.limits[0]?.limit === 9) throw new StoreError('no answer')
        return store.decide(request)
      },
    })
    const cluster = withHashSlots(failing, { timeoutMs: TIMEOUT_MS, isCluster: true })
    const [charged, unavailable] = [unhurried('quota', 2), unhurried('quota', 9)]
    await expect(cluster.decide(take([charged, unavailable]))).rejects.toThrow('no answer')
    expect((await store.decide(take([charged], { action: 'peek' }))).usage[0]?.[0]?.remaining).toBe(2)
  })

  test('CROSSSLOT splits decisions from then on, and fails none', async () => {
    const store = createStore()
    const sent: number[] = []
    const cluster = withHashSlots(
      storeWith({
        async decide(request) {
          sent.push(request.charges.length)
          refuseSeveralSlots(request.charges.map(({ key }) => key))
          return store.decide(request)
        },
      }),
      { timeoutMs: TIMEOUT_MS, isCluster: false },
    )
    const charges = [unhurried('quota', 2), unhurried('quota', 9)]
    for (let n = 0; n < 2; n++) expect((await cluster.decide(take(charges))).granted).toBe(1)
    expect(sent).toEqual([2, 1, 1, 1, 1, 1, 1, 1, 1])
  })

  test('CROSSSLOT splits other calls too, also several at once', async () => {
    const deleted: (readonly string[])[] = []
    const cluster = withHashSlots(
      storeWith({
        decide: () => expect.unreachable(),
        async delete(keys) {
          refuseSeveralSlots(keys)
          deleted.push(keys)
        },
      }),
      { timeoutMs: TIMEOUT_MS, isCluster: false },
    )
    await Promise.all([cluster.delete(['p:{a}', 'p:{b}']), cluster.delete(['q:{a}', 'q:{b}'])])
    expect(deleted.flat().sort()).toEqual(['p:{a}', 'p:{b}', 'q:{a}', 'q:{b}'])
    await expect(cluster.delete(['r:{a}', 'r:{b}'])).resolves.toBeUndefined()
  })
})
