import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ALGORITHMS } from '../../src/core/algorithms/algorithm-table.ts'
import { withLeases } from '../../src/core/engine/leases/with-leases.ts'
import { withIsolateMemory } from '../../src/core/engine/stages/isolate-memory.ts'
import type { Decision, StoreCharge } from '../../src/core/model/charge.ts'
import { ALGORITHM_NAMES, type AlgorithmName } from '../../src/core/model/limits.ts'
import type { Store } from '../../src/core/model/store.ts'
import { START_MS } from '../support/arbitraries.ts'
import { callContext } from '../support/call-context.ts'
import { Calls, type Drawn, step } from '../support/calls.ts'
import { createCharge, EXACT_ALGORITHMS, storeWith, take } from '../support/charges.ts'
import { TIMED_STORES, type TimedStore } from '../support/timed-stores.ts'
import { type Admission, expectNoSpanOver, expectNoWindowOver } from '../support/windows.ts'

const POINTS = 4

/** Shares of the shortest window: within a lease, until it ends, and until what it was counted for has gone. */
const share = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: 0, max: 3 }) },
  { weight: 2, arbitrary: fc.integer({ min: 5, max: 12 }) },
  { weight: 2, arbitrary: fc.integer({ min: 80, max: 112 }) },
)

const point = fc.nat(POINTS - 1)
const anyStep = fc.oneof(
  step(4, ['wait'], { percent: share }),
  // A caller asks a point of presence, several times at once.
  step(5, ['ask'], { point, times: fc.integer({ min: 1, max: 30 }), cost: fc.constantFrom(1, 1, 1, 3) }),
  step(2, ['run', 'deliver'], { index: fc.nat(5) }),
  // The clock of a point of presence jumps, back by more than what has gone by since that point last read it.
  step(1, ['jump'], { point, percent: fc.oneof(fc.integer({ min: -120, max: -1 }), fc.integer({ min: 1, max: 120 })) }),
  // After a rest, a lease is taken, this long before a counted window ends; spent as late as that; and then everything
  // else is taken, at once and a window later.
  step(1, ['late'], {
    point,
    beforeEndPercent: fc.integer({ min: 1, max: 12 }),
    percent: fc.integer({ min: 5, max: 12 }),
  }),
  // All that are on their way.
  step(10, ['settle']),
  // The clock of a point of presence is set back by a part of what has gone by since that point last read it.
  step(1, ['set back'], { point, percent: fc.integer({ min: 1, max: 99 }) }),
)

const LEASABLE = ALGORITHM_NAMES.filter((name) => ALGORITHMS[name].lease !== undefined)

const anyLimit = fc.record({
  limit: fc.integer({ min: 200, max: 400 }),
  windowMs: fc.constantFrom(500, 1_000, 3_000, 10_000),
})

function anyCharge(algorithm: AlgorithmName): fc.Arbitrary<StoreCharge> {
  if (ALGORITHMS[algorithm].hasBurst) {
    const burst = fc.integer({ min: 100, max: 800 })
    return fc.tuple(anyLimit, burst).map(([limit, burst]) => createCharge(algorithm, [limit], { burst }))
  }
  // What is wrong about one window shows only where no longer one refuses first.
  const growth = fc.constantFrom(0, 2, 2)
  return fc
    .tuple(fc.uniqueArray(anyLimit, { minLength: 1, maxLength: 3, selector: ({ windowMs }) => windowMs }), growth)
    .map(([limits, growth]) => {
      const byWindow = limits.toSorted((a, b) => a.windowMs - b.windowMs)
      return createCharge(
        algorithm,
        byWindow.map(({ limit, windowMs }, place) => ({ limit: limit * (1 + growth * place), windowMs })),
      )
    })
}

/** Asserts what an algorithm promises of what was let through. */
function expectStrict({ algorithm, limits, burst }: StoreCharge, { admitted, chargedAtMs }: Network): void {
  const sorted = admitted.toSorted((a, b) => a.ms - b.ms)
  for (const { limit, windowMs } of limits) {
    if (ALGORITHMS[algorithm].isLog) expectNoWindowOver(limit, windowMs, sorted)
    else if (ALGORITHMS[algorithm].hasBurst) expectNoSpanOver(burst ?? limit, limit / windowMs, sorted)
    else {
      const starts = findStarts(algorithm, chargedAtMs, windowMs)
      for (const start of new Set(starts)) {
        const units = sorted.filter(({ ms }) => ms >= start && ms < start + windowMs).map(({ cost }) => cost)
        expect(units.reduce((sum, cost) => sum + cost, 0)).toBeLessThanOrEqual(limit)
      }
      // A permit ends with the window that it was charged to.
      const isInAWindow = ({ ms }: Admission) => starts.some((start) => ms >= start && ms < start + windowMs)
      expect(sorted.every(isInAWindow)).toBe(true)
    }
  }
}

/** When the windows began that something was charged to. */
function findStarts(algorithm: AlgorithmName, chargedAtMs: readonly number[], windowMs: number): number[] {
  const starts: number[] = []
  for (const ms of chargedAtMs) {
    if (ms < (starts.at(-1) ?? Number.NEGATIVE_INFINITY) + windowMs) continue
    starts.push(algorithm === 'quota' ? ms : ms - (ms % windowMs))
  }
  return starts
}

/** Calls from four points of presence to one store, each sent, run and answered when the test says so. */
class Network extends Calls {
  readonly admitted: Admission[] = []
  /** When the store charged anything. */
  readonly chargedAtMs: number[] = []
  /** The time of the latest lease that was asked for. */
  leaseMs = 0
  /** Permits that were spent without a call of their own. */
  spentLocally = 0
  readonly #points: Store[]
  /** How fast the clock of each point of presence runs, how far it is ahead, and what it last showed. */
  readonly #clocks = [1, 1, 0.99, 1.01].map((speed) => ({ speed, aheadMs: 0, shownMs: 0 }))

  constructor(shared: TimedStore, size: number | 'auto') {
    super(shared)
    const store = storeWith({
      decide: (request) => {
        this.leaseMs = request.leaseMs ?? this.leaseMs
        return this.send(request, (decision) => this.#note(decision))
      },
    })
    this.#points = this.#clocks.map((clock) => {
      const now = () => {
        clock.shownMs = this.#showAt(clock.speed) + clock.aheadMs
        return clock.shownMs
      }
      return withIsolateMemory(store, {
        repeats: 'none',
        leases: withLeases(size),
        now,
        readSteadyMs: () => this.#showAt(clock.speed),
        timeoutMs: Number.POSITIVE_INFINITY,
      })
    })
  }

  /** @param byMs below 0: it then shows that much less than it has last shown */
  jump(point: number, byMs: number): void {
    const clock = this.#clocks[point]
    if (!clock || clock.shownMs === 0) return
    clock.aheadMs = byMs < 0 ? clock.shownMs + byMs - this.#showAt(clock.speed) : clock.aheadMs + byMs
  }

  /** Its next reading shows no step: only this share of the time since its last one has gone by, it seems. */
  setBack(point: number, percent: number): void {
    const clock = this.#clocks[point]
    if (!clock || clock.shownMs === 0) return
    const idleMs = Math.max(0, this.#showAt(clock.speed) + clock.aheadMs - clock.shownMs)
    clock.aheadMs -= Math.floor((percent * idleMs) / 100)
  }

  #showAt(speed: number): number {
    return START_MS + Math.floor((this.nowMs - START_MS) * speed)
  }

  #note({ granted }: Decision): undefined {
    if (granted > 0) this.chargedAtMs.push(this.nowMs)
  }

  async ask(point: number, charge: StoreCharge): Promise<void> {
    let isAtOnce = true
    const background: Promise<unknown>[] = []
    const deciding = this.#points[point]?.decide(take([charge]), callContext(background)).then((decision) => {
      if (decision.granted === 0) return
      if (isAtOnce) this.spentLocally++
      // What the store admits is admitted when it runs; what is spent from a lease, now.
      this.admitted.push({ ms: isAtOnce ? this.nowMs : decision.nowMs, cost: charge.cost })
    })
    await new Promise(setImmediate)
    isAtOnce = false
    void deciding
  }

  /** Asks so many times, each time when everything before has been answered. */
  async askInTurn(point: number, charge: StoreCharge, times: number): Promise<void> {
    for (let i = 0; i < times; i++) {
      await this.ask(point, charge)
      await this.settle()
    }
  }
}

async function play(network: Network, charge: StoreCharge, steps: readonly Drawn<typeof anyStep>[]): Promise<void> {
  const shortestMs = Math.min(...charge.limits.map(({ windowMs }) => windowMs))
  const longestMs = Math.max(...charge.limits.map(({ windowMs }) => windowMs))
  // Leases are for callers that have kept far from their limits for a while.
  for (let point = 0; point < POINTS; point++) await network.ask(point, charge)
  await network.settle()
  network.nowMs += Math.floor(0.9 * longestMs)
  const askAll = (point: number, times: number, cost = 1) => network.askInTurn(point, { ...charge, cost }, times)
  for (const step of steps) {
    switch (step.kind) {
      case 'late': {
        const { point, beforeEndPercent, percent } = step
        const other = (point + 1) % POINTS
        const takeAll = async () => {
          await askAll(other, 30, 30)
          await askAll(other, 30)
        }
        network.nowMs += 4 * longestMs
        if (ALGORITHMS[charge.algorithm].lease === 'windowed') {
          await askAll(point, 1)
          const startMs = findStarts(charge.algorithm, network.chargedAtMs, shortestMs).at(-1) ?? 0
          const lateMs = startMs + Math.floor(((100 - beforeEndPercent) * shortestMs) / 100)
          network.nowMs = Math.max(network.nowMs, lateMs)
        }
        await askAll(point, 8)
        const leasedAtMs = network.nowMs
        network.nowMs += Math.floor((percent * shortestMs) / 100)
        await askAll(point, 15)
        await takeAll()
        network.nowMs = leasedAtMs + shortestMs + 1
        await takeAll()
        break
      }
      case 'wait':
        network.nowMs += Math.floor((step.percent * shortestMs) / 100)
        break
      case 'ask':
        for (let i = 0; i < step.times; i++) await network.ask(step.point, { ...charge, cost: step.cost })
        break
      case 'jump':
        network.jump(step.point, Math.floor((step.percent * shortestMs) / 100))
        // A step back that it does not see before as much time has gone by makes leases last longer.
        await network.ask(step.point, charge)
        break
      case 'set back':
        network.setBack(step.point, step.percent)
        break
      default:
        await network.takeStep(step)
    }
  }
}

/** A caller far from its limit, then leases of one point of presence, of which the others know nothing. */
async function playUpToAStep(store: TimedStore, idleMs: number, stepBack: (network: Network) => void) {
  const charge = createCharge('sliding-window', [{ limit: 400, windowMs: 10_000 }])
  const network = new Network(store, 'auto')
  const ask = (point: number, times: number) => network.askInTurn(point, charge, times)
  await ask(0, 1)
  network.nowMs += 9_000
  await ask(0, 50)
  expect(network.spentLocally).toBeGreaterThan(30)
  network.nowMs += idleMs
  stepBack(network)
  const before = network.admitted.length
  // What its leases still hold is spent now or never; then the window that follows is filled to the last.
  await ask(0, 1)
  network.nowMs += 1_400 - idleMs
  await ask(0, 30)
  expect(network.admitted.length - before).toBeGreaterThan(30)
  network.nowMs = START_MS + 9_000 + 10_000 + 1_001
  await ask(2, 450)
  return network
}

const SUBJECTS = [
  ...LEASABLE.map((name) => ({ name, size: 'auto' as const })),
  { name: 'sliding-window' as const, size: 25 },
]

const spentLocally = new Map<AlgorithmName, number>()

describe.each(TIMED_STORES)('%s', (_name, { open, expectProperty }) => {
  test.each(SUBJECTS)(
    'Leases ($size) of $name hold its limit as strictly as it does, however four points of presence interleave',
    async ({ name, size }) => {
      await expectProperty(
        fc.asyncProperty(
          anyCharge(name),
          fc.array(anyStep, { minLength: 40, maxLength: 100, size: 'max' }),
          async (charge, steps) => {
            const network = new Network(open(), size)
            await play(network, charge, steps)
            spentLocally.set(name, (spentLocally.get(name) ?? 0) + network.spentLocally)
            expectStrict(charge, network)
          },
        ),
        40,
      )
    },
  )

  test.each([1, 50, 799, 5_000])(
    'Leases: permits are not spent later than they count by a clock that steps back %i ms while their lease runs',
    async (stepBackMs) => {
      const network = await playUpToAStep(open(), 800, (network) => network.jump(0, -stepBackMs))
      expectNoWindowOver(400, 10_000, network.admitted)
    },
  )

  test.each([1, 50, 90, 95, 100])(
    'Leases: no window exceeds its limit by a clock that is set back by %i percent of the time that its isolate idles',
    async (percent) => {
      const network = await playUpToAStep(open(), 1_400, (network) => network.setBack(0, percent))
      expectNoWindowOver(400, 10_000, network.admitted)
    },
  )

  test.each(EXACT_ALGORITHMS)(
    'Leases of %s: permits spent at the end of their lease are still counted a window later',
    async (name) => {
      const charge = createCharge(name, [{ limit: 400, windowMs: 1_000 }])
      const network = new Network(open(), 10)
      const ask = (point: number, times: number) => network.askInTurn(point, charge, times)
      for (let requested = 0; requested < 20; requested++) {
        await ask(0, 1)
        network.nowMs += 10
      }
      const calls = network.chargedAtMs.length
      while (network.chargedAtMs.length === calls) await ask(0, 1)
      // Its last call has just brought permits, which are spent when another can take their place.
      network.nowMs += Math.floor(0.95 * network.leaseMs) - 1
      const before = network.spentLocally
      let local: number
      // All of them: what lapses would make up for what is counted too short.
      do {
        local = network.spentLocally
        await ask(0, 1)
      } while (network.spentLocally > local)
      expect(local).toBeGreaterThan(before)
      await ask(1, 400)
      // What was leased first has gone now, but for the time of the lease.
      network.nowMs = START_MS + 1_000
      await ask(2, 400)
      expectNoWindowOver(400, 1_000, network.admitted)
      network.nowMs += 300
      await ask(2, 400)
      expect(network.admitted.filter(({ ms }) => ms > START_MS + 1_000).length).toBeGreaterThan(0)
      expectNoWindowOver(400, 1_000, network.admitted)
    },
  )
})

test('Leases: the laws were tried on permits of every algorithm that were used without a call', () => {
  expect([...spentLocally.keys()].toSorted()).toEqual(LEASABLE.toSorted())
  expect(Math.min(...spentLocally.values())).toBeGreaterThan(0)
})
