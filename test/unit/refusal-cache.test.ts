import { expect, test } from 'vitest'
import { withRefusalCache } from '../../src/core/engine/stages/refusal-cache.ts'
import type { DecisionRequest, LimitState, StoreCharge } from '../../src/core/model/charge.ts'
import { StoreError } from '../../src/core/model/store.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { callContext } from '../support/call-context.ts'
import { chargeOf, storeWith, take } from '../support/charges.ts'

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
  const cache = withRefusalCache(storeWith({ ...store, async delete() {} }), () => clock.now)
  const decide = (...charges: StoreCharge[]) => cache.decide(take(charges), callContext())
  return { cache, clock, asked, decide, memory, server }
}

const second = (overrides: Partial<StoreCharge> = {}) =>
  chargeOf('sliding-window', [{ limit: 4, windowMs: 1_000 }], { cost: 2, ...overrides })

async function exhaust(decide: (charge: StoreCharge) => Promise<unknown>, charge: StoreCharge): Promise<void> {
  for (let i = 0; i < 3; i++) await decide(charge)
}

test('withRefusalCache() answers a flood of one refused caller without a call', async () => {
  const { asked, decide } = subject()
  const charge = second()
  await exhaust(decide, charge)
  const before = asked.length
  for (let i = 0; i < 1_000; i++) expect((await decide(charge)).granted).toBe(0)
  expect(asked.length - before).toBe(0)
})

test('withRefusalCache() lets the store count a refusal of a charge with a penalty that it knows nothing of', async () => {
  const { asked, decide } = subject()
  const charge = second()
  await exhaust(decide, charge)
  const before = asked.length
  const counting = second({ penalty: { durationMs: 60_000, after: 3 } })
  for (let i = 0; i < 3; i++) await decide(counting, charge)
  expect(asked.length - before).toBeGreaterThan(0)
})

test('withRefusalCache() counts the wait down, and asks again when it has passed since the call was sent', async () => {
  const { clock, asked, decide } = subject()
  const charge = second({ cost: 1 })
  for (let i = 0; i < 4; i++) await decide(charge)
  const sentAtMs = clock.now
  const [[first]] = (await decide(charge)).usage as unknown as [[LimitState]]
  clock.now += 100
  // What the first request was told is the moment when the same request succeeds, if it waits from then on.
  expect(await decide(charge)).toMatchObject({
    granted: 0,
    usage: [[{ remaining: 0, resetMs: first.resetMs - 100 - LATENCY_MS, retryAfterMs: first.retryAfterMs - 100 }]],
  })
  const before = asked.length
  clock.now = sentAtMs + first.retryAfterMs - 1
  await decide(charge)
  expect(asked.length).toBe(before)
  clock.now = sentAtMs + first.retryAfterMs
  expect((await decide(charge)).granted).toBe(1)
})

test('withRefusalCache() asks anew after a call that may have charged', async () => {
  const { asked, decide, server } = subject()
  const charge = second()
  await exhaust(decide, charge)
  server.isAway = true
  await expect(decide({ ...charge, cost: 1 })).rejects.toThrow(StoreError)
  server.isAway = false
  const before = asked.length
  await decide(charge)
  expect(asked.length).toBe(before + 1)
})

test('withRefusalCache() knows the charge that refused, not those beside it', async () => {
  const { asked, decide } = subject()
  const [refused, other] = [second(), second()]
  await exhaust((charge) => decide(charge, other), refused)
  const before = asked.length
  expect((await decide(other)).granted).toBe(0)
  expect((await decide(second(), refused)).usage.map((limits) => limits.length)).toEqual([0, 1])
  // Of the other charge it knows as well, because it had refused too.
  expect(asked.length - before).toBe(0)
})

test('withRefusalCache() shows a limit that was raised, or a counter that was reset, within five seconds', async () => {
  const { clock, asked, decide } = subject()
  const charge = chargeOf('sliding-window', [{ limit: 1, windowMs: 3_600_000 }])
  await exhaust(decide, charge)
  const before = asked.length
  clock.now += 5_000 - LATENCY_MS - 1
  await decide(charge)
  expect(asked.length).toBe(before)
  clock.now += LATENCY_MS + 1
  await decide(charge)
  expect(asked.length).toBe(before + 1)
})

test.each<[string, StoreCharge]>([
  ['slots, which are given back at any moment', chargeOf('concurrency', [{ limit: 1, windowMs: 60_000 }])],
  ['a reserve, which others may use up', chargeOf('quota', [{ limit: 3, windowMs: 60_000 }], { reserved: 2 })],
  ['charges that may be corrected', chargeOf('quota', [{ limit: 1, windowMs: 60_000 }], { needsSettlement: true })],
])('withRefusalCache() does not remember a refusal by %s', async (_name, charge) => {
  const { asked, decide } = subject()
  for (let i = 0; i < 4; i++) await decide(charge)
  expect(asked).toHaveLength(4)
})

test('withRefusalCache() does not remember a shadow charge that would have refused', async () => {
  const { asked, decide } = subject()
  const charge = second({ mode: 'shadow' })
  for (let i = 0; i < 5; i++) expect((await decide(charge)).granted).toBe(1)
  expect(asked).toHaveLength(5)
})

test('withRefusalCache() forgets the least recently refused of more than 10,000', async () => {
  const { asked, decide } = subject()
  const charges = Array.from({ length: 10_001 }, () =>
    chargeOf('quota', [{ limit: 1, windowMs: 86_400_000 }], { cost: 2 }),
  )
  for (const charge of charges) await decide(charge)
  const before = asked.length
  await decide(charges[10_000] as StoreCharge)
  await decide(charges[0] as StoreCharge)
  expect(asked.length - before).toBeLessThanOrEqual(2)
  expect(asked.slice(before).map(({ charges: [charge] }) => charge?.key)).toContain(charges[0]?.key)
})

test('withRefusalCache() forgets a deleted key under all limits that it has had, and what is on its way', async () => {
  const { cache, asked, decide, memory } = subject()
  const charge = second({ plan: 'basic' })
  await exhaust(decide, charge)
  await memory.delete([charge.key])
  await cache.delete([charge.key])
  expect((await decide(charge)).granted).toBe(1)

  const late = second({ plan: 'basic' })
  await memory.decide(take([late]))
  await memory.decide(take([late]))
  const refused = decide(late)
  await cache.delete([late.key])
  expect((await refused).granted).toBe(0)
  const before = asked.length
  await decide(late)
  expect(asked.length - before).toBe(1)
})

test('withRefusalCache() asks for each refusal that counts towards a block, and for none while it lasts', async () => {
  const { clock, asked, decide } = subject()
  const charge = second({ cost: 4, penalty: { durationMs: 60_000, after: 3 } })
  await decide(charge)
  for (let i = 0; i < 3; i++) await decide(charge)
  expect(asked.length).toBe(4)
  const receivedAtMs = clock.now
  for (let i = 0; i < 1_000; i++) expect((await decide(charge)).granted).toBe(0)
  expect(asked.length).toBe(4)
  clock.now += 3_000
  const [[limit]] = (await decide(charge)).usage as unknown as [[LimitState]]
  // Told when the answer came, and as long from then on as it was.
  expect(limit).toMatchObject({ retryAfterMs: 57_000, penaltyMs: 57_000 })
  expect(clock.now + 57_000).toBe(receivedAtMs + 60_000)
  expect(asked.length).toBe(4)
  clock.now += 2_000
  await decide(charge)
  expect(asked.length).toBe(5)
})

test('withRefusalCache() remembers a block of a charge whose charges may be given back, or of which some is reserved', async () => {
  const { asked, decide } = subject()
  const blocked = { limit: 4, windowMs: 1_000 }
  const penalty = { durationMs: 60_000, after: 1 }
  for (const charge of [
    chargeOf('quota', [blocked], { needsSettlement: true, cost: 4, penalty }),
    chargeOf('quota', [blocked], { reserved: 1, cost: 3, penalty }),
  ]) {
    await decide(charge)
    await decide(charge)
    const before = asked.length
    for (let i = 0; i < 100; i++) expect((await decide(charge)).usage[0]?.[0]?.penaltyMs).toBeDefined()
    expect(asked.length).toBe(before)
  }
})
