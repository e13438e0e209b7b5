/** What stores of several places do with their clocks and circuits; test/property/cluster has the laws of their decisions. */
import { expect, test } from 'vitest'
import { withHashSlots } from '../../src/core/engine/places/hash-slots.ts'
import { type Keyed, readTag } from '../../src/core/engine/places/keys.ts'
import { findLayouts, findShard, SHARD_STATES, withShards } from '../../src/core/engine/places/shards.ts'
import type { Decision, StoreCharge } from '../../src/core/model/charge.ts'
import { type Shard, type Store, StoreError } from '../../src/core/model/store.ts'
import { ChargeTimes } from '../../src/core/store/charge-times.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { createCharge, remainingIn, storeWith, take } from '../support/charges.ts'

test('withHashSlots() settles each charge at the time of its own node, whatever the clocks of others show', async () => {
  const first = createCharge('quota', [{ limit: 9, windowMs: 10_000 }])
  const second = createCharge('quota', [{ limit: 9, windowMs: 10_000 }])
  let elapsedMs = 0
  const nodes = {
    [first.key]: new MemoryStore(() => elapsedMs),
    [second.key]: new MemoryStore(() => 60_000 + elapsedMs),
  }
  const findNode = (key = '') => nodes[key] as MemoryStore
  const store = storeWith({
    decide: async (request) => findNode(request.charges[0]?.key).decide(request),
    settle: async (differences, atMs) => findNode(differences[0]?.charge.key).settle(differences, atMs),
  })
  const slots = withHashSlots(store, { timeoutMs: 1_000, isCluster: true })
  const { nowMs } = await slots.decide(take([first, second]))
  expect(nowMs).toBe(60_000)
  // At the first node a window has begun since, in which nothing is to be given back.
  elapsedMs = 15_000
  await slots.decide(take([first, second]))
  await slots.settle(
    [first, second].map((charge) => ({ charge, units: -1 })),
    nowMs,
  )
  const left = await slots.decide(take([first, second], { action: 'peek' }))
  expect(remainingIn(left)).toEqual([8, 8])
})

test('withHashSlots() stops to call a node that keeps failing, and only that', async () => {
  const charges = Array.from({ length: 12 }, () => createCharge('quota', [{ limit: 9, windowMs: 10_000 }]))
  const slots = new Map<string, number>()
  const memory = new MemoryStore(() => 0)
  const calls = { low: 0, high: 0 }
  let last = 0
  const findName = (slot: number) => (slot < 8_192 ? 'low' : 'high')
  const store = storeWith({
    async decide(request) {
      const name = findName(last)
      calls[name]++
      if (name === 'low') throw new StoreError('the connection was lost')
      return memory.decide(request)
    },
  })
  const findNode = (slot: number) => {
    last = slot
    return findName(slot)
  }
  const cluster = withHashSlots(store, { timeoutMs: 1_000, isCluster: true, findNode, now: () => 0, log() {} })
  for (const charge of [...charges, ...charges, ...charges]) {
    const decided = cluster.decide(take([charge])).then(
      ({ granted }) => granted,
      ({ message }) => message,
    )
    slots.set(charge.key, last)
    expect(await decided).toEqual(
      findName(last) === 'low' ? expect.stringMatching(/^low: (the connection was lost$|circuit breaker open)/) : 1,
    )
  }
  const low = [...slots.values()].filter((slot) => findName(slot) === 'low').length
  expect(calls.high).toBe(3 * (charges.length - low))
  expect(calls.low).toBe(Math.min(5, 3 * low))
  // The slot of the specification's example.
  await cluster.decide(take([{ ...(charges[0] as StoreCharge), key: 'test:{123456789}' }])).catch(() => {})
  expect(last).toBe(0x31c3)
})

test('withShards() settles what moves at the time of either database', async () => {
  const charge = createCharge('quota', [{ limit: 9, windowMs: 10_000 }])
  const clocks = { a: 0, b: 25_000 }
  const stores = { a: new MemoryStore(() => clocks.a), b: new MemoryStore(() => clocks.b) }
  const store = withShards(
    [
      { name: 'a', state: 'leaving', store: stores.a },
      { name: 'b', state: 'joining', store: stores.b },
    ],
    { timeoutMs: 1_000 },
  )
  const { nowMs } = await store.decide(take([{ ...charge, cost: 4 }]))
  await store.settle([{ charge, units: -3 }], nowMs)
  for (const each of [store, stores.a, stores.b]) {
    expect(remainingIn(await each.decide(take([charge], { action: 'peek' })))).toEqual([8])
  }
})

test('withShards() asks where an identity was counted before if it is new, while it moves', async () => {
  const known = createCharge('sliding-window', [{ limit: 9, windowMs: 10_000 }])
  const digest = known.key.slice(known.key.lastIndexOf('{'))
  const news = createCharge('quota', [{ limit: 3, windowMs: 10_000 }], {
    key: `test:news:${digest}`,
    counts: 'new-identities',
  })
  const other = { ...news, key: 'test:news:{of all}' }
  const [a, b] = [new MemoryStore(() => 0), new MemoryStore(() => 0)]
  const before = withShards([{ name: 'a', store: a }], { timeoutMs: 1_000 })
  expect((await before.decide(take([known]))).granted).toBe(1)
  const store = withShards(
    [
      { name: 'a', state: 'leaving', store: a },
      { name: 'b', state: 'joining', store: b },
    ],
    { timeoutMs: 1_000 },
  )
  for (const charge of [news, other]) {
    expect((await store.decide(take([known, charge]))).granted).toBe(1)
    for (const place of [a, b]) {
      const { counts: _, ...plain } = charge
      expect(remainingIn(await place.decide(take([plain], { action: 'peek' })))).toEqual([3])
    }
  }
})

const PLACES = [{ name: 'a' }, { name: 'b' }]

/** Charges of so many identities, all of them in one of two databases. */
function createChargesIn(
  name: string,
  count: number,
  create = () => createCharge('quota', [{ limit: 9, windowMs: 10_000 }]),
) {
  const charges: StoreCharge[] = []
  while (charges.length < count) {
    const charge = create()
    if (findShard(readTag(charge), PLACES).name === name) charges.push(charge)
  }
  return charges
}

test('withShards() settles each charge at the time of its own database', async () => {
  const [first, second] = [...createChargesIn('a', 1), ...createChargesIn('b', 1)] as [StoreCharge, StoreCharge]
  let elapsedMs = 0
  const stores = [new MemoryStore(() => elapsedMs), new MemoryStore(() => 60_000 + elapsedMs)]
  const store = withShards(
    PLACES.map((place, at) => ({ ...place, store: stores[at] as MemoryStore })),
    { timeoutMs: 1_000 },
  )
  const { nowMs } = await store.decide(take([first, second]))
  // In the first database a window has begun since, in which nothing is to be given back.
  elapsedMs = 15_000
  await store.decide(take([first, second]))
  await store.settle(
    [first, second].map((charge) => ({ charge, units: -1 })),
    nowMs,
  )
  expect(remainingIn(await store.decide(take([first, second], { action: 'peek' })))).toEqual([8, 8])
})

test.each([
  { action: 'take', permits: 1, left: 0, granted: 0 },
  { action: 'take-up-to', permits: 5, left: 2, granted: 2 },
] as const)('a decision over several places charges in each what all have granted ($granted)', async (one) => {
  const [first, second] = [...createChargesIn('a', 1), ...createChargesIn('b', 1)] as [StoreCharge, StoreCharge]
  const memory = new MemoryStore(() => 0)
  let calls = 0
  const store = storeWith({
    async decide(request) {
      // When both have been asked and one has charged, others take what the second one had.
      if (calls++ === 3) await memory.decide(take([second], { action: 'record', permits: 9 - one.left }))
      return memory.decide(request)
    },
    settle: (differences, atMs) => memory.settle(differences, atMs),
  })
  // The first one has less, so it is charged before.
  await memory.decide(take([first], { action: 'record', permits: 3 }))
  const shards = withShards(
    PLACES.map((place) => ({ ...place, store })),
    { timeoutMs: 1_000 },
  )
  const { action, permits, granted } = one
  expect(await shards.decide(take([first, second], { action, permits }))).toMatchObject({ granted })
  const left = remainingIn(await memory.decide(take([first, second], { action: 'peek' })))
  expect(left).toEqual([6 - granted, one.left - granted])
})

test.each(['refuses', 'fails'])(
  'a decision over several places leaves nothing charged where another %s',
  async (how) => {
    const [first, second] = [
      ...createChargesIn('a', 1, () => createCharge('concurrency', [{ limit: 9, windowMs: 10_000 }])),
      ...createChargesIn('b', 1),
    ] as [StoreCharge, StoreCharge]
    const memory = new MemoryStore(() => 0)
    let calls = 0
    const store = storeWith({
      async decide(request) {
        if (calls++ === 3) {
          if (how === 'fails') throw new StoreError('no answer')
          await memory.decide(take([second], { action: 'record', permits: 9 }))
        }
        return memory.decide(request)
      },
      settle: (differences, atMs) => memory.settle(differences, atMs),
      release: (charges) => memory.release(charges),
    })
    for (let slots = 0; slots < 3; slots++) await memory.decide(take([first]))
    const shards = withShards(
      PLACES.map((place) => ({ ...place, store })),
      { timeoutMs: 1_000 },
    )
    const decided = await shards.decide(take([first, second])).catch(({ message }) => message)
    expect(decided).toEqual(how === 'fails' ? 'b: no answer' : expect.objectContaining({ granted: 0 }))
    expect(remainingIn(await memory.decide(take([first], { action: 'peek' })))).toEqual([6])
  },
)

test('a decision over several places fails if an identity that was known is new when it is charged', async () => {
  const [known] = createChargesIn('a', 1, () => createCharge('sliding-window', [{ limit: 9, windowMs: 10_000 }]))
  const [news] = createChargesIn('b', 1, () =>
    createCharge('quota', [{ limit: 3, windowMs: 10_000 }], { counts: 'new-identities' }),
  )
  const charges = [known, news] as [StoreCharge, StoreCharge]
  const memory = new MemoryStore(() => 0)
  await memory.decide(take([charges[0]]))
  let calls = 0
  const store = storeWith({
    async decide(request) {
      if (calls++ === 2) await memory.delete([charges[0].key])
      return memory.decide(request)
    },
  })
  const shards = withShards(
    PLACES.map((place) => ({ ...place, store })),
    { timeoutMs: 1_000 },
  )
  await expect(shards.decide(take(charges))).rejects.toThrow('an identity became new')
})

test('withShards() goes by the stricter of both databases while an identity moves', async () => {
  const stores = { a: new MemoryStore(() => 0), b: new MemoryStore(() => 0) }
  for (const [stricter, looser] of [
    [stores.a, stores.b],
    [stores.b, stores.a],
  ] as const) {
    const charge = createCharge('quota', [{ limit: 9, windowMs: 10_000 }])
    await stricter.decide(take([charge], { action: 'record', permits: 8 }))
    await looser.decide(take([charge], { action: 'record', permits: 2 }))
    const store = withShards(
      PLACES.map(({ name }, at) => ({
        name,
        state: at === 0 ? 'leaving' : 'joining',
        store: stores[name as 'a' | 'b'],
      })),
      { timeoutMs: 1_000 },
    )
    expect(remainingIn(await store.decide(take([charge], { action: 'peek' })))).toEqual([1])
    expect(await store.decide(take([charge], { action: 'take-up-to', permits: 5 }))).toMatchObject({ granted: 1 })
    expect((await store.decide(take([charge]))).granted).toBe(0)
  }
})

test('ChargeTimes#findEarliest() finds the earliest of several, and of one that was decided twice', () => {
  const times = new ChargeTimes()
  const differences = ['a', 'b', 'c'].map((key) => ({ charge: { ...createCharge('quota', []), key }, units: -1 }))
  expect(times.findEarliest(differences, 9_000)).toBe(9_000)
  times.remember('a', 9_000, 7_000)
  times.remember('b', 9_000, 3_000)
  times.remember('b', 9_000, 5_000)
  times.remember('c', 8_000, 1_000)
  expect(times.findEarliest(differences, 9_000)).toBe(3_000)
  expect(times.findEarliest(differences.slice(0, 1), 9_000)).toBe(7_000)
})

test('withShards() releases, renews and deletes what moves in both databases', async () => {
  let nowMs = 0
  const stores = { a: new MemoryStore(() => nowMs), b: new MemoryStore(() => nowMs) }
  const create = () => createCharge('concurrency', [{ limit: 3, windowMs: 10_000 }])
  // Whichever of the two it is in: with the other states, it moves the other way.
  for (const name of ['a', 'b']) {
    const store = withShards(
      PLACES.map((place) => ({
        ...place,
        state: place.name === name ? 'leaving' : 'joining',
        store: stores[place.name as 'a' | 'b'],
      })),
      { timeoutMs: 1_000 },
    )
    const charge = create()
    const takeSlot = async () => {
      const request = take([charge])
      expect((await store.decide(request)).granted).toBe(1)
      return request.charges
    }
    const listLeft = async () => {
      const left: (number | undefined)[] = []
      for (const each of [stores.a, stores.b]) {
        left.push(...remainingIn(await each.decide(take([charge], { action: 'peek' }))))
      }
      return left
    }
    const [kept, released, revoked] = [await takeSlot(), await takeSlot(), await takeSlot()]
    expect(await listLeft()).toEqual([0, 0])
    await store.release(released)
    expect(await listLeft()).toEqual([1, 1])
    await store.revoke(revoked.map((charge) => ({ charge, isKnown: true })))
    expect(await listLeft()).toEqual([2, 2])
    nowMs += 8_000
    await store.renew(kept)
    nowMs += 8_000
    expect(await listLeft()).toEqual([2, 2])
    await store.delete([charge.key])
    expect(await listLeft()).toEqual([3, 3])
  }
})

test('a decision over several places charges nothing after its deadline', async () => {
  const charges = [...createChargesIn('a', 1), ...createChargesIn('b', 1)]
  const actions: string[] = []
  const memory = new MemoryStore(() => 0)
  const late = Promise.withResolvers<void>()
  const store = storeWith({
    async decide(request) {
      actions.push(request.action)
      await late.promise
      return memory.decide(request)
    },
  })
  const places = { timeoutMs: 5, log() {} }
  for (const split of [
    withShards(
      PLACES.map((place) => ({ ...place, store })),
      places,
    ),
    withHashSlots(store, { ...places, isCluster: true }),
  ]) {
    actions.length = 0
    await expect(split.decide(take(charges))).rejects.toThrow('within the deadline')
    expect(actions).toEqual(['peek', 'peek'])
  }
  late.resolve()
  await new Promise((resolve) => setTimeout(resolve))
  expect(actions).toEqual(['peek', 'peek'])
  const { usage } = (await memory.decide(take(charges, { action: 'peek' }))) as Decision
  expect(usage.flat().map(({ remaining }) => remaining)).toEqual([9, 9])
})

test('withShards() and withHashSlots() tell which charges take calls to several places', async () => {
  const [first, second, other] = [...createChargesIn('a', 2), ...createChargesIn('b', 1)] as [
    StoreCharge,
    StoreCharge,
    StoreCharge,
  ]
  const sameSlot = { ...first, key: `test:sameSlot:${readTag(first)}` }
  const memory = new MemoryStore(() => 0)
  const options = { timeoutMs: 1_000 }
  const shards = withShards(
    PLACES.map((place) => ({ ...place, store: memory })),
    options,
  )
  expect([shards.isSplit?.([first, second]), shards.isSplit?.([first, other])]).toEqual([false, true])
  const moving = PLACES.map(
    (place, at) => ({ ...place, state: at === 0 ? 'leaving' : 'joining', store: memory }) as const,
  )
  expect(withShards(moving, options).isSplit?.([first])).toBe(true)
  expect(
    withShards(
      moving.slice(0, 1).map(({ state: _, ...place }) => place),
      options,
    ).isSplit?.([first, other]),
  ).toBe(false)

  const cluster = withHashSlots(memory, { ...options, isCluster: true })
  expect([cluster.isSplit?.([first, sameSlot]), cluster.isSplit?.([first, second])]).toEqual([false, true])
  const behindOneAddress = withHashSlots(
    storeWith({
      async decide(request) {
        if (new Set(request.charges.map(readTag)).size > 1)
          throw new StoreError("CROSSSLOT Keys don't hash to one slot")
        return memory.decide(request)
      },
    }),
    { ...options, isCluster: false },
  )
  expect(behindOneAddress.isSplit?.([first, second])).toBe(false)
  await behindOneAddress.decide(take([first, second]))
  expect(behindOneAddress.isSplit?.([first, second])).toBe(true)
})

/** A store that notes the tags of the keys of each call, and who was called. */
function noteCalls(name: string, calls: string[], findError: (tags: readonly string[]) => unknown = () => undefined) {
  const note = async (call: string, items: readonly Keyed[]) => {
    const tags = items.map(readTag)
    const error = findError(tags)
    calls.push(`${name} ${call} ${tags.join(' ')}`)
    if (error) throw error
  }
  return storeWith({
    async decide({ charges }) {
      await note('decide', charges)
      return { granted: 1, nowMs: 0, usage: charges.map(() => [{ remaining: 9, resetMs: 0, retryAfterMs: 0 }]) }
    },
    release: (charges) => note('release', charges),
    revoke: (releases) => note('revoke', releases),
    renew: (charges) => note('renew', charges),
    settle: (differences, atMs) => note(`settle ${atMs}`, differences),
    delete: (keys) => note('delete', keys),
    ping: () => note('ping', []),
  })
}

const tagged = (...tags: readonly string[]) =>
  tags.map((tag, slot) =>
    createCharge('concurrency', [{ limit: 9, windowMs: 10_000 }], { key: `test:${slot}:{${tag}}`, slot }),
  )

/** Everything that is called besides decisions. */
async function callEverything(store: Store, charges: readonly StoreCharge[]) {
  await store.release(charges)
  await store.revoke(charges.map((charge) => ({ charge, isKnown: true })))
  await store.renew(charges)
  await store.settle(
    charges.map((charge) => ({ charge, units: -1 })),
    5,
  )
  await store.delete(charges.map(({ key }) => key))
}

const KINDS = ['release', 'revoke', 'renew', 'settle 5', 'delete']

test('withHashSlots() calls a cluster by one slot at a time, and one server with all at once', async () => {
  const charges = tagged('1', '2', '1')
  for (const [isCluster, groups] of [
    [true, ['{1} {1}', '{2}']],
    [false, ['{1} {2} {1}']],
  ] as const) {
    const calls: string[] = []
    const store = withHashSlots(noteCalls('all', calls), { timeoutMs: 1_000, isCluster })
    await callEverything(store, charges)
    expect(calls).toEqual(KINDS.flatMap((kind) => groups.map((tags) => `all ${kind} ${tags}`)))
    calls.length = 0
    await store.decide(take(charges.slice(0, 1)))
    await store.decide(take(tagged('1', '1')))
    await store.ping()
    expect(calls).toEqual(['all decide {1}', 'all decide {1} {1}', 'all ping '])
    expect(store.places === undefined).toBe(!isCluster)
  }
})

test('withHashSlots() has one circuit for each node, and one for slots of which the node is not known', async () => {
  const names = new Map<number, string>()
  const findNode = (slot: number) => names.get(slot)
  const { places, decide } = withHashSlots(noteCalls('all', []), { timeoutMs: 1_000, isCluster: true, findNode })
  await decide(take(tagged('1')))
  await decide(take(tagged('2')))
  expect([...(places?.byName.keys() ?? [])]).toEqual([''])
  const known = places?.byName.get('')
  // CRC16 of "1" and of "foo", as CLUSTER KEYSLOT tells them.
  names.set(9_842, 'a').set(12_182, 'b')
  for (const tag of ['1', 'foo', '1', '2']) await decide(take(tagged(tag)))
  expect([...(places?.byName.keys() ?? [])]).toEqual(['', 'a', 'b'])
  expect(places?.byName.get('')).toBe(known)
})

test('withHashSlots() learns from CROSSSLOT that there are slots, and repeats a call only for that', async () => {
  const calls: string[] = []
  const cross = (tags: readonly string[]) =>
    new Set(tags).size > 1 ? new StoreError("Redis answered an error: CROSSSLOT Keys in request don't hash") : undefined
  const store = withHashSlots(noteCalls('all', calls, cross), { timeoutMs: 1_000, isCluster: false })
  const charges = tagged('1', '2')
  await store.release(charges)
  await store.release(charges)
  const apart = ['all release {1}', 'all release {2}']
  expect(calls).toEqual(['all release {1} {2}', ...apart, ...apart])
  expect(store.places).toBeUndefined()

  for (const error of [new StoreError('no answer'), new Error('CROSSSLOT is what a fault says')]) {
    calls.length = 0
    const failing = withHashSlots(
      noteCalls('all', calls, () => error),
      { timeoutMs: 1_000, isCluster: false },
    )
    await expect(failing.release(charges)).rejects.toBe(error)
    await expect(failing.decide(take(charges))).rejects.toBe(error)
    expect(calls).toHaveLength(2)
    expect(failing.isSplit?.(charges)).toBe(false)
  }
  // Of several slots, one may have been called.
  calls.length = 0
  const error = new StoreError('CROSSSLOT')
  const split = withHashSlots(
    noteCalls('all', calls, () => error),
    { timeoutMs: 1_000, isCluster: true },
  )
  await expect(split.renew(charges)).rejects.toBe(error)
  expect(calls).toEqual(['all renew {1}', 'all renew {2}'])
})

test('withShards() calls the database of each identity, and all of them for a ping', async () => {
  const create = () => take([createCharge('concurrency', [{ limit: 9, windowMs: 10_000 }])]).charges[0] as StoreCharge
  const [first, second] = [...createChargesIn('a', 1, create), ...createChargesIn('b', 1, create)] as [
    StoreCharge,
    StoreCharge,
  ]
  const calls: string[] = []
  const stores = PLACES.map((place) => ({ ...place, store: noteCalls(place.name, calls) }))
  await callEverything(withShards(stores, { timeoutMs: 1_000 }), [first, second])
  expect(calls).toEqual(KINDS.flatMap((kind) => [`a ${kind} ${readTag(first)}`, `b ${kind} ${readTag(second)}`]))
  calls.length = 0
  const store = withShards(stores, { timeoutMs: 1_000 })
  await store.ping()
  expect(calls).toEqual(['a ping ', 'b ping '])
  expect([...(store.places?.byName.keys() ?? [])]).toEqual(['a', 'b'])
  // While one joins, what moves is called in both, and what stays in one.
  calls.length = 0
  const joining = withShards(
    stores.map((each, at) => ({ ...each, state: at === 1 ? ('joining' as const) : undefined })),
    { timeoutMs: 1_000 },
  )
  await callEverything(joining, [first, second])
  const tags = `${readTag(first)} ${readTag(second)}`
  expect(calls).toEqual(KINDS.flatMap((kind) => [`a ${kind} ${tags}`, `b ${kind} ${readTag(second)}`]))
})

test('withShards() takes at least one database', () => {
  expect(() => withShards([], { timeoutMs: 1_000 })).toThrow('a store of no shards')
})

test('findLayouts() knows the databases that count now and those that are to', () => {
  const [a, b, c, d] = [
    { name: 'a' },
    { name: 'b', state: 'joining' as const },
    { name: 'c', state: 'leaving' as const },
    { name: 'd', state: 'unknown' as 'leaving' },
  ] as [Shard, Shard, Shard, Shard]
  expect(findLayouts([a, b, c, d])).toEqual({ now: [a, c], next: [a, b], isMoving: true })
  expect(findLayouts([a])).toEqual({ now: [a], next: [a], isMoving: false })
  expect(SHARD_STATES).toEqual(['joining', 'leaving'])
})

test('findShard() moves only what a new database takes', () => {
  const names = Array.from({ length: 200 }, (_, n) => `{identity ${n}}`)
  const counts = new Map<string, number>()
  for (const name of names) {
    const before = findShard(name, PLACES)
    const after = findShard(name, [{ name: 'c' }, ...PLACES])
    counts.set(after.name, (counts.get(after.name) ?? 0) + 1)
    if (after.name !== 'c') expect(after).toBe(before)
  }
  for (const name of ['a', 'b', 'c']) expect(counts.get(name)).toBeGreaterThan(40)
  // Of two of one name, the first.
  const namesakes = [{ name: 'a' }, { name: 'a' }]
  expect(findShard('any', namesakes)).toBe(namesakes[0])
})

test('a decision over several places that is refused while it charges goes no further, and may be granted soon', async () => {
  const [first, second] = [...createChargesIn('a', 1), ...createChargesIn('b', 1)] as [StoreCharge, StoreCharge]
  const memory = new MemoryStore(() => 0)
  const calls: string[] = []
  let isTaken = true
  const store = storeWith({
    async decide(request) {
      // When both have been asked, others take what the first one had.
      if (calls.length === 2 && isTaken) await memory.decide(take([first], { action: 'record', permits: 9 }))
      calls.push(`${request.action} ${request.charges[0]?.key === first.key ? 'first' : 'second'}`)
      return memory.decide(request)
    },
    settle: (differences, atMs) => memory.settle(differences, atMs),
  })
  // The first one has less, so it is charged before.
  await memory.decide(take([first], { action: 'record', permits: 8 }))
  const shards = withShards(
    PLACES.map((place) => ({ ...place, store })),
    { timeoutMs: 1_000 },
  )
  expect(await shards.decide(take([first, second]))).toMatchObject({ granted: 0, isProvisional: true })
  expect(calls).toEqual(['peek first', 'peek second', 'take first'])
  // Where it is refused before it charges, only time helps.
  expect(Object.keys(await shards.decide(take([first, second])))).not.toContain('isProvisional')
  isTaken = false
  await memory.delete([first.key])
  const granted = await shards.decide(take([first, second]))
  expect([granted.granted, 'isProvisional' in granted]).toEqual([1, false])
})
