import { expect, test } from 'vitest'
import { joinBackends, joinCounters } from '../../src/core/engine/join-backends.ts'
import { type Circuit, type Shard, StoreError, type StorePlace } from '../../src/core/model/store.ts'
import { openMemoryBackend } from '../../src/core/store/memory/memory-store.ts'
import { OPEN_REPORT_MS } from '../../src/gateway/app/open-responses.ts'
import { openShardHealth } from '../../src/gateway/app/shard-health.ts'
import { loadConfig } from '../../src/http/config/load-config.ts'

const HOUR_MS = 3_600_000
const ROLLOUT_MS = 60_000
const { policies, keyPrefix } = loadConfig({ UPSTREAM_URL: 'https://api.acme.test', RATE_LIMITS: '5/1s, 60/1h' })

/** What one isolate after the other tells of the layout that it was started with. */
function readLayouts(...layouts: readonly (readonly Shard[])[]) {
  return readLayoutsFor(policies, ...layouts)
}

async function readLayoutsFor(own: typeof policies, ...layouts: readonly (readonly Shard[])[]) {
  const databases = new Map<string, ReturnType<typeof openMemoryBackend>>()
  const seen = []
  for (const layout of layouts) {
    const shards = layout.map((shard) => {
      const backend = databases.get(shard.name) ?? openMemoryBackend(Date.now)
      databases.set(shard.name, backend)
      return { ...shard, backend }
    })
    const config = { policies: own, keyPrefix, shards: layout.map((shard) => ({ ...shard, url: '', token: '' })) }
    const readHealth = await openShardHealth({
      config,
      backend: joinBackends(shards, { timeoutMs: 1_000 }),
      now: Date.now,
    })
    const { layout: first } = await readHealth()
    // It is the same when it is asked again.
    expect((await readHealth()).layout).toEqual(first)
    seen.push(first)
  }
  return seen
}

const [a, b, c] = ['a', 'b', 'c'].map((name): Shard => ({ name })) as [Shard, Shard, Shard]

test('openShardHealth() tells when a change is complete: after the longest window', async () => {
  const [before, joining, after] = await readLayouts([a, b], [a, b, { ...c, state: 'joining' }], [a, b, c])
  expect(before).toEqual({ sinceMs: expect.any(Number), completeAtMs: null, warning: null })
  expect(joining).toEqual({
    sinceMs: expect.any(Number),
    completeAtMs: (joining?.sinceMs ?? 0) + HOUR_MS + ROLLOUT_MS,
    warning: null,
  })
  expect(joining?.sinceMs).toBeGreaterThanOrEqual(before?.sinceMs ?? Number.POSITIVE_INFINITY)
  expect(after).toMatchObject({ completeAtMs: null })
})

test('openShardHealth() warns of what loses counts: too soon, without having joined or left, or by another name', async () => {
  const [, added] = await readLayouts([a], [a, b])
  expect(added?.warning).toBe('b was added without having joined')
  const [, removed] = await readLayouts([a, b], [a])
  expect(removed?.warning).toBe('b was removed without having left')
  const [, renamed] = await readLayouts([a, b], [a, c])
  expect(renamed?.warning).toBe('c was added without having joined; b was removed without having left')
  const [, , hasty] = await readLayouts([a], [a, { ...b, state: 'joining' }], [a, b])
  expect(hasty?.warning).toBe('b counts alone sooner than after the longest window')
  const [, , gone] = await readLayouts([a, b], [a, { ...b, state: 'leaving' }], [a])
  expect(gone?.warning).toBe('b was removed sooner than after the longest window')
  // Whoever goes back loses nothing.
  const [, , back] = await readLayouts([a], [a, { ...b, state: 'joining' }], [a])
  expect(back?.warning).toBeNull()
})

test('openShardHealth() tells which database answers, how late the last one does, and whose circuit is open', async () => {
  let nowMs = 0
  const place = (circuit: Circuit, tookMs: number, isAway = false): StorePlace => ({
    circuit,
    mayCall: circuit !== 'open',
    async ping() {
      nowMs += tookMs
      if (isAway) throw new StoreError('Redis could not be reached')
    },
  })
  const ask = async (places: Readonly<Record<string, StorePlace>>) => {
    const memory = openMemoryBackend(() => nowMs)
    const byName = new Map(Object.entries(places))
    const limits = { ...memory.limits, places: { circuit: 'closed' as const, mayCall: true, byName } }
    const config = { policies, keyPrefix, shards: [] }
    return (await openShardHealth({ config, backend: { ...memory, limits }, now: () => nowMs }))()
  }
  const one = place('closed', 3)
  expect(await ask({ a: one, b: place('half-open', 4) })).toMatchObject({
    reachable: true,
    rttMs: 7,
    shards: { a: { reachable: true, circuit: 'closed' }, b: { reachable: true, circuit: 'half-open' } },
  })
  expect(await ask({ a: one, b: place('open', 4, true) })).toMatchObject({
    reachable: false,
    rttMs: null,
    shards: { a: { reachable: true }, b: { reachable: false, rttMs: null, circuit: 'open' } },
  })
})

test('openShardHealth() warns of another first database, in which there are no rules, whichever order it was before', async () => {
  for (const [before, after] of [
    [
      [a, b],
      [b, a],
    ],
    [
      [b, a, c],
      [a, b, c],
    ],
    [
      [b, { ...a, state: 'leaving' as const }],
      [{ ...a, state: 'leaving' as const }, b],
    ],
  ] as const) {
    const [, changed] = await readLayouts(before, after)
    expect(changed?.warning).toContain(
      `${after[0].name} is the first now, and rules and blocks are in ${before[0].name}`,
    )
  }
  const [, moved] = await readLayouts([a, b, c], [a, c, b])
  expect(moved?.warning).toBeNull()
})

test('openShardHealth() leaves responses that began before time to be told of, where policies hold or settle', async () => {
  const { policies: holding } = loadConfig({
    UPSTREAM_URL: 'https://api.acme.test',
    POLICIES: [
      { name: 'sockets', algorithm: 'concurrency', limits: '2' },
      { name: 'tokens', limits: '1000/1m', actual_cost: 'json:/usage/total_tokens', untold: 1 },
      { name: 'plain', limits: '5/1s' },
    ],
  })
  const [joining] = await readLayoutsFor(holding, [a, { ...b, state: 'joining' }])
  expect((joining?.completeAtMs ?? 0) - (joining?.sinceMs ?? 0)).toBe(60_000 + ROLLOUT_MS + OPEN_REPORT_MS)
  expect(joining?.warning).toBeNull()
})

test('joinBackends() keeps documents in the first database, and reads them in each', async () => {
  const shards = [a, b].map((shard) => ({ ...shard, backend: openMemoryBackend(() => 0) }))
  const joined = joinBackends(shards, { timeoutMs: 1_000 })
  await (await joined.documents('rules')).write({ text: '{}', expectedVersion: 0, actor: 'me', comment: '' })
  const read = async (store: ReturnType<typeof joined.documents>) => (await (await store).read())?.version ?? 0
  expect(await read(joined.documents('rules'))).toBe(1)
  const ofEach = (await joined.documentsOfEach?.('rules')) ?? []
  expect(await Promise.all(ofEach.map(async (store) => (await store.read())?.version ?? 0))).toEqual([1, 0])
  expect(await read(joined.documents('others'))).toBe(0)
  expect(() => joinBackends([], { timeoutMs: 1_000 })).toThrow('a backend of no shards')
})

test('joinCounters() adds statistics where their source is counted next, and sums up what each has counted', async () => {
  const options = { keyPrefix: 'test', timeoutMs: 1_000 }
  const memory = () => openMemoryBackend(() => 0).counters(options)
  const [first, second] = [await memory(), await memory()]
  const shards = [
    { ...a, counters: first },
    { ...b, state: 'leaving' as const, counters: second },
  ]
  const joined = joinCounters(shards)
  const flush = (source: string, startMs: number, count: number) => ({
    source,
    number: 1,
    minutes: [{ startMs, counts: new Map([['requests', count]]), sketches: new Map() }],
  })
  for (let n = 0; n < 8; n++) await joined.add(flush(`isolate ${n}`, 0, 1))
  expect(await second.readTotals()).toEqual(new Map())
  expect(await first.readTotals()).toEqual(new Map([['requests', 8]]))
  await first.add(flush('later', 60_000, 5))
  await second.add(flush('before', 0, 3))
  await second.add(flush('long before', -60_000, 2))
  expect(await joined.readTotals()).toEqual(new Map([['requests', 18]]))
  const periods = await joined.read('minute', -60_000, 120_000)
  expect(periods.map(({ startMs, counts }) => [startMs, counts.get('requests')])).toEqual([
    [-60_000, 2],
    [0, 11],
    [60_000, 5],
  ])
})
