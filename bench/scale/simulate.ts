/**
 * Requests from all over the world through the code that decides in production: `Engine` with its refusal cache, leases and
 * circuit breaker, over the script's implementation in TypeScript or over Durable Objects. Network, clock and chance are virtual: the same seed
 * gives the same figures.
 */
import { Engine } from '../../src/core/engine/engine.ts'
import { withLeases } from '../../src/core/engine/leases/with-leases.ts'
import { withShards } from '../../src/core/engine/places/shards.ts'
import type { StoreCharge } from '../../src/core/model/charge.ts'
import type { Store } from '../../src/core/model/store.ts'
import { Deadlines } from '../../src/core/runtime/call-context.ts'
import { DurableObjectStore } from '../../src/core/store/durable-object/durable-object-store.ts'
import { openObjects } from '../../src/core/store/durable-object/objects.ts'
import { ExpiringStates } from '../../src/core/store/memory/expiring-states.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { type Admission, checkWindows } from '../../test/support/windows.ts'
import { seededRandom } from '../../tools/seeded-random.ts'
import { computeRoundTripMs, createPlaces, findMetro, type Place } from './map.ts'
import { ObjectSite } from './object-site.ts'
import { createCharges, type ScalePolicies, SHARED_KEY, toCharge } from './policies.ts'
import { createZipfPopulation } from './population.ts'
import { RedisSite } from './redis-site.ts'
import { runInVirtualTime, START_MS, VirtualTime } from './virtual-time.ts'

export interface Scenario {
  readonly policies: ScalePolicies
  readonly store: 'redis' | 'durable-object'
  readonly leases: 'off' | 'auto'
  /** Requests a second, of all the world. */
  readonly perSecond: number
  /** One of so many callers is simulated; where all share a key, one of so many places too, each with all its requests. */
  readonly oneIn: number
  /** Until windows are as full as they get, nothing is measured. */
  readonly warmUpMs: number
  readonly measuredMs: number
  readonly seed: number
  /** Isolates of each place; four if left out. */
  readonly isolatesPerPlace?: number
  /** Callers of all the world; a million if left out. */
  readonly callers?: number
  /** How long Cloudflare looks for an object before it makes one, in milliseconds; 0 if left out. */
  readonly lookMs?: number
  /** Whether the Worker runs next to Redis, wherever its callers are. */
  readonly isNearRedis?: boolean
  /** Databases that share out identities; one if left out. */
  readonly shards?: number
}

/** The cost and the outcomes of the measured requests. */
export interface ScaleFigures {
  /** Simulated; each stands for `oneIn`. */
  readonly requests: number
  readonly admitted: number
  readonly refused: number
  /** No store decided: too much was before them, or the isolate had given up for a moment. They are not admitted. */
  readonly undecided: number
  /** What one limiter for all, with no distance to go, admits of the same requests. */
  readonly ideal: number
  /** Fullest true window of any key ÷ its limit. */
  readonly fullest: number
  /** Added by a decision of the store, or by what is known of it. */
  readonly p50Ms: number
  readonly p99Ms: number
  /** Calls to the store for a request: of REST, or to objects. */
  readonly calls: number
  /** How many of them go to the object of the key that all requests share. */
  readonly sharedCalls: number
  /** Commands that Upstash bills for a request. */
  readonly commands: number
  readonly rowsWritten: number
  readonly rowsRead: number
  readonly gbSeconds: number
  /** Requests that found no object for a key. */
  readonly made: number
}

const CALLERS = 1_000_000
/** Assumed. */
export const ISOLATES_PER_PLACE = 4
/** Share of a caller's requests that come from its home: the others come from elsewhere. Assumed. */
const AT_HOME = 0.9
/** The default of STORE_TIMEOUT_MS. */
const TIMEOUT_MS = 500
const REDIS_REGION = 'Washington'
/** The simulation goes on for this after the last request. */
const REST_MS = 2_000

export async function simulate(scenario: Scenario): Promise<ScaleFigures> {
  const time = new VirtualTime()
  // What happens to one part changes nothing of what happens to another.
  const seeds = seededRandom(scenario.seed)
  const createRandom = () => seededRandom(Math.floor(seeds() * 2 ** 32))
  const chance = createRandom()
  return runInVirtualTime(time, chance, () => new Simulation(scenario, time, createRandom).run())
}

interface Site {
  storeAt(place: Place): Store
  count(): Counts
}

type Counts = Pick<ScaleFigures, (typeof COUNTED)[number]>

const COUNTED = ['calls', 'sharedCalls', 'commands', 'rowsWritten', 'rowsRead', 'gbSeconds', 'made'] as const

class Simulation {
  readonly #scenario: Scenario
  readonly #time: VirtualTime
  readonly #random: () => number
  readonly #places: readonly Place[]
  /** The isolates of each place. */
  readonly #isolates: readonly (readonly Engine[])[]
  readonly #site: Site
  readonly #ideal: MemoryStore
  /** By key, with its limits. */
  readonly #admissions = new Map<string, Pick<StoreCharge, 'limits'> & { readonly spans: Admission[] }>()
  readonly #latencies: number[] = []
  readonly #counted = { requests: 0, admitted: 0, refused: 0, undecided: 0, ideal: 0 }

  constructor(scenario: Scenario, time: VirtualTime, createRandom: () => () => number) {
    this.#scenario = scenario
    this.#time = time
    const hasShared = scenario.policies.findLimits(scenario.perSecond).ofAll !== undefined
    this.#places = createPlaces(hasShared ? scenario.oneIn : 1, createRandom())
    this.#random = createRandom()
    this.#site = createSite(scenario, time, createRandom())
    const now = () => Math.floor(time.nowMs)
    this.#ideal = new MemoryStore(now, new ExpiringStates(Number.POSITIVE_INFINITY))
    this.#isolates = this.#places.map((place) =>
      Array.from({ length: scenario.isolatesPerPlace ?? ISOLATES_PER_PLACE }, () => {
        const leases = scenario.leases === 'auto' ? withLeases('auto') : undefined
        const store = this.#site.storeAt(place)
        return new Engine({ store, now, log() {}, storeTimeoutMs: TIMEOUT_MS, leases, localShare: 1 })
      }),
    )
  }

  async run(): Promise<ScaleFigures> {
    const { callers = CALLERS, oneIn, perSecond, warmUpMs, measuredMs, policies } = this.#scenario
    const random = this.#random
    const population = createZipfPopulation(callers, oneIn)
    const placeAt = createChooser(this.#places.map(({ metro }) => metro.share))
    const homes = Uint16Array.from({ length: population.size }, () => placeAt(random()))
    const limits = policies.findLimits(perSecond)
    const gapMs = (1_000 * oneIn) / perSecond
    const [fromMs, endMs] = [START_MS + warmUpMs, START_MS + warmUpMs + measuredMs]
    const arrive = () => {
      const caller = population.callerAt(random())
      const place = random() < AT_HOME ? (homes[caller] as number) : placeAt(random())
      const isolates = this.#isolates[place] as readonly Engine[]
      const isolate = isolates[Math.floor(random() * isolates.length)] as Engine
      this.#decide(isolate, createCharges(limits, caller, oneIn), this.#time.nowMs >= fromMs)
      const nextMs = this.#time.nowMs - Math.log(1 - random()) * gapMs
      if (nextMs < endMs) this.#time.at(nextMs, arrive)
    }
    this.#time.at(START_MS, arrive)
    await this.#time.runUntil(fromMs)
    const before = this.#site.count()
    await this.#time.runUntil(endMs)
    const after = this.#site.count()
    await this.#time.runUntil(endMs + REST_MS)
    return this.#figures(before, after)
  }

  #decide(isolate: Engine, bare: StoreCharge[], isMeasured: boolean): void {
    const sentMs = this.#time.nowMs
    const request = { action: 'take', permits: 1, charges: bare } as const
    const isIdeal = this.#ideal.decideNow(request).granted > 0
    const deadlines = new Deadlines()
    const context = { deadlines, waitUntil: (work: Promise<unknown>) => void work.catch(() => {}) }
    const charges = bare.map((charge) => toCharge(charge))
    void isolate.decide(charges, context).then(({ granted, nowMs, degraded }) => {
      deadlines.end()
      const answeredAtMs = this.#time.nowMs
      if (granted > 0) this.#note(bare, sentMs, answeredAtMs, nowMs)
      if (!isMeasured) return
      const counted = this.#counted
      counted.requests++
      if (isIdeal) counted.ideal++
      if (degraded) {
        counted.undecided++
        return
      }
      counted[granted > 0 ? 'admitted' : 'refused']++
      this.#latencies.push(answeredAtMs - sentMs)
    })
  }

  /** A lease admits at once, else the decision says when; a decision by several objects or databases says by when. */
  #note(charges: readonly StoreCharge[], sentMs: number, answeredAtMs: number, decidedMs: number): void {
    const { store, shards = 1 } = this.#scenario
    const isExact = charges.length === 1 || (store === 'redis' && shards === 1)
    const span =
      answeredAtMs === sentMs
        ? { ms: sentMs, cost: 1 }
        : { ms: isExact ? decidedMs : sentMs, latestMs: decidedMs, cost: 1 }
    for (const { key, limits } of charges) {
      const known = this.#admissions.get(key)
      if (known) known.spans.push(span)
      else this.#admissions.set(key, { limits, spans: [span] })
    }
  }

  #figures(before: Counts, after: Counts): ScaleFigures {
    const { requests } = this.#counted
    const each = COUNTED.map((name) => [name, (after[name] - before[name]) / requests])
    let fullest = 0
    for (const { limits, spans } of this.#admissions.values()) {
      for (const { limit, windowMs } of limits) {
        fullest = Math.max(
          fullest,
          spans.length <= limit ? spans.length / limit : checkWindows({ limit, windowMs }, spans).fullest,
        )
      }
    }
    const latencies = Float64Array.from(this.#latencies).sort()
    const percentile = (share: number) => latencies[Math.floor(share * (latencies.length - 1))] ?? 0
    return {
      ...this.#counted,
      fullest,
      p50Ms: percentile(0.5),
      p99Ms: percentile(0.99),
      ...(Object.fromEntries(each) as Counts),
    }
  }
}

function createSite(
  { store, oneIn, lookMs = 0, isNearRedis = false, shards = 1 }: Scenario,
  time: VirtualTime,
  random: () => number,
): Site {
  if (store === 'redis') {
    const sites = Array.from({ length: shards }, (_, at) => {
      return { name: `db${at}`, site: new RedisSite({ time, random, others: oneIn - 1, timeoutMs: TIMEOUT_MS }) }
    })
    const region = findMetro(REDIS_REGION)
    const sum = (read: (site: RedisSite) => number) => sites.reduce((total, { site }) => total + read(site), 0)
    return {
      storeAt(place) {
        const roundTripMs = computeRoundTripMs(isNearRedis ? region : place, region)
        const stores = sites.map(({ name, site }) => ({ name, store: site.storeAt(roundTripMs) }))
        const [only, ...others] = stores
        const guards = { timeoutMs: TIMEOUT_MS, now: () => Math.floor(time.nowMs), log() {} }
        return only && others.length === 0 ? only.store : withShards(stores, guards)
      },
      count: () => ({ calls: sum((site) => site.calls), commands: sum((site) => site.commands), ...NO_OBJECTS }),
    }
  }
  const site = new ObjectSite({ time, random, lookMs, countOthers: (key) => (key === SHARED_KEY ? oneIn - 1 : 0) })
  return {
    storeAt: (place) =>
      new DurableObjectStore({ objects: openObjects(site.namespaceAt(place)), timeoutMs: TIMEOUT_MS }),
    count: () => {
      const { requests, ...bill } = site.readBill()
      return { calls: requests, sharedCalls: site.countCalls(SHARED_KEY), commands: 0, ...bill, made: site.made }
    },
  }
}

const NO_OBJECTS = { sharedCalls: 0, rowsWritten: 0, rowsRead: 0, gbSeconds: 0, made: 0 }

/** Chooses an index by weight. @returns a function of a number from 0 to below 1, at random */
function createChooser(weights: readonly number[]): (share: number) => number {
  const sums: number[] = []
  for (const weight of weights) sums.push((sums.at(-1) ?? 0) + weight)
  const sum = sums.at(-1) ?? 0
  return (share) =>
    Math.max(
      0,
      sums.findIndex((upTo) => share * sum < upTo),
    )
}
