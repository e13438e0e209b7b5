import { expect, test } from 'vitest'
import { withRefusalCache } from '../../src/engine/refusal-cache.ts'
import type { DecisionRequest, LimitState, StoreCharge } from '../../src/model/charge.ts'
import { StoreError } from '../../src/model/store.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { callContext } from '../support/call-context.ts'
import { ruleOf, storeWith, take } from '../support/rules.ts'

const START_MS = 1_700_000_000_000
const LATENCY_MS = 20

/** A store a few milliseconds away, that decides in the middle of them. */
function subject() {
  const clock = { now: START_MS }
  const memory = new MemoryStore(() => clock.now)
  const asked: DecisionRequest[] = []
  const server = { isAway: false }
  const store = {
    async decide(request: DecisionRequest) {
      asked.push(request)
      if (server.isAway) throw new StoreError('no answer')
      clock.now += LATENCY_MS / 2
      const decision = memory.decideNow(request)
      clock.now += LATENCY_MS / 2
      return decision
    },
  }
  const cache = withRefusalCache(() => clock.now)(storeWith({ ...store, async forget() {} }))
  const decide = (...rules: StoreCharge[]) => cache.decide(take(rules), callContext())
  return { cache, clock, asked, decide, memory, server }
}

const second = (overrides: Partial<StoreCharge> = {}) =>
  ruleOf('sliding-window', [{ limit: 4, windowMs: 1_000 }], { cost: 2, ...overrides })

async function exhaust(decide: (rule: StoreCharge) => Promise<unknown>, rule: StoreCharge): Promise<void> {
  for (let i = 0; i < 3; i++) await decide(rule)
}

test('withRefusalCache() answers a flood of one refused caller without a call', async () => {
  const { asked, decide } = subject()
  const rule = second()
  await exhaust(decide, rule)
  const before = asked.length
  for (let i = 0; i < 1_000; i++) expect((await decide(rule)).granted).toBe(0)
  expect(asked.length - before).toBe(0)
})

test('withRefusalCache() counts the wait down, and asks again when it has passed since the call was sent', async () => {
  const { clock, asked, decide } = subject()
  const rule = second({ cost: 1 })
  for (let i = 0; i < 4; i++) await decide(rule)
  const sentAtMs = clock.now
  const [[first]] = (await decide(rule)).usage as unknown as [[LimitState]]
  clock.now += 100
  // What the first request was told is the moment when the same request succeeds, if it waits from then on.
  expect(await decide(rule)).toMatchObject({
    granted: 0,
    usage: [[{ remaining: 0, resetMs: first.resetMs - 100 - LATENCY_MS, retryAfterMs: first.retryAfterMs - 100 }]],
  })
  const before = asked.length
  clock.now = sentAtMs + first.retryAfterMs - 1
  await decide(rule)
  expect(asked.length).toBe(before)
  clock.now = sentAtMs + first.retryAfterMs
  expect((await decide(rule)).granted).toBe(1)
})

test('withRefusalCache() asks anew after a call that may have charged', async () => {
  const { asked, decide, server } = subject()
  const rule = second()
  await exhaust(decide, rule)
  server.isAway = true
  await expect(decide({ ...rule, cost: 1 })).rejects.toThrow(StoreError)
  server.isAway = false
  const before = asked.length
  await decide(rule)
  expect(asked.length).toBe(before + 1)
})

test('withRefusalCache() knows the rule that refused, not those beside it', async () => {
  const { asked, decide } = subject()
  const [refused, other] = [second(), second()]
  await exhaust((rule) => decide(rule, other), refused)
  const before = asked.length
  expect((await decide(other)).granted).toBe(0)
  expect((await decide(second(), refused)).usage.map((tiers) => tiers.length)).toEqual([0, 1])
  // Of the other rule it knows as well, because it had refused too.
  expect(asked.length - before).toBe(0)
})

test('withRefusalCache() shows a limit that was raised, or a counter that was reset, within five seconds', async () => {
  const { clock, asked, decide } = subject()
  const rule = ruleOf('sliding-window', [{ limit: 1, windowMs: 3_600_000 }])
  await exhaust(decide, rule)
  const before = asked.length
  clock.now += 5_000 - LATENCY_MS - 1
  await decide(rule)
  expect(asked.length).toBe(before)
  clock.now += LATENCY_MS + 1
  await decide(rule)
  expect(asked.length).toBe(before + 1)
})

test.each<[string, StoreCharge]>([
  ['slots, which are given back at any moment', ruleOf('concurrency', [{ limit: 1, windowMs: 60_000 }])],
  ['a reserve, which others may use up', ruleOf('quota', [{ limit: 3, windowMs: 60_000 }], { reserved: 2 })],
  ['charges that may be corrected', ruleOf('quota', [{ limit: 1, windowMs: 60_000 }], { isSettled: true })],
])('withRefusalCache() does not remember a refusal by %s', async (_name, rule) => {
  const { asked, decide } = subject()
  for (let i = 0; i < 4; i++) await decide(rule)
  expect(asked).toHaveLength(4)
})

test('withRefusalCache() does not remember a shadow rule that would have refused', async () => {
  const { asked, decide } = subject()
  const rule = second({ enforced: false })
  for (let i = 0; i < 5; i++) expect((await decide(rule)).granted).toBe(1)
  expect(asked).toHaveLength(5)
})

test('withRefusalCache() forgets the least recently refused of more than 10,000', async () => {
  const { asked, decide } = subject()
  const rules = Array.from({ length: 10_001 }, () => ruleOf('quota', [{ limit: 1, windowMs: 86_400_000 }], { cost: 2 }))
  for (const rule of rules) await decide(rule)
  const before = asked.length
  await decide(rules[10_000] as StoreCharge)
  await decide(rules[0] as StoreCharge)
  expect(asked.length - before).toBeLessThanOrEqual(2)
  expect(asked.slice(before).map(({ rules: [rule] }) => rule?.key)).toContain(rules[0]?.key)
})

test('withRefusalCache() after forget() forgets a key under all limits that it has had, and what is on its way', async () => {
  const { cache, asked, decide, memory } = subject()
  const rule = second({ plan: 'basic' })
  await exhaust(decide, rule)
  await memory.forget([rule.key])
  await cache.forget([rule.key])
  expect((await decide(rule)).granted).toBe(1)

  const late = second({ plan: 'basic' })
  await memory.decide(take([late]))
  await memory.decide(take([late]))
  const refused = decide(late)
  await cache.forget([late.key])
  expect((await refused).granted).toBe(0)
  const before = asked.length
  await decide(late)
  expect(asked.length - before).toBe(1)
})

test('withRefusalCache() asks for each refusal that counts towards a block, and for none while it lasts', async () => {
  const { clock, asked, decide } = subject()
  const rule = second({ cost: 4, block: { blockMs: 60_000, after: 3 } })
  await decide(rule)
  for (let i = 0; i < 3; i++) await decide(rule)
  expect(asked.length).toBe(4)
  const receivedAtMs = clock.now
  for (let i = 0; i < 1_000; i++) expect((await decide(rule)).granted).toBe(0)
  expect(asked.length).toBe(4)
  clock.now += 3_000
  const [[tier]] = (await decide(rule)).usage as unknown as [[LimitState]]
  // Told when the answer came, and as long from then on as it was.
  expect(tier).toMatchObject({ retryAfterMs: 57_000, blockedMs: 57_000 })
  expect(clock.now + 57_000).toBe(receivedAtMs + 60_000)
  expect(asked.length).toBe(4)
  clock.now += 2_000
  await decide(rule)
  expect(asked.length).toBe(5)
})

test('withRefusalCache() remembers a block of a rule whose charges may be given back, or of which some is reserved', async () => {
  const { asked, decide } = subject()
  const blocked = { limit: 4, windowMs: 1_000 }
  const block = { blockMs: 60_000, after: 1 }
  for (const rule of [
    ruleOf('quota', [blocked], { isSettled: true, cost: 4, block }),
    ruleOf('quota', [blocked], { reserved: 1, cost: 3, block }),
  ]) {
    await decide(rule)
    await decide(rule)
    const before = asked.length
    for (let i = 0; i < 100; i++) expect((await decide(rule)).usage[0]?.[0]?.blockedMs).toBeDefined()
    expect(asked.length).toBe(before)
  }
})
