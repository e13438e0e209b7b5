import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { DenyCache } from '../../src/decide/deny-cache.ts'
import { Leases } from '../../src/decide/leases.ts'
import type { Decision, DecisionRequest, Rule, TierUsage } from '../../src/limit/rule.ts'
import { anyBlocks, blocking, START_MS } from '../support/arbitraries.ts'
import { callContext } from '../support/call-context.ts'
import { ruleOf, take } from '../support/rules.ts'
import { TIMED_STORES, type TimedStore } from '../support/timed-stores.ts'

/** Of each of three keys, the cost of a request, or 0 if it is none of its keys. */
type Costs = readonly [number, number, number]

type Step =
  | { readonly kind: 'ask'; readonly costs: Costs }
  | { readonly kind: 'wait'; readonly ms: number }
  /** The store runs a call, or its answer arrives: not always in the order in which they were sent. */
  | { readonly kind: 'run' | 'deliver'; readonly index: number }
  | { readonly kind: 'settle' }

const anyCost = fc.constantFrom(0, 1, 1, 2, 5)
const anyCosts: fc.Arbitrary<Costs> = fc
  .tuple(anyCost, anyCost, anyCost)
  .filter((costs) => costs.some((cost) => cost > 0))
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ kind: fc.constant('ask' as const), costs: anyCosts }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.integer({ min: 0, max: 40 }) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.integer({ min: 100, max: 500 }) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constantFrom('run' as const, 'deliver' as const), index: fc.nat(5) }) },
  { weight: 5, arbitrary: fc.constant({ kind: 'settle' as const }) },
)
const anyTiers = fc.uniqueArray(
  fc.record({ limit: fc.integer({ min: 5, max: 30 }), windowMs: fc.constantFrom(300, 1_000, 3_000) }),
  { minLength: 1, maxLength: 2, selector: ({ windowMs }) => windowMs },
)

/** One isolate, whose calls run and are answered when the test says so. */
class Isolate {
  nowMs = START_MS
  /** Refusals told from memory while nothing was on its way. */
  told = 0
  readonly #store: TimedStore
  readonly #sent: (() => Promise<void>)[] = []
  readonly #answered: (() => void)[] = []
  readonly #decider: DenyCache | Leases
  /** For how long an answer may have been on its way, by which a told time may be late. */
  #longestMs = 0

  constructor(store: TimedStore, isLeased: boolean) {
    this.#store = store
    const cache = new DenyCache({ decide: (request) => this.#send(request) }, () => this.nowMs)
    this.#decider = isLeased ? new Leases(cache, () => this.nowMs, 'auto') : cache
  }

  #send(request: DecisionRequest): Promise<Decision> {
    const { promise, resolve } = Promise.withResolvers<Decision>()
    const sentMs = this.nowMs
    this.#sent.push(async () => {
      const decision = await this.#store.decide(request, this.nowMs * 1000)
      this.#answered.push(() => {
        this.#longestMs = Math.max(this.#longestMs, this.nowMs - sentMs)
        resolve(decision)
      })
    })
    return promise
  }

  async ask(rules: readonly Rule[]): Promise<void> {
    const request = take(rules)
    const isQuiet = this.#sent.length === 0 && this.#answered.length === 0
    let told: Decision | undefined
    void this.#decider.decide(request, callContext()).then((decision) => {
      told = decision
    })
    await new Promise(setImmediate)
    if (!isQuiet || told?.granted !== 0) return
    this.told++
    const truth = await this.#store.peek(request, this.nowMs * 1000)
    const wait = ({ usage }: Decision) => Math.max(...usage.flat().map(({ retryAfterMs }) => retryAfterMs))
    // Who waits as told is admitted, and does not wait for longer than an answer takes.
    expect(truth.granted).toBe(0)
    expect(wait(told)).toBeGreaterThanOrEqual(wait(truth))
    expect(wait(told)).toBeLessThanOrEqual(wait(truth) + this.#longestMs)
    // What would count towards a block, the store is told.
    request.rules.forEach(({ block }, rule) => {
      const isCounted = (tier: TierUsage) => block && tier.retryAfterMs > 0 && tier.blockedMs === undefined
      expect(truth.usage[rule]?.filter(isCounted)).toEqual([])
    })
    told.usage.forEach((tiers, rule) => {
      tiers.forEach(({ remaining }, tier) => {
        expect(remaining).toBeLessThanOrEqual(truth.usage[rule]?.[tier]?.remaining ?? 0)
      })
    })
  }

  async run(index: number): Promise<void> {
    const [call] = this.#sent.splice(index % Math.max(1, this.#sent.length), 1)
    await call?.()
  }

  async deliver(index: number): Promise<void> {
    const [answer] = this.#answered.splice(index % Math.max(1, this.#answered.length), 1)
    answer?.()
    await new Promise(setImmediate)
  }

  async settle(): Promise<void> {
    while (this.#sent.length > 0) await this.run(0)
    while (this.#answered.length > 0) await this.deliver(0)
  }
}

async function play(isolate: Isolate, rules: readonly Rule[], steps: readonly Step[]): Promise<void> {
  for (const step of steps) {
    switch (step.kind) {
      case 'ask':
        await isolate.ask(
          rules.map((rule, index) => ({ ...rule, cost: step.costs[index] ?? 0 })).filter(({ cost }) => cost),
        )
        break
      case 'wait':
        isolate.nowMs += step.ms
        break
      case 'run':
        await isolate.run(step.index)
        break
      case 'deliver':
        await isolate.deliver(step.index)
        break
      case 'settle':
        await isolate.settle()
    }
  }
}

/** From memory, with and without leases. */
const told = { true: 0, false: 0 }

describe.each(TIMED_STORES)('%s', (_name, { open, expectProperty }) => {
  test.each([false, true])(
    'DenyCache: what is told from memory is true when it is told, whatever the isolate has admitted since (leases: %s)',
    async (isLeased) => {
      await expectProperty(
        fc.asyncProperty(
          fc.tuple(anyTiers, anyTiers, anyTiers),
          anyBlocks,
          fc.array(anyStep, { minLength: 60, maxLength: 200, size: 'max' }),
          async (tiers, blocks, steps) => {
            const isolate = new Isolate(open(), isLeased)
            const rules = tiers.map((own) => ruleOf('sliding-window', own))
            await play(isolate, blocking(rules, blocks), steps)
            told[`${isLeased}`] += isolate.told
          },
        ),
        60,
      )
    },
  )
})

test('this law was about more than nothing', () => {
  expect(Math.min(told.true, told.false)).toBeGreaterThan(20)
})
