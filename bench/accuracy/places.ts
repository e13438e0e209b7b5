/**
 * Several places of one gateway before one store, in virtual time: the code of leases and of remembered refusals is the
 * real one, the store is the script's implementation in TypeScript, and clock and network are simulated. The same seed
 * gives the same counts.
 */

import { type LeaseSize, withLeases } from '../../src/core/engine/leases/with-leases.ts'
import { withIsolateMemory } from '../../src/core/engine/stages/isolate-memory.ts'
import type { Decision, DecisionRequest, StoreCharge } from '../../src/core/model/charge.ts'
import type { Limit } from '../../src/core/model/limits.ts'
import type { Store } from '../../src/core/model/store.ts'
import { type CallContext, Deadlines } from '../../src/core/runtime/call-context.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { idealAdmissions } from '../../test/support/history.ts'
import { type Admission, checkWindows } from '../../test/support/windows.ts'
import { seededRandom } from '../../tools/seeded-random.ts'
import { START_MS, VirtualTime } from '../scale/virtual-time.ts'

export interface Scenario {
  readonly limits: readonly Limit[]
  /** Requests over those that the limits allow in the long run. */
  readonly load: number
  readonly leases: LeaseSize | 'off'
  /** The time from a place to the store and back. */
  readonly roundTripMs: number
  readonly durationMs: number
  /** Gaps between requests are drawn at random; else they are all the same. */
  readonly isRandom?: boolean
}

/** One caller, each of its requests through a place at random. */
export interface Traffic extends Pick<Scenario, 'limits' | 'leases' | 'roundTripMs'> {
  /** Four if left out. */
  readonly places?: number
  /** When requests arrive, ascending. */
  readonly arrivals: readonly number[]
}

export interface ServiceFigures {
  readonly requests: number
  readonly admitted: number
  /** What one limiter for all, with no distance to go, would have admitted. */
  readonly ideal: number
  readonly calls: number
  /** Calls in the second that has the most of them. */
  readonly peakCalls: number
  /** Requests that arrive while more than half of every limit is left, and the calls made then. */
  readonly early: { readonly requests: number; readonly calls: number }
  /** Permits that the store has counted, used or not. */
  readonly charged: number
  /** The fullest true window of any limit, over its limit. */
  readonly fullest: number
}

export interface NamedScenario extends Scenario {
  /** Its limits. */
  readonly name: string
}

/** Work after an answer goes on by itself. */
const CONTEXT: CallContext = { deadlines: Deadlines.createForOne(), waitUntil() {} }

const [SECOND_MS, MINUTE_MS] = [1_000, 60_000]
const LIMITS = [
  { name: '10/1s', limits: [{ limit: 10, windowMs: SECOND_MS }], durationMs: 20 * SECOND_MS },
  { name: '100/1s', limits: [{ limit: 100, windowMs: SECOND_MS }], durationMs: 20 * SECOND_MS },
  { name: '1000/1m', limits: [{ limit: 1_000, windowMs: MINUTE_MS }], durationMs: 10 * MINUTE_MS },
  {
    name: '10/1s + 100/1m',
    limits: [
      { limit: 10, windowMs: SECOND_MS },
      { limit: 100, windowMs: MINUTE_MS },
    ],
    durationMs: 10 * MINUTE_MS,
  },
] as const

const LOADS = [0.5, 1, 1.5, 3] as const
export const ROUND_TRIPS_MS = [0, 20, 100, 160] as const
const LEASE_SIZES = ['auto', 4, 10] as const

/** Leases could keep from these callers what they may have. */
export const NEAR_THE_LIMIT: readonly NamedScenario[] = LIMITS.flatMap((limits) =>
  LOADS.flatMap((load) =>
    LEASE_SIZES.flatMap((leases) => ROUND_TRIPS_MS.map((roundTripMs) => ({ ...limits, load, leases, roundTripMs }))),
  ),
)

/** Leases must save calls of these callers. */
export const BUSY: readonly Omit<NamedScenario, 'roundTripMs'>[] = [
  { ...LIMITS[2], durationMs: 30 * MINUTE_MS, load: 0.5, leases: 'auto' },
  {
    ...{ name: '100000/1m', limits: [{ limit: 100_000, windowMs: MINUTE_MS }], durationMs: MINUTE_MS / 2 },
    ...({ load: 0.5, leases: 'auto' } as const),
  },
]

/** One caller of one place, far from its limit: 6 requests in each millisecond, or as many in bunches. */
export const HOT: readonly Pick<Traffic, 'limits' | 'arrivals' | 'places'>[] = [1, 11].map((everyMs) => ({
  limits: [{ limit: 1_000_000, windowMs: 10 * SECOND_MS }],
  places: 1,
  arrivals: Array.from({ length: 6 * 5 * SECOND_MS }, (_, at) => START_MS + Math.floor(at / 6 / everyMs) * everyMs),
}))

const PLACES = 4
/** More than a decision takes. */
const MAX_ROUND_TRIPS = 10

export function serve(scenario: Scenario): Promise<ServiceFigures> {
  const random = seededRandom(20261121)
  return serveTraffic({ ...scenario, arrivals: drawArrivals(scenario, random) }, random)
}

export async function serveTraffic(traffic: Traffic, random = seededRandom(20261121)): Promise<ServiceFigures> {
  const { limits, roundTripMs, leases, arrivals } = traffic
  const time = new VirtualTime()
  const store = new MemoryStore(() => time.nowMs)
  const early = { requests: 0, calls: 0 }
  const callsBySecond = new Map<number, number>()
  let [calls, charged, isEarly] = [0, 0, true]
  const decideNow = (request: DecisionRequest) => {
    const decision = store.decideNow(request)
    charged += decision.granted
    isEarly = limits.every(({ limit }, at) => (decision.usage[0]?.[at]?.remaining ?? 0) > limit / 2)
    return decision
  }
  const remote = Object.assign(new MemoryStore(() => 0), {
    async decide(request: DecisionRequest): Promise<Decision> {
      calls++
      if (isEarly) early.calls++
      const second = Math.floor(time.nowMs / SECOND_MS)
      callsBySecond.set(second, (callsBySecond.get(second) ?? 0) + 1)
      if (roundTripMs === 0) return decideNow(request)
      await time.wait(roundTripMs / 2)
      const decision = decideNow(request)
      await time.wait(roundTripMs / 2)
      return decision
    },
  })
  const now = () => Math.floor(time.nowMs)
  const places = Array.from({ length: traffic.places ?? PLACES }, () => {
    return withIsolateMemory(remote, {
      repeats: 'certain',
      leases: leases === 'off' ? undefined : withLeases(leases),
      now,
      timeoutMs: Number.POSITIVE_INFINITY,
    })
  })
  const charge: StoreCharge = {
    key: 'caller',
    algorithm: 'sliding-window',
    limits,
    cost: 1,
    mode: 'enforce',
    reserved: 0,
  }
  const admissions: Admission[] = []
  for (const ms of arrivals) {
    const place = places[Math.floor(random() * places.length)] as Store
    time.at(ms, () => {
      const sentMs = time.nowMs
      if (isEarly) early.requests++
      void place.decide({ action: 'take', permits: 1, charges: [charge] }, CONTEXT).then(({ granted, nowMs }) => {
        // Redis admits when it decides; what a lease holds is admitted at once.
        if (granted > 0) admissions.push({ ms: time.nowMs === sentMs ? sentMs : nowMs, cost: 1 })
      })
    })
  }
  await time.runUntil((arrivals.at(-1) ?? START_MS) + MAX_ROUND_TRIPS * roundTripMs)

  const fullest = limits.map((limit) => checkWindows(limit, admissions).fullest)
  return {
    requests: arrivals.length,
    admitted: admissions.length,
    ideal: idealAdmissions(arrivals.map((ms) => ({ ms, charges: [{ key: 'caller', limits, cost: 1 }] }))),
    calls,
    peakCalls: Math.max(...callsBySecond.values()),
    early,
    charged,
    fullest: Math.max(...fullest),
  }
}

function drawArrivals({ limits, load, durationMs, isRandom = false }: Scenario, random: () => number): number[] {
  const gapMs = Math.max(...limits.map(({ limit, windowMs }) => windowMs / limit)) / load
  const arrivals: number[] = []
  for (let ms = gapMs; ms < durationMs; ms += isRandom ? -Math.log(1 - random()) * gapMs : gapMs) {
    arrivals.push(START_MS + Math.floor(ms))
  }
  return arrivals
}
