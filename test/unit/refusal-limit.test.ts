import { expect, test } from 'vitest'
import { withRefusalLimit } from '../../src/core/engine/stages/refusal-limit.ts'
import type { DecisionRequest, StoreCharge } from '../../src/core/model/charge.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { chargeOf, take } from '../support/charges.ts'

const START_MS = 1_700_000_000_000

/** A store that takes a millisecond, and remembers what it was asked. */
class SlowStore extends MemoryStore {
  readonly asked: DecisionRequest[] = []
  readonly #clock: { now: number }

  constructor(clock: { now: number }) {
    super(() => clock.now)
    this.#clock = clock
  }

  override async decide(request: DecisionRequest) {
    this.asked.push(request)
    this.#clock.now++
    return super.decide(request)
  }
}

function subject() {
  const clock = { now: START_MS }
  const store = new SlowStore(clock)
  const { asked } = store
  const limiter = withRefusalLimit(store, () => clock.now)
  const decide = (...charges: StoreCharge[]) => limiter.decide(take(charges))
  /** @returns how many of so many requests the store was asked for */
  const flood = async (times: number, chargesOf: (index: number) => readonly StoreCharge[]) => {
    const before = asked.length
    for (let index = 0; index < times; index++) expect((await decide(...chargesOf(index))).granted).toBe(0)
    return asked.length - before
  }
  return { clock, store, limiter, decide, flood, asked }
}

const slots = (limit: number) => chargeOf('concurrency', [{ limit, windowMs: 60_000 }])
const hourly = (limit: number, overrides: Partial<StoreCharge> = {}) =>
  chargeOf('sliding-window', [{ limit, windowMs: 3_600_000 }], overrides)
const newcomers = (limit: number, overrides: Partial<StoreCharge> = {}) =>
  hourly(limit, { counts: 'new-identities', ...overrides })

test('withRefusalLimit() asks for three refusals of a key a second', async () => {
  const { clock, decide, flood } = subject()
  const charge = slots(1)
  await decide(charge)
  expect(await flood(100, () => [charge])).toBe(3)
  clock.now += 1_000
  expect(await flood(100, () => [charge])).toBe(3)
})

test('withRefusalLimit() repeats to a higher priority no refusal of a lower one, once it fits', async () => {
  const { clock, decide } = subject()
  const shared = chargeOf('sliding-window', [{ limit: 10, windowMs: 10_000 }])
  const grantedAt = async (afterMs: number, reserved: number, cost = 1) => {
    clock.now = START_MS + afterMs
    return (await decide({ ...shared, reserved, cost })).granted
  }
  expect([await grantedAt(0, 0, 5), await grantedAt(9_500, 0, 4)]).toEqual([1, 1])
  for (const afterMs of [9_600, 10_050, 10_060]) expect(await grantedAt(afterMs, 6)).toBe(0)
  expect([await grantedAt(10_070, 6), await grantedAt(10_080, 3)]).toEqual([0, 1])
})

test('withRefusalLimit() repeats no refusal of a cost beyond the moment at which units come back', async () => {
  const { clock, decide, flood } = subject()
  const charge = (cost: number) => ({ ...anyCost, cost })
  const anyCost = chargeOf('sliding-window', [{ limit: 10, windowMs: 1_000 }])
  await decide(charge(2))
  const atMs = clock.now
  clock.now += 100
  await decide(charge(8))
  expect(await flood(50, (index) => [charge(1 + (index % 9))])).toBeLessThanOrEqual(9)
  // The first two units have left their window, and a smaller cost than was refused fits again.
  clock.now = atMs + 1_000
  expect((await decide(charge(2))).granted).toBe(1)
})

test('withRefusalLimit() asks again as soon as a slot is given back here, and whatever was on its way by then', async () => {
  const { limiter, decide, flood } = subject()
  const charge = slots(1)
  const { charges } = take([charge])
  await limiter.decide({ action: 'take', permits: 1, charges })
  const onTheirWay = Array.from({ length: 5 }, () => decide(charge))
  await limiter.release(charges)
  await Promise.all(onTheirWay)
  const held = take([charge]).charges
  expect((await limiter.decide({ action: 'take', permits: 1, charges: held })).granted).toBe(1)
  expect(await flood(10, () => [charge])).toBe(3)
  await limiter.release(held)
  expect((await decide(charge)).granted).toBe(1)
})

test('withRefusalLimit() sees a slot that was given back elsewhere within a second', async () => {
  const { clock, store, decide, flood } = subject()
  const { charges } = take([slots(1)])
  const [charge] = charges as [StoreCharge]
  await decide(charge)
  await flood(10, () => [charge])
  await store.delete([charge.key])
  clock.now += 1_000
  expect((await decide(charge)).granted).toBe(1)
})

test('withRefusalLimit() lets no cheaper request wait that may fit', async () => {
  const { decide, flood } = subject()
  const charge = hourly(10)
  await decide({ ...charge, cost: 7 })
  expect(await flood(10, () => [{ ...charge, cost: 5 }])).toBe(3)
  expect((await decide({ ...charge, cost: 3 })).granted).toBe(1)
})

test('withRefusalLimit() tells of a reserve what is left by now', async () => {
  const { decide, flood } = subject()
  const charge = hourly(10)
  const reserving = { ...charge, reserved: 2 }
  for (let i = 0; i < 8; i++) await decide(reserving)
  await flood(5, () => [reserving])
  await decide(charge)
  await decide(charge)
  await flood(1, () => [charge])
  expect((await decide(reserving)).usage[0]?.[0]?.remaining).toBe(0)
})

test('withRefusalLimit() tells no shorter a time to wait than the store, whatever the cost', async () => {
  const { clock, store, decide } = subject()
  const charge = hourly(50)
  for (let i = 0; i < 50; i++) {
    await decide(charge)
    clock.now += 10
  }
  for (let i = 0; i < 200; i++) {
    const request = take([{ ...charge, cost: 1 + ((i * 37) % 50) }])
    const { usage } = await store.decide({ ...request, action: 'peek' })
    const told = await decide(...request.charges)
    // The store was asked two milliseconds before.
    expect(told.usage[0]?.[0]?.retryAfterMs).toBeGreaterThanOrEqual((usage[0]?.[0]?.retryAfterMs ?? 0) - 2)
  }
})

test('withRefusalLimit() tells no cost a wait from before units came back and were used again', async () => {
  const { clock, decide } = subject()
  const charge = chargeOf('sliding-window', [{ limit: 10, windowMs: 10_000 }])
  const told = async (cost: number) => (await decide({ ...charge, cost })).usage[0]?.[0]?.retryAfterMs ?? 0
  await told(10)
  await told(3)
  for (const afterMs of [0, 5_000, 9_990]) {
    clock.now = Math.max(clock.now, START_MS + afterMs)
    await told(10)
  }
  clock.now = START_MS + 10_050
  expect((await decide({ ...charge, cost: 10 })).granted).toBe(1)
  for (let i = 0; i < 3; i++) await told(10)
  expect(await told(3)).toBeGreaterThan(9_000)
})

test('withRefusalLimit() tells each cost that was decided its own time to wait', async () => {
  const { clock, decide } = subject()
  const charge = hourly(50)
  for (let i = 0; i < 50; i++) await decide(charge)
  const told = async (cost: number) => (await decide({ ...charge, cost })).usage[0]?.[0]?.retryAfterMs ?? 0
  const startMs = clock.now
  const decided = [await told(50), await told(1), await told(20)]
  const repeated = [await told(50), await told(1), await told(20)]
  // The store takes a millisecond; what is repeated comes at once.
  expect(clock.now - startMs).toBe(3)
  for (const [at, ms] of repeated.entries()) expect(Math.abs(ms - (decided[at] ?? 0))).toBeLessThanOrEqual(3)
  expect(new Set(decided.map((ms) => Math.round(ms / 5))).size).toBe(3)
})

test('withRefusalLimit() asks only whether an identity is known, and writes nothing, once its address brings too many', async () => {
  const { decide, flood, asked } = subject()
  const cap = newcomers(2)
  await decide(hourly(5), cap)
  await decide(hourly(5), cap)
  expect(await flood(100, () => [hourly(5), cap])).toBe(3)
  expect(asked.slice(3).map(({ action }) => action)).toEqual(['peek', 'peek'])
})

test('withRefusalLimit() never refuses an identity that was admitted here, and one that is known elsewhere after a second', async () => {
  const { clock, store, decide, flood } = subject()
  const cap = newcomers(2)
  const [here, elsewhere] = [hourly(500), hourly(500)]
  await decide(here, cap)
  await store.decide(take([elsewhere, cap]))
  for (let second = 0; second < 3; second++) {
    await flood(50, () => [hourly(5), cap])
    expect((await decide(here, cap)).granted).toBe(1)
    clock.now += 1_000
    expect((await decide(elsewhere, cap)).granted).toBe(1)
  }
})

test('withRefusalLimit() lets the store hear of each refusal that leads to a block, and of none that a block makes', async () => {
  const { flood, decide } = subject()
  const charge = hourly(1, { penalty: { durationMs: 60_000, after: 50 } })
  const slot = slots(1)
  await decide(charge, slot)
  expect(await flood(50, () => [charge, slot])).toBe(50)
  expect(await flood(50, () => [charge, slot])).toBe(0)
})

test('withRefusalLimit() asks for three refusals of each plan a second, however often a caller changes it', async () => {
  const { decide, flood } = subject()
  const charge = slots(1)
  await decide(charge)
  expect(await flood(100, (index) => [{ ...charge, plan: index % 2 === 0 ? 'free' : 'pro' }])).toBe(6)
})

test('withRefusalLimit() does not answer for another plan, in shadow, nor for a peek or a charge', async () => {
  const { decide, flood, limiter } = subject()
  const charge = hourly(1, { plan: 'free' })
  await decide(charge)
  await flood(10, () => [charge])
  expect((await decide({ ...charge, plan: 'pro', limits: [{ limit: 9, windowMs: 3_600_000 }] })).granted).toBe(1)
  expect((await decide({ ...charge, mode: 'shadow' })).granted).toBe(1)
  expect((await limiter.decide(take([charge], { action: 'record' }))).granted).toBe(1)
})

test('withRefusalLimit() holds back a flood after its clock has stepped back, though a cheaper request was granted', async () => {
  const { clock, decide, flood } = subject()
  const costly = hourly(2, { cost: 2 })
  await decide({ ...costly, cost: 1 })
  await flood(10, () => [costly])
  await decide({ ...costly, cost: 1 })
  clock.now -= 1_800_000
  expect(await flood(100, () => [costly])).toBeLessThanOrEqual(6)
})
