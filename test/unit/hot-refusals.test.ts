/** What many isolates tell of one hot identity near its limit, most of it without a call. */
import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { withLeases } from '../../src/core/engine/leases/with-leases.ts'
import { withIsolateMemory } from '../../src/core/engine/stages/isolate-memory.ts'
import type { Charge, Decision } from '../../src/core/model/charge.ts'
import { reportLimits, toWholeMs, type Verdict } from '../../src/core/model/verdict.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { callContext } from '../support/call-context.ts'
import { createCharge, storeWith, take } from '../support/charges.ts'

const START_MS = 1_700_000_000_000
const ISOLATES = 150
const REQUESTS = 24_000
const LIMITS = [{ limit: 8_000, windowMs: 20_000 }]
const POLICY = { name: 'all', mode: 'enforce', limits: [{ name: 'all-20s', ...LIMITS[0] }] }

interface World {
  /** Of the charges of one request, for each kind of request. */
  readonly costs: readonly (readonly number[])[]
  readonly roundTripMs: number
}

/** 800 units a second are requested, of which half fit. @returns what was told without a call */
async function collectRefusals({ costs, roundTripMs }: World) {
  const clock = { now: START_MS }
  const memory = new MemoryStore(() => clock.now)
  const sent: { readonly dueAtMs: number; answer(): void }[] = []
  const store = storeWith({
    decide: (request) =>
      new Promise<Decision>((resolve) => {
        const decision = memory.decideNow(request)
        sent.push({ dueAtMs: clock.now + roundTripMs, answer: () => resolve(decision) })
      }),
  })
  const options = { repeats: 'certain', leases: withLeases('auto'), now: () => clock.now, timeoutMs: 5_000 } as const
  const isolates = Array.from({ length: ISOLATES }, () => withIsolateMemory(store, options))
  const keys = Math.max(...costs.map(({ length }) => length))
  const own = Array.from({ length: keys }, () => createCharge('sliding-window', LIMITS))
  const requests = costs.map((each) => take(each.map((cost, at) => ({ ...own[at], cost }) as Charge)))
  const unitsEach = costs.reduce((sum, [cost = 1]) => sum + cost, 0) / costs.length
  const findWaitMs = (charges: readonly Charge[], usage: Decision['usage']) =>
    Math.max(
      ...reportLimits(
        charges.map((charge) => ({ ...charge, policy: POLICY as never })),
        usage,
      ).map(({ retryAfterMs }) => retryAfterMs),
    )
  const refusals: { readonly waitMs: number; readonly excessMs: number }[] = []
  for (let index = 0; index < REQUESTS; index++) {
    clock.now = START_MS + Math.floor(index * unitsEach * 1.25)
    while (sent[0] && sent[0].dueAtMs <= clock.now) {
      sent.shift()?.answer()
      await turn()
    }
    const request = requests[(index * 7) % requests.length] as (typeof requests)[number]
    const charges = request.charges as readonly Charge[]
    let decided: Decision | undefined
    const before = sent.length
    const isolate = isolates[(index * 37 + Math.floor(index / ISOLATES)) % ISOLATES]
    isolate?.decide(request, callContext([])).then((decision) => {
      decided = decision
    })
    await turn()
    if (decided?.granted !== 0 || sent.length > before) continue
    const waitMs = findWaitMs(charges, decided.usage)
    const { usage } = memory.decideNow({ ...request, action: 'peek' })
    refusals.push({ waitMs, excessMs: waitMs - findWaitMs(charges, usage) })
  }
  return refusals
}

test.each<[string, World]>([
  ['one charge', { costs: [[1]], roundTripMs: 0 }],
  ['three charges', { costs: [[1, 1, 1]], roundTripMs: 0 }],
  ['three costs', { costs: [[1], [2], [5]], roundTripMs: 0 }],
  ['a store far away', { costs: [[1]], roundTripMs: 700 }],
  ['three costs, far away', { costs: [[1], [2], [5]], roundTripMs: 700 }],
])(
  '150 isolates tell of a hot identity whole milliseconds, and a second too long at most: %s',
  async (_name, world) => {
    const refusals = await collectRefusals(world)
    expect(refusals.length).toBeGreaterThan(1_000)
    expect(refusals.filter(({ waitMs }) => !Number.isInteger(waitMs))).toEqual([])
    expect(Math.max(...refusals.map(({ excessMs }) => excessMs))).toBeLessThanOrEqual(1_000)
  },
)

test('toWholeMs() rounds up, and the compiler refuses any other fraction that would be told', () => {
  expect([0, 0.1, 45.17236328125, 46].map(toWholeMs)).toEqual([0, 1, 46, 46])
  // @ts-expect-error a number may have a fraction
  const shed: Verdict = { outcome: 'shed', retryAfterMs: 45.17236328125 }
  expect(shed).toBeDefined()
})
