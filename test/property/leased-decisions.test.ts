/** The law of leases of single charges: several tokens and one limit for all, in four isolates. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { withLeases } from '../../src/core/engine/leases/with-leases.ts'
import { withIsolateMemory } from '../../src/core/engine/stages/isolate-memory.ts'
import type { DecisionRequest, StoreCharge } from '../../src/core/model/charge.ts'
import type { Limit } from '../../src/core/model/limits.ts'
import { type Store, StoreError } from '../../src/core/model/store.ts'
import { START_MS } from '../support/arbitraries.ts'
import { callContext } from '../support/call-context.ts'
import { Calls, type Drawn, step } from '../support/calls.ts'
import { createCharge, storeWith, take } from '../support/charges.ts'
import { TIMED_STORES, type TimedStore } from '../support/timed-stores.ts'
import { type Admission, expectNoWindowOver } from '../support/windows.ts'

const POINTS = 4
const TOKENS = 3
const TIMEOUT_MS = 300
/** Leases of shorter windows are too short to be kept while others decide. */
const ALL_MS = 4_000
const TOKEN_MS = 5_000
/** So many permits of all within its window make it hot. */
const HOT = 700

const point = fc.nat(POINTS - 1)
const token = fc.nat(TOKENS - 1)
const times = fc.integer({ min: 1, max: 60 })
const anyStep = fc.oneof(
  step(3, ['wait'], { ms: fc.integer({ min: 0, max: 60 }) }),
  step(1, ['wait'], { ms: fc.integer({ min: 100, max: 1_500 }) }),
  step(1, ['wait'], { ms: fc.integer({ min: 8_000, max: 10_500 }) }),
  step(8, ['ask'], { point, token, times }),
  step(6, ['run', 'deliver'], { index: fc.nat(5) }),
  // All that are on their way come too late.
  step(1, ['lose']),
  step(8, ['settle']),
  // After a rest, a lease is taken and used late; and then everything else is taken, at once and a window later.
  step(3, ['late'], { point, token, ms: fc.integer({ min: 100, max: 2_500 }) }),
  // Other isolates use permits of all.
  step(2, ['crowd'], { permits: fc.integer({ min: 100, max: 700 }) }),
  // After a rest, a token that is used up asks while permits of all are at hand, which another token then uses.
  step(2, ['flood'], { point, token, times }),
  step(1, ['jump'], { point, ms: fc.integer({ min: -3_000, max: 3_000 }) }),
)

/** Units that all isolates together have charged and admitted of one key. */
interface Ledger {
  charged: number
  used: number
  /** Charged and not used, by leases that have ended. */
  expired: number
  readonly admitted: Admission[]
}

interface Point {
  readonly store: Store
  readonly now: () => number
}

class Network extends Calls {
  readonly ledgers = new Map<string, Ledger>()
  /** All requests so far; each fails that was admitted and not charged. */
  readonly #deciding: Promise<void>[] = []
  /** Requests that were admitted without any call. */
  local = 0
  /** Requests that were admitted by permits of all, while the store decided about their token. */
  mixed = 0
  readonly #points: readonly Point[]
  readonly #clocks = [1, 1, 0.99, 1.01].map((speed) => ({ speed, aheadMs: 0 }))

  constructor(shared: TimedStore, isSplit: boolean, repeats: 'certain' | 'none' = 'certain') {
    super(shared)
    const store = storeWith({
      isSplit: (charges) => isSplit && charges.length > 1,
      decide: async (request) => {
        const sentMs = this.nowMs
        const decision = await this.send(request, ({ granted }) => this.#note(request, granted))
        if (this.nowMs - sentMs > TIMEOUT_MS) throw new StoreError('late')
        return decision
      },
    })
    this.#points = this.#clocks.map((clock) => {
      const readSteadyMs = () => START_MS + Math.floor((this.nowMs - START_MS) * clock.speed)
      const now = () => readSteadyMs() + clock.aheadMs
      const options = { repeats, leases: withLeases('auto'), now, readSteadyMs, timeoutMs: TIMEOUT_MS }
      return { store: withIsolateMemory(store, options), now }
    })
  }

  jump(point: number, byMs: number): void {
    const clock = this.#clocks[point]
    if (clock) clock.aheadMs += byMs
  }

  getLedger({ key }: StoreCharge): Ledger {
    const known = this.ledgers.get(key)
    if (known) return known
    const ledger: Ledger = { charged: 0, used: 0, expired: 0, admitted: [] }
    this.ledgers.set(key, ledger)
    return ledger
  }

  #note({ charges }: DecisionRequest, granted: number): undefined {
    for (const charge of charges) this.getLedger(charge).charged += granted * charge.cost
  }

  #admit(charge: StoreCharge, admission: Admission): void {
    const ledger = this.getLedger(charge)
    ledger.admitted.push(admission)
    ledger.used += admission.cost
    expect(ledger.used + ledger.expired).toBeLessThanOrEqual(ledger.charged)
  }

  /** Waits until all leases have ended. */
  async rest(): Promise<void> {
    await this.settle()
    this.nowMs += 4 * TOKEN_MS
    for (const ledger of this.ledgers.values()) ledger.expired = ledger.charged - ledger.used
  }

  /** Other isolates use as many permits as fit, at once. */
  async consume(charge: StoreCharge, permits: number): Promise<void> {
    const request = take([charge], { action: 'take-up-to', permits })
    const { granted } = await this.store.decide(request, this.nowMs * 1_000)
    this.#note(request, granted)
    if (granted > 0) this.#admit(charge, { ms: this.nowMs, cost: granted * charge.cost })
  }

  async ask(point: number, charges: readonly StoreCharge[]): Promise<void> {
    const { store, now } = this.#points[point] as Point
    const [sentMs, sentAtMs] = [this.nowMs, now()]
    const chargedBefore = charges.map((charge) => this.getLedger(charge).charged)
    const background: Promise<unknown>[] = []
    let isAtOnce = true
    const deciding = store.decide(take(charges), callContext(background)).then(
      ({ granted }) => {
        // The engine admits nothing that took longer, by its clock.
        if (granted === 0 || now() - sentAtMs > TIMEOUT_MS) return
        if (isAtOnce) this.local++
        else if (charges.some((charge, at) => this.getLedger(charge).charged === chargedBefore[at])) this.mixed++
        for (const charge of charges) {
          this.#admit(charge, { ms: sentMs, latestMs: this.nowMs, cost: charge.cost })
        }
      },
      (error) => {
        if (!(error instanceof StoreError)) throw error
      },
    )
    this.#deciding.push(deciding)
    await new Promise(setImmediate)
    isAtOnce = false
    for (const work of background) work.catch(() => {})
  }

  /** Answers all calls, also those that answers lead to. */
  async end(): Promise<void> {
    let isOver = false
    const ended = Promise.all(this.#deciding).finally(() => {
      isOver = true
    })
    while (!isOver) {
      await this.settle()
      await new Promise(setImmediate)
    }
    await ended
  }
}

function createCharges(all: number, perToken: number) {
  return {
    all: createCharge('sliding-window', [{ limit: all, windowMs: ALL_MS }]),
    tokens: Array.from({ length: TOKENS }, () =>
      createCharge('sliding-window', [{ limit: perToken, windowMs: TOKEN_MS }]),
    ),
  }
}

async function play(
  network: Network,
  charges: ReturnType<typeof createCharges>,
  steps: readonly Drawn<typeof anyStep>[],
) {
  const { all, tokens } = charges
  const [{ limit }] = all.limits as [Limit]
  const pair = (token: number) => [tokens[token % TOKENS] as StoreCharge, all]
  const askAll = async (point: number, token: number, times: number, gapMs = 0) => {
    for (let n = 0; n < times; n++) {
      await network.ask(point, pair(token))
      await network.settle()
      network.nowMs += gapMs
    }
  }
  const askUntilRefused = async (point: number, token: number) => {
    let used: number
    do {
      used = network.getLedger(all).used
      await askAll(point, token, 1)
    } while (network.getLedger(all).used > used)
  }
  /** Uses the permits at hand, and takes no more than one other call brings: what expires would make up for what is over. */
  const useUp = async (point: number, token: number) => {
    const ledger = network.getLedger(all)
    let before: Ledger
    do {
      before = { ...ledger }
      await askAll(point, token, 1)
    } while (ledger.used > before.used && ledger.charged === before.charged)
  }
  const consumeAll = async () => {
    for (const charge of [all, ...tokens]) await network.consume(charge, limit)
  }
  // It is hot from the beginning.
  await network.consume(all, Math.min(HOT, limit / 2))
  for (let n = 0; n < 40; n++) await askAll(n % POINTS, n, 1, 1)
  for (const step of steps) {
    switch (step.kind) {
      case 'wait':
        network.nowMs += step.ms
        break
      case 'ask':
        for (let n = 0; n < step.times; n++) await network.ask(step.point, pair(step.token))
        break
      case 'lose':
        network.nowMs += TIMEOUT_MS + 1
        break
      case 'jump':
        network.jump(step.point, step.ms)
        break
      case 'crowd':
        await network.consume(all, step.permits)
        break
      case 'flood':
        await network.rest()
        await network.consume(all, Math.min(HOT, limit / 2))
        await network.consume(tokens[step.token] as StoreCharge, limit)
        await askAll(step.point, step.token + 1, 15, 10)
        await askAll(step.point, step.token, step.times, 1)
        await askUntilRefused(step.point, step.token + 1)
        break
      case 'late': {
        const { point, token, ms } = step
        await network.rest()
        await network.consume(all, Math.min(HOT, limit / 2))
        await askAll(point, token, 30, 10)
        const leasedAtMs = network.nowMs
        network.nowMs += ms
        await useUp(point, token)
        await consumeAll()
        for (const windowMs of [ALL_MS, TOKEN_MS]) {
          network.nowMs = Math.max(network.nowMs, leasedAtMs + windowMs + 1 + Math.floor(ms / 2))
          await consumeAll()
        }
        break
      }
      default:
        await network.takeStep(step)
    }
  }
  await network.end()
}

const seen = { local: 0, mixed: 0 }

describe.each(TIMED_STORES)('%s', (name, { open, expectProperty }) => {
  const isSplit = name === 'Durable Objects'

  test.each([2_000, 400])(
    'LeasedDecision: no window of any key is over, and nothing is admitted that was not charged (%i for all)',
    async (limit) => {
      await expectProperty(
        fc.asyncProperty(
          fc.array(anyStep, { minLength: 40, maxLength: 80, size: 'max' }),
          fc.constantFrom(20, 100, 400),
          async (steps, perToken) => {
            const charges = createCharges(limit, perToken)
            const network = new Network(open(), isSplit)
            await play(network, charges, steps)
            for (const charge of [...charges.tokens, charges.all]) {
              const { admitted } = network.getLedger(charge)
              for (const { limit, windowMs } of charge.limits) expectNoWindowOver(limit, windowMs, admitted)
            }
            seen.local += network.local
            seen.mixed += network.mixed
          },
        ),
        30,
      )
    },
  )

  test('LeasedDecision: permits of refused requests are used by others, once', async () => {
    const charges = createCharges(3_000, 2_000)
    const used = createCharge('sliding-window', [{ limit: 5, windowMs: 60_000 }])
    const network = new Network(open(), isSplit, 'none')
    const { all, tokens } = charges
    for (let n = 0; n < 600; n++) {
      await network.ask(0, [n < 100 || n % 3 === 0 ? (tokens[0] as StoreCharge) : used, all])
      await network.settle()
      network.nowMs += 5
    }
    await network.end()
    const { charged, admitted } = network.getLedger(all)
    expect(network.getLedger(used).charged).toBe(5)
    expect(network.local + network.mixed).toBeGreaterThan(100)
    // The others are at hand, or have expired.
    expect(charged - admitted.length).toBeLessThan(150)
  })
})

test('LeasedDecision: the law was tried on permits that were used without a call, and beside one', () => {
  expect(seen.local).toBeGreaterThan(0)
  expect(seen.mixed).toBeGreaterThan(0)
})
