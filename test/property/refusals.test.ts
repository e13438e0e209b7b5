import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { withLeases } from '../../src/core/engine/leases/with-leases.ts'
import { createEarlyRefusals } from '../../src/core/engine/refusals/early-refusals.ts'
import type { RepeatedRefusals } from '../../src/core/engine/refusals/refusal-cache.ts'
import { withIsolateMemory } from '../../src/core/engine/stages/isolate-memory.ts'
import type { Decision, DecisionRequest, LimitState, StoreCharge } from '../../src/core/model/charge.ts'
import type { Limit } from '../../src/core/model/limits.ts'
import type { Store } from '../../src/core/model/store.ts'
import { addPenalties, anyPenalties } from '../support/arbitraries.ts'
import { callContext } from '../support/call-context.ts'
import { Calls, type Drawn, step } from '../support/calls.ts'
import { createCharge, retryAfterMs, storeWith, take } from '../support/charges.ts'
import { TIMED_STORES, type TimedStore } from '../support/timed-stores.ts'

const anyCost = fc.constantFrom(0, 1, 1, 2, 5)
/** What a request costs of each of three keys; 0 if it does not count there. */
const costs = fc.tuple(anyCost, anyCost, anyCost).filter((costs) => costs.some((cost) => cost > 0))
const anyStep = fc.oneof(
  step(8, ['ask'], { costs }),
  step(3, ['wait'], { ms: fc.integer({ min: 0, max: 40 }) }),
  step(1, ['wait'], { ms: fc.integer({ min: 100, max: 500 }) }),
  step(3, ['run', 'deliver'], { index: fc.nat(5) }),
  step(5, ['settle']),
)
const anyLimits = fc.uniqueArray(
  fc.record({ limit: fc.integer({ min: 7, max: 30 }), windowMs: fc.constantFrom(300, 1_000, 3_000) }),
  { minLength: 1, maxLength: 2, selector: ({ windowMs }) => windowMs },
)

/** Units of each key that its requests must leave to others, as far as it has one limit. */
const anyReserve = fc.constantFrom(0, 0, 2)
const anyReserves = fc.tuple(anyReserve, anyReserve, anyReserve)

function chargeAll(limits: readonly (readonly Limit[])[], reserves: readonly number[]): StoreCharge[] {
  return limits.map((own, index) =>
    createCharge('sliding-window', own, { reserved: own.length === 1 ? (reserves[index] ?? 0) : 0 }),
  )
}

/** One isolate, and its calls. */
class Isolate extends Calls {
  /** Refusals told from memory while nothing was on its way. */
  reported = 0
  readonly #decider: Store

  constructor(store: TimedStore, isLeased: boolean, repeats: RepeatedRefusals) {
    super(store)
    const now = () => this.nowMs
    this.#decider = withIsolateMemory(storeWith({ decide: (request) => this.send(request) }), {
      repeats,
      leases: isLeased ? withLeases('auto') : undefined,
      now,
      timeoutMs: Number.POSITIVE_INFINITY,
    })
  }

  async ask(charges: readonly StoreCharge[]): Promise<void> {
    const request = take(charges)
    const { isQuiet } = this
    let reported: Decision | undefined
    void this.#decider.decide(request, callContext()).then((decision) => {
      reported = decision
    })
    await new Promise(setImmediate)
    if (!isQuiet || reported?.granted !== 0) return
    this.reported++
    const truth = await this.store.peek(request, this.nowMs * 1000)
    // Who waits as told is admitted, and does not wait for longer than an answer takes.
    expect(truth.granted).toBe(0)
    expect(retryAfterMs(reported)).toBeGreaterThanOrEqual(retryAfterMs(truth))
    expect(retryAfterMs(reported)).toBeLessThanOrEqual(retryAfterMs(truth) + this.longestMs)
    // What counts towards a penalty is reported to the store.
    request.charges.forEach(({ penalty }, charge) => {
      const isCounted = (limit: LimitState) => penalty && limit.retryAfterMs > 0 && limit.penaltyMs === undefined
      expect(truth.usage[charge]?.filter(isCounted)).toEqual([])
    })
    reported.usage.forEach((limits, charge) => {
      limits.forEach(({ remaining }, limit) => {
        expect(remaining).toBeLessThanOrEqual(truth.usage[charge]?.[limit]?.remaining ?? 0)
      })
    })
  }
}

interface KnowingIsolate {
  readonly cache: Store
  /** The latest decision of which it has heard, for each key. */
  readonly received: Map<string, number>
}

/** Several isolates before one store, each of which knows what it was answered, and no more. */
class Site extends Calls {
  /** Refusals told from memory while all that was admitted had been heard of. */
  reported = 0
  readonly #isolates: readonly KnowingIsolate[]
  /** What the store has admitted, by the number of its decision. */
  readonly #grants: { readonly key: string; readonly decision: number }[] = []
  #decisions = 0

  constructor(store: TimedStore, count: number) {
    super(store)
    this.#isolates = Array.from({ length: count }, () => {
      const received = new Map<string, number>()
      const decide = (request: DecisionRequest) => this.#decide(request, received)
      return {
        cache: withIsolateMemory(storeWith({ decide }), {
          repeats: createEarlyRefusals,
          now: () => this.nowMs,
          timeoutMs: Number.POSITIVE_INFINITY,
        }),
        received,
      }
    })
  }

  #decide(request: DecisionRequest, received: Map<string, number>): Promise<Decision> {
    return this.send(request, ({ granted }) => {
      const decision = ++this.#decisions
      const keys = request.charges.map(({ key }) => key)
      if (granted > 0) this.#grants.push(...keys.map((key) => ({ key, decision })))
      return () => {
        for (const key of keys) received.set(key, Math.max(received.get(key) ?? 0, decision))
      }
    })
  }

  async ask(at: number, charges: readonly StoreCharge[]): Promise<void> {
    const { cache, received } = this.#isolates[at % this.#isolates.length] as KnowingIsolate
    const { sent } = this
    const request = take(charges)
    let reported: Decision | undefined
    void cache.decide(request, callContext()).then((decision) => {
      reported = decision
    })
    await new Promise(setImmediate)
    if (!reported || this.sent > sent) return
    const truth = await this.store.peek(request, this.nowMs * 1000)
    // Whatever others do, it would be refused.
    expect([reported.granted, truth.granted]).toEqual([0, 0])
    const isUnheard = ({ key, decision }: { key: string; decision: number }) =>
      charges.some((charge) => charge.key === key) && decision > (received.get(key) ?? 0)
    if (this.#grants.some(isUnheard)) return
    this.reported++
    expect(retryAfterMs(reported)).toBeGreaterThanOrEqual(retryAfterMs(truth))
    reported.usage.forEach((limits, charge) => {
      limits.forEach(({ remaining }, limit) => {
        expect(remaining).toBeLessThanOrEqual(truth.usage[charge]?.[limit]?.remaining ?? 0)
      })
    })
  }
}

async function play(
  calls: Calls,
  charges: readonly StoreCharge[],
  steps: readonly Drawn<typeof anyStep>[],
  ask: (charges: readonly StoreCharge[], at: number) => Promise<void>,
): Promise<void> {
  for (const [at, step] of steps.entries()) {
    switch (step.kind) {
      case 'ask':
        await ask(
          charges.map((charge, index) => ({ ...charge, cost: step.costs[index] ?? 0 })).filter(({ cost }) => cost),
          at,
        )
        break
      case 'wait':
        calls.nowMs += step.ms
        break
      default:
        await calls.takeStep(step)
    }
  }
}

/** From memory, with and without leases. */
const reported = { true: 0, false: 0, site: 0 }

describe.each(TIMED_STORES)('%s', (_name, { open, expectProperty }) => {
  test.each([false, true])(
    'withRefusalCache(): what is repeated from memory is true at that moment, whatever the isolate has admitted since (leases: %s)',
    async (isLeased) => {
      await expectProperty(
        fc.asyncProperty(
          fc.tuple(anyLimits, anyLimits, anyLimits),
          anyPenalties,
          fc.array(anyStep, { minLength: 60, maxLength: 200, size: 'max' }),
          anyReserves,
          fc.constantFrom('certain' as const, createEarlyRefusals),
          async (limits, penalties, steps, reserves, repeats) => {
            const isolate = new Isolate(open(), isLeased, repeats)
            const charges = chargeAll(limits, reserves)
            await play(isolate, addPenalties(charges, penalties), steps, (requested) => isolate.ask(requested))
            reported[`${isLeased}`] += isolate.reported
          },
        ),
        60,
      )
    },
  )

  test.each([1, 2])(
    'withRefusalCache() in %i isolates: what is repeated is true, except for what was admitted since and is not known yet',
    async (isolates) => {
      await expectProperty(
        fc.asyncProperty(
          fc.tuple(anyLimits, anyLimits, anyLimits),
          anyReserves,
          fc.array(anyStep, { minLength: 60, maxLength: 200, size: 'max' }),
          async (limits, reserves, steps) => {
            const site = new Site(open(), isolates)
            const charges = chargeAll(limits, reserves)
            await play(site, charges, steps, (requested, at) => site.ask(at, requested))
            reported.site += site.reported
          },
        ),
        60,
      )
    },
  )
})

test('withRefusalCache(): the laws were tried on refusals that were repeated from memory', () => {
  expect(Math.min(reported.true, reported.false, reported.site)).toBeGreaterThan(5)
})
