/**
 * How far the simulation is off: the same requests at the same times through four engines, once in real time over a real
 * Redis by REST, or over objects in workerd, and once over what is simulated of them.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from '@upstash/redis'
import { Engine } from '../../src/core/engine/engine.ts'
import { withLeases } from '../../src/core/engine/leases/with-leases.ts'
import type { Store } from '../../src/core/model/store.ts'
import { Deadlines } from '../../src/core/runtime/call-context.ts'
import { DurableObjectStore } from '../../src/core/store/durable-object/durable-object-store.ts'
import { type ObjectNamespace, openObjects } from '../../src/core/store/durable-object/objects.ts'
import { adaptUpstash, UPSTASH_OPTIONS } from '../../src/core/store/redis/client.ts'
import { RedisStore } from '../../src/core/store/redis/redis-store.ts'
import { buildBundle } from '../../test/support/build-bundle.ts'
import { startDirectGateway } from '../../test/support/direct-gateway.ts'
import { connectRedis } from '../../test/support/redis-client.ts'
import { startRedisServer } from '../../tools/redis-server.ts'
import { seededRandom } from '../../tools/seeded-random.ts'
import { readCounts, resetCounts } from '../command-counts.ts'
import { startFront } from '../services.ts'
import { findMetro } from './map.ts'
import { ObjectSite } from './object-site.ts'
import { createCharges, type Limits, toCharge } from './policies.ts'
import { createZipfPopulation } from './population.ts'
import { RedisSite } from './redis-site.ts'
import type { CrossCheckCounts, CrossCheckRow } from './results.ts'
import { runInVirtualTime, START_MS, VirtualTime } from './virtual-time.ts'

type Fate = 'admitted' | 'refused' | 'undecided'
type Fates = Pick<CrossCheckCounts, 'admitted' | 'undecided'>

interface Sent {
  /** Time since the first request. */
  readonly ms: number
  readonly caller: number
  readonly isolate: number
}

const TOKEN = 'bench-token'
const ISOLATES = 4
const CALLERS = 20
const PER_SECOND = 100
const DURATION_MS = 20_000
const ROUND_TRIP_MS = 20
/** Long enough for a machine that does other things as well: what comes late would count as not admitted. */
const TIMEOUT_MS = 5_000
/** Some callers are over this limit, some have leases, and some have neither. */
const PER_CALLER = { limit: 200, windowMs: 10_000 }
const MOST_TIMES = 3
/** Fewer requests share another limit too: workerd writes to a real disk, four times for each. */
const ONE_IN_SHARED = 4
const OF_ALL = { limit: 225, windowMs: 10_000 }
const COMPARED = [
  { store: 'redis', leases: 'off', limits: { perCaller: PER_CALLER } },
  { store: 'redis', leases: 'auto', limits: { perCaller: PER_CALLER } },
  { store: 'durable-object', leases: 'auto', limits: { perCaller: PER_CALLER } },
  { store: 'durable-object', leases: 'off', limits: { perCaller: PER_CALLER, ofAll: OF_ALL } },
] as const satisfies readonly Compared[]

interface Compared extends Pick<CrossCheckRow, 'store' | 'leases'> {
  readonly limits: Limits
}

export async function runCrossCheck(seed: number): Promise<CrossCheckRow[]> {
  const schedule = drawSchedule(seededRandom(seed))
  const rows: CrossCheckRow[] = []
  for (const compared of COMPARED) {
    const { store, leases, limits } = compared
    const isShared = 'ofAll' in limits
    const sent = isShared ? schedule.filter((_, index) => index % ONE_IN_SHARED === 0) : schedule
    const real = await playUndisturbed(() => (store === 'redis' ? playOverRedis : playOverObjects)(sent, compared))
    const simulated = await playSimulated(sent, compared, seed)
    rows.push({ store, leases, isShared, requests: sent.length, real, simulated })
  }
  return rows
}

/** A machine too busy to answer within the deadline measures itself: the least disturbed of a few times. */
async function playUndisturbed(play: () => Promise<CrossCheckCounts>): Promise<CrossCheckCounts> {
  let best = await play()
  for (let time = 1; time < MOST_TIMES && best.undecided > 0; time++) {
    const again = await play()
    if (again.undecided < best.undecided) best = again
  }
  return best
}

function drawSchedule(random: () => number): Sent[] {
  const population = createZipfPopulation(CALLERS, 1)
  const schedule: Sent[] = []
  for (let ms = 0; ms < DURATION_MS; ms += (-Math.log(1 - random()) * 1_000) / PER_SECOND) {
    schedule.push({ ms, caller: population.callerAt(random()), isolate: Math.floor(random() * ISOLATES) })
  }
  return schedule
}

async function playOverRedis(schedule: readonly Sent[], compared: Compared): Promise<CrossCheckCounts> {
  const server = await startRedisServer()
  const redis = await connectRedis(server.port)
  const front = await startFront(server.port, TOKEN, ROUND_TRIP_MS)
  try {
    const client = adaptUpstash(new Redis({ url: front.url, token: TOKEN, ...UPSTASH_OPTIONS }))
    const createStore = () => new RedisStore({ client, algorithms: ['sliding-window'], timeoutMs: TIMEOUT_MS })
    await resetCounts(redis)
    const fates = await playReally(schedule, compared, createStore)
    return { ...fates, calls: await front.ask<number>('requests'), written: (await readCounts(redis)).billed }
  } finally {
    await front.stop()
    await redis.close()
    await server.stop()
  }
}

async function playOverObjects(schedule: readonly Sent[], compared: Compared): Promise<CrossCheckCounts> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-scale-'))
  const host = await startDirectGateway({
    bundle: await buildBundle({ source: 'bench/scale/counting-worker.ts', into: folder }),
    bindings: {},
    objects: 'disk',
  })
  try {
    let calls = 0
    const namespace: ObjectNamespace = {
      idFromName: (name) => name,
      get: (name) => ({
        async fetch(_, init) {
          calls++
          await sleep(ROUND_TRIP_MS / 2)
          const response = await fetch(`${host.url}?name=${encodeURIComponent(String(name))}`, init)
          await sleep(ROUND_TRIP_MS / 2)
          return response
        },
      }),
    }
    const objects = openObjects(namespace)
    const createStore = () => new DurableObjectStore({ objects, timeoutMs: TIMEOUT_MS })
    const fates = await playReally(schedule, compared, createStore)
    // By then all objects know how decisions ended.
    await sleep(1_000)
    return { ...fates, calls, written: Number(await (await fetch(host.url)).json()) }
  } finally {
    await host.stop()
    await rm(folder, { recursive: true })
  }
}

async function playReally(schedule: readonly Sent[], compared: Compared, createStore: () => Store): Promise<Fates> {
  const engines = openEngines(createStore, compared)
  const startMs = performance.now()
  const all: Promise<Fate>[] = []
  for (const sent of schedule) {
    const waitMs = startMs + sent.ms - performance.now()
    if (waitMs > 0) await sleep(waitMs)
    all.push(decideFate(engines, sent, compared))
  }
  return countFates(await Promise.all(all))
}

function playSimulated(schedule: readonly Sent[], compared: Compared, seed: number): Promise<CrossCheckCounts> {
  const time = new VirtualTime()
  const random = seededRandom(seed)
  return runInVirtualTime(time, random, async () => {
    const redis = new RedisSite({ time, random, others: 0, timeoutMs: TIMEOUT_MS })
    const metro = findMetro('Frankfurt')
    const objects = new ObjectSite({ time, random, lookMs: 0, countOthers: () => 0 })
    const namespace = objects.namespaceAt({ ...metro, metro }, ROUND_TRIP_MS)
    const isRedis = compared.store === 'redis'
    const engines = openEngines(() => {
      if (isRedis) return redis.storeAt(ROUND_TRIP_MS)
      return new DurableObjectStore({ objects: openObjects(namespace), timeoutMs: TIMEOUT_MS })
    }, compared)
    const fates: Fate[] = []
    for (const sent of schedule) {
      time.at(START_MS + sent.ms, () => void decideFate(engines, sent, compared).then((fate) => fates.push(fate)))
    }
    await time.runUntil(START_MS + DURATION_MS + 2 * TIMEOUT_MS)
    const { requests, rowsWritten } = objects.readBill()
    return isRedis
      ? { ...countFates(fates), calls: redis.calls, written: redis.commands }
      : { ...countFates(fates), calls: requests, written: rowsWritten }
  })
}

function openEngines(createStore: () => Store, { leases }: Compared): Engine[] {
  const now = () => Date.now()
  return Array.from({ length: ISOLATES }, () => {
    return new Engine({
      ...{ store: createStore(), now, log() {}, storeTimeoutMs: TIMEOUT_MS, localShare: 1 },
      leases: leases === 'auto' ? withLeases('auto') : undefined,
    })
  })
}

async function decideFate(engines: readonly Engine[], { caller, isolate }: Sent, { limits }: Compared): Promise<Fate> {
  const deadlines = new Deadlines()
  const context = { deadlines, waitUntil: (work: Promise<unknown>) => void work.catch(() => {}) }
  const charges = createCharges(limits, caller, 1).map((charge) => toCharge(charge))
  const { granted, degraded } = await (engines[isolate] as Engine).decide(charges, context)
  deadlines.end()
  if (degraded) return 'undecided'
  return granted > 0 ? 'admitted' : 'refused'
}

function countFates(fates: readonly Fate[]): Fates {
  const count = (fate: Fate) => fates.filter((other) => other === fate).length
  return { admitted: count('admitted'), undecided: count('undecided') }
}
