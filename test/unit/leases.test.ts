import { expect, test } from 'vitest'
import { type LeaseSize, Leases } from '../../src/shortcut/leases.ts'
import { MemoryStore } from '../../src/store/memory-store.ts'
import { type DecisionRequest, type Rule, StoreError } from '../../src/store/store.ts'
import { ruleOf, take } from '../support/rules.ts'

const START_MS = 1_700_000_000_000
const RULE = () => ruleOf('sliding-window', [{ limit: 1_000, windowMs: 60_000 }])

function subject(size: LeaseSize = 'auto') {
  const clock = { now: START_MS }
  const memory = new MemoryStore(() => clock.now)
  const asked: DecisionRequest[] = []
  const server = { isAway: false }
  const background: Promise<unknown>[] = []
  const store = {
    async decide(request: DecisionRequest) {
      asked.push(request)
      if (server.isAway) throw new StoreError('no answer')
      return memory.decideNow(request)
    },
  }
  const leases = new Leases(store, () => clock.now, size)
  const decide = (...rules: Rule[]) => leases.decide(take(rules), (work) => background.push(work))
  /** So many requests, 1 ms after each other, replenishments answered between them. */
  async function hurry(rule: Rule, requests: number): Promise<void> {
    for (let i = 0; i < requests; i++) {
      await decide(rule)
      await Promise.all(background)
      clock.now++
    }
  }
  return { clock, asked, server, background, decide, hurry, memory }
}

test('Leases decide most requests of a busy caller without a call', async () => {
  const { asked, hurry } = subject()
  await hurry(RULE(), 500)
  expect(asked.length).toBeLessThan(50)
  expect(asked.every(({ mode, leaseMs }) => (mode === 'partial' ? leaseMs === 1_000 : leaseMs === undefined))).toBe(
    true,
  )
})

test('Leases ask for each request of a slow caller', async () => {
  const { asked, clock, decide } = subject()
  const rule = RULE()
  for (let i = 0; i < 20; i++) {
    await decide(rule)
    clock.now += 500
  }
  expect(asked.map(({ mode }) => mode)).toEqual(Array.from({ length: 20 }, () => 'all'))
})

test('Leases take at most a tenth of the smallest limit', async () => {
  const { asked, hurry } = subject()
  const tiers = [
    { limit: 100, windowMs: 10_000 },
    { limit: 10_000, windowMs: 60_000 },
  ]
  await hurry(ruleOf('sliding-window', tiers), 90)
  const permits = asked.map(({ permits }) => permits)
  // The first that is taken, and what brings a lease back to it.
  expect(Math.max(...permits)).toBeLessThanOrEqual(10)
  expect(permits.filter((count) => count > 1).length).toBeGreaterThan(0)
})

test('Leases of a number take that many', async () => {
  const { asked, decide } = subject(25)
  await decide(RULE())
  expect(asked).toMatchObject([{ mode: 'partial', permits: 25, leaseMs: 1_000 }])
})

test('Leases count down what is left, the unspent permits included', async () => {
  const { clock, decide } = subject(10)
  const rule = RULE()
  const left: unknown[] = []
  for (let i = 0; i < 5; i++) {
    const { usage } = await decide(rule)
    left.push([usage[0]?.[0]?.remaining, usage[0]?.[0]?.resetMs])
    clock.now += 10
  }
  expect(left).toEqual([
    [999, 60_000],
    [998, 59_990],
    [997, 59_980],
    [996, 59_970],
    [995, 59_960],
  ])
})

test('Leases replenish before the permits have run out, one call at a time', async () => {
  const { asked, background, decide } = subject(10)
  const rule = RULE()
  for (let i = 0; i < 5; i++) await decide(rule)
  expect([asked.length, background.length]).toEqual([2, 1])
  await Promise.all(background)
  for (let i = 0; i < 4; i++) await decide(rule)
  expect(asked).toHaveLength(2)
})

test('Leases let permits lapse before they end in Redis', async () => {
  const { asked, clock, decide } = subject(10)
  const rule = RULE()
  await decide(rule)
  clock.now += 899
  await decide(rule)
  expect(asked).toHaveLength(1)
  clock.now += 1
  await decide(rule)
  expect(asked).toHaveLength(2)
})

test('Leases spend what they have while the store is away, and then say that it is', async () => {
  const { server, background, decide } = subject(4)
  const rule = RULE()
  await decide(rule)
  server.isAway = true
  for (let i = 0; i < 3; i++) expect((await decide(rule)).granted).toBe(1)
  await expect(decide(rule)).rejects.toThrow(StoreError)
  // A replenishment that failed is no unhandled rejection.
  await expect(Promise.all(background)).resolves.toBeDefined()
})

test('Leases pass a refusal on, with its exact wait', async () => {
  const { asked, decide } = subject(100)
  const rule = ruleOf('sliding-window', [{ limit: 1_000, windowMs: 60_000 }], { cost: 10 })
  const granted: number[] = []
  for (let i = 0; i < 101; i++) granted.push((await decide(rule)).granted)
  expect(granted.reduce((sum, one) => sum + one, 0)).toBe(100)
  expect((await decide(rule)).usage).toMatchObject([[{ remaining: 0, retryAfterMs: 61_000 }]])
  expect(asked.every(({ permits }) => permits <= 10)).toBe(true)
})

test.each<[string, Partial<Rule>]>([
  ['a bucket', { algorithm: 'token-bucket' }],
  ['a shadow rule', { enforced: false }],
  ['a reserve', { reserved: 5 }],
  ['new identities', { isForNewcomers: true }],
  ['a small limit', { tiers: [{ limit: 19, windowMs: 60_000 }] }],
  ['a window too short', { tiers: [{ limit: 1_000, windowMs: 100 }] }],
])('Leases take nothing in advance of %s', async (_name, overrides) => {
  const { asked, decide } = subject(10)
  await decide(RULE(), { ...RULE(), ...overrides })
  expect(asked).toMatchObject([{ mode: 'all', permits: 1 }])
})
