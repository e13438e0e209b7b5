import { expect, test } from 'vitest'
import { createEarlyRefusals } from '../../src/core/engine/refusals/early-refusals.ts'
import { type RepeatedRefusals, withRefusalCache } from '../../src/core/engine/refusals/refusal-cache.ts'
import { StatusCache } from '../../src/core/engine/refusals/status-cache.ts'
import { withIsolateMemory } from '../../src/core/engine/stages/isolate-memory.ts'
import type { Decision, DecisionRequest, LimitState, StoreCharge } from '../../src/core/model/charge.ts'
import { type Store, StoreError } from '../../src/core/model/store.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { callContext } from '../support/call-context.ts'
import { createCharge, storeWith, take } from '../support/charges.ts'

const START_MS = 1_700_000_000_000
const LATENCY_MS = 20

/** A store a few milliseconds away, that decides in the middle of them. */
function subject() {
  const clock = { now: START_MS }
  const memory = new MemoryStore(() => clock.now)
  const requested: DecisionRequest[] = []
  const server = { isUnavailable: false }
  const store = {
    async decide(request: DecisionRequest) {
      requested.push(request)
      if (server.isUnavailable) throw new StoreError('no answer')
      clock.now += LATENCY_MS / 2
      const decision = memory.decideNow(request)
      clock.now += LATENCY_MS / 2
      return decision
    },
  }
  const cache = withIsolateMemory(storeWith({ ...store, async delete() {} }), {
    repeats: 'certain',
    now: () => clock.now,
    timeoutMs: Number.POSITIVE_INFINITY,
  })
  const decide = (...charges: StoreCharge[]) => cache.decide(take(charges), callContext())
  return { cache, clock, requested, decide, memory, server }
}

const second = (overrides: Partial<StoreCharge> = {}) =>
  createCharge('sliding-window', [{ limit: 4, windowMs: 1_000 }], { cost: 2, ...overrides })

async function exhaust(decide: (charge: StoreCharge) => Promise<unknown>, charge: StoreCharge): Promise<void> {
  for (let i = 0; i < 3; i++) await decide(charge)
}

test('withRefusalCache() answers a flood of one refused caller without a call', async () => {
  const { requested, decide } = subject()
  const charge = second()
  await exhaust(decide, charge)
  const before = requested.length
  for (let i = 0; i < 1_000; i++) expect((await decide(charge)).granted).toBe(0)
  expect(requested.length - before).toBe(0)
})

test('withRefusalCache() lets the store count a refusal of a charge with a penalty that it knows nothing of', async () => {
  const { requested, decide } = subject()
  const charge = second()
  await exhaust(decide, charge)
  const before = requested.length
  const counting = second({ penalty: { durationMs: 60_000, after: 3 } })
  for (let i = 0; i < 3; i++) await decide(counting, charge)
  expect(requested.length - before).toBeGreaterThan(0)
})

test('withRefusalCache() counts the wait down, and calls the store again when it has passed since the call was sent', async () => {
  const { clock, requested, decide } = subject()
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
  const before = requested.length
  clock.now = sentAtMs + first.retryAfterMs - 1
  await decide(charge)
  expect(requested.length).toBe(before)
  clock.now = sentAtMs + first.retryAfterMs
  expect((await decide(charge)).granted).toBe(1)
})

test('withRefusalCache() calls the store again when the clock has stepped back before the refusal', async () => {
  const { clock, requested, decide } = subject()
  const charge = second()
  await exhaust(decide, charge)
  const before = requested.length
  clock.now -= LATENCY_MS
  await decide(charge)
  expect(requested.length).toBe(before + 1)
})

test('withRefusalCache() calls the store again after a call that may have charged', async () => {
  const { requested, decide, server } = subject()
  const charge = second()
  await exhaust(decide, charge)
  server.isUnavailable = true
  await expect(decide({ ...charge, cost: 1 })).rejects.toThrow(StoreError)
  server.isUnavailable = false
  const before = requested.length
  await decide(charge)
  expect(requested.length).toBe(before + 1)
})

test('withRefusalCache() knows the charge that refused, not those alongside it', async () => {
  const { requested, decide } = subject()
  const [refused, other] = [second(), second()]
  await exhaust((charge) => decide(charge, other), refused)
  const before = requested.length
  expect((await decide(other)).granted).toBe(0)
  expect((await decide(second(), refused)).usage.map((limits) => limits.length)).toEqual([0, 1])
  // Of the other charge it knows as well, because it had refused too.
  expect(requested.length - before).toBe(0)
})

test('withRefusalCache() shows a limit that was raised, or a counter that was reset, within five seconds', async () => {
  const { clock, requested, decide } = subject()
  const charge = createCharge('sliding-window', [{ limit: 1, windowMs: 3_600_000 }])
  await exhaust(decide, charge)
  const before = requested.length
  clock.now += 5_000 - LATENCY_MS - 1
  await decide(charge)
  expect(requested.length).toBe(before)
  clock.now += LATENCY_MS + 1
  await decide(charge)
  expect(requested.length).toBe(before + 1)
})

test.each<[string, StoreCharge]>([
  ['slots, which are given back at any moment', createCharge('concurrency', [{ limit: 1, windowMs: 60_000 }])],
  ['charges that may be corrected', createCharge('quota', [{ limit: 1, windowMs: 60_000 }], { needsSettlement: true })],
])('withRefusalCache() does not remember a refusal by %s', async (_name, charge) => {
  const { requested, decide } = subject()
  for (let i = 0; i < 4; i++) await decide(charge)
  expect(requested).toHaveLength(4)
})

test('withRefusalCache() does not remember a shadow charge that would have refused', async () => {
  const { requested, decide } = subject()
  const charge = second({ mode: 'shadow' })
  for (let i = 0; i < 5; i++) expect((await decide(charge)).granted).toBe(1)
  expect(requested).toHaveLength(5)
})

test('withRefusalCache() drops the least recently refused of more than 10,000', async () => {
  const { requested, decide } = subject()
  const charges = Array.from({ length: 10_001 }, () =>
    createCharge('quota', [{ limit: 1, windowMs: 86_400_000 }], { cost: 2 }),
  )
  for (const charge of charges) await decide(charge)
  const before = requested.length
  await decide(charges[10_000] as StoreCharge)
  await decide(charges[0] as StoreCharge)
  expect(requested.length - before).toBeLessThanOrEqual(2)
  expect(requested.slice(before).map(({ charges: [charge] }) => charge?.key)).toContain(charges[0]?.key)
})

test('withRefusalCache() drops a deleted key under all limits that it has had, and what is on its way', async () => {
  const { cache, requested, decide, memory } = subject()
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
  const before = requested.length
  await decide(late)
  expect(requested.length - before).toBe(1)
})

test('withRefusalCache() calls for each refusal that counts towards a penalty, and for none while it lasts', async () => {
  const { clock, requested, decide } = subject()
  const charge = second({ cost: 4, penalty: { durationMs: 60_000, after: 3 } })
  await decide(charge)
  for (let i = 0; i < 3; i++) await decide(charge)
  expect(requested.length).toBe(4)
  const receivedAtMs = clock.now
  for (let i = 0; i < 1_000; i++) expect((await decide(charge)).granted).toBe(0)
  expect(requested.length).toBe(4)
  clock.now += 3_000
  const [[limit]] = (await decide(charge)).usage as unknown as [[LimitState]]
  // Told when the answer came, and as long from then on as it was.
  expect(limit).toMatchObject({ retryAfterMs: 57_000, penaltyMs: 57_000 })
  expect(clock.now + 57_000).toBe(receivedAtMs + 60_000)
  expect(requested.length).toBe(4)
  clock.now += 2_000
  await decide(charge)
  expect(requested.length).toBe(5)
})

test('withRefusalCache() remembers a penalty of a charge whose charges may be given back, or of which some is reserved', async () => {
  const { requested, decide } = subject()
  const limit = { limit: 4, windowMs: 1_000 }
  const penalty = { durationMs: 60_000, after: 1 }
  for (const charge of [
    createCharge('quota', [limit], { needsSettlement: true, cost: 4, penalty }),
    createCharge('quota', [limit], { reserved: 1, cost: 3, penalty }),
  ]) {
    await decide(charge)
    await decide(charge)
    const before = requested.length
    for (let i = 0; i < 100; i++) expect((await decide(charge)).usage[0]?.[0]?.penaltyMs).toBeDefined()
    expect(requested.length).toBe(before)
  }
})

// Refusals that may end at any time

/** A store that takes a millisecond, and remembers what it was sent. */
class SlowStore extends MemoryStore {
  readonly sent: DecisionRequest[] = []
  readonly #clock: { now: number }

  constructor(clock: { now: number }) {
    super(() => clock.now)
    this.#clock = clock
  }

  override async decide(request: DecisionRequest) {
    this.sent.push(request)
    this.#clock.now++
    return super.decide(request)
  }
}

function limited() {
  const clock = { now: START_MS }
  const store = new SlowStore(clock)
  const { sent } = store
  const limiter = withIsolateMemory(store, {
    repeats: createEarlyRefusals,
    now: () => clock.now,
    timeoutMs: Number.POSITIVE_INFINITY,
  })
  const decide = (...charges: StoreCharge[]) => limiter.decide(take(charges))
  /** @returns how many of so many requests the store was sent for */
  const flood = async (times: number, createCharges: (index: number) => readonly StoreCharge[]) => {
    const before = sent.length
    for (let index = 0; index < times; index++) expect((await decide(...createCharges(index))).granted).toBe(0)
    return sent.length - before
  }
  return { clock, store, limiter, decide, flood, sent }
}

const slots = (limit: number) => createCharge('concurrency', [{ limit, windowMs: 60_000 }])
const hourly = (limit: number, overrides: Partial<StoreCharge> = {}) =>
  createCharge('sliding-window', [{ limit, windowMs: 3_600_000 }], overrides)
const newIdentities = (limit: number, overrides: Partial<StoreCharge> = {}) =>
  hourly(limit, { counts: 'new-identities', ...overrides })

test('withRefusalCache() calls for three refusals of a key a second', async () => {
  const { clock, decide, flood } = limited()
  const charge = slots(1)
  await decide(charge)
  expect(await flood(100, () => [charge])).toBe(3)
  clock.now += 1_000
  expect(await flood(100, () => [charge])).toBe(3)
})

test('withRefusalCache() repeats to a higher priority no refusal of a lower one, once it fits', async () => {
  const { clock, decide } = limited()
  const shared = createCharge('sliding-window', [{ limit: 10, windowMs: 10_000 }])
  const grantedAt = async (afterMs: number, reserved: number, cost = 1) => {
    clock.now = START_MS + afterMs
    return (await decide({ ...shared, reserved, cost })).granted
  }
  expect([await grantedAt(0, 0, 5), await grantedAt(9_500, 0, 4)]).toEqual([1, 1])
  for (const afterMs of [9_600, 10_050, 10_060]) expect(await grantedAt(afterMs, 6)).toBe(0)
  expect([await grantedAt(10_070, 6), await grantedAt(10_080, 3)]).toEqual([0, 1])
})

test('withRefusalCache() repeats no refusal of a cost beyond the moment at which units come back', async () => {
  const { clock, decide, flood } = limited()
  const charge = (cost: number) => ({ ...anyCost, cost })
  const anyCost = createCharge('sliding-window', [{ limit: 10, windowMs: 1_000 }])
  await decide(charge(2))
  const atMs = clock.now
  clock.now += 100
  await decide(charge(8))
  expect(await flood(50, (index) => [charge(1 + (index % 9))])).toBeLessThanOrEqual(9)
  // The first two units have left their window, and a smaller cost than was refused fits again.
  clock.now = atMs + 1_000
  expect((await decide(charge(2))).granted).toBe(1)
})

test('withRefusalCache() calls again as soon as a slot is given back here, and whatever was on its way by then', async () => {
  const { limiter, decide, flood } = limited()
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

test('withRefusalCache() sees a slot that was given back elsewhere within a second', async () => {
  const { clock, store, decide, flood } = limited()
  const { charges } = take([slots(1)])
  const [charge] = charges as [StoreCharge]
  await decide(charge)
  await flood(10, () => [charge])
  await store.delete([charge.key])
  clock.now += 1_000
  expect((await decide(charge)).granted).toBe(1)
})

test('withRefusalCache() calls once for a refusal that only time ends, and lets no cheaper request wait that may fit', async () => {
  const { decide, flood } = limited()
  const charge = hourly(10)
  await decide({ ...charge, cost: 7 })
  expect(await flood(10, () => [{ ...charge, cost: 5 }])).toBe(1)
  expect((await decide({ ...charge, cost: 3 })).granted).toBe(1)
})

test('withRefusalCache() lets no request wait that fits, however many costs were refused', async () => {
  const { decide } = limited()
  const charge = hourly(10)
  await decide({ ...charge, cost: 5 })
  for (const cost of [7, 8, 9]) expect((await decide({ ...charge, cost })).granted).toBe(0)
  expect((await decide({ ...charge, cost: 4 })).granted).toBe(1)
})

test('withRefusalCache() repeats no refusal from before slots came back that are enough', async () => {
  const { store, decide } = limited()
  const charge = slots(4)
  const withCost = (cost: number) => ({ ...charge, cost })
  // Another isolate holds all, and gives half of them back.
  const [held, kept] = [take([withCost(2)]), take([withCost(2)])]
  for (const request of [held, kept]) expect((await store.decide(request)).granted).toBe(1)
  expect((await decide(withCost(2))).granted).toBe(0)
  await store.release(held.charges)
  for (let i = 0; i < 2; i++) expect((await decide(withCost(3))).granted).toBe(0)
  expect((await decide(withCost(2))).granted).toBe(1)
})

test('withRefusalCache() reports for a charge with a reserve what remains by now', async () => {
  const { decide, flood } = limited()
  const charge = hourly(10)
  const reserving = { ...charge, reserved: 2 }
  for (let i = 0; i < 8; i++) await decide(reserving)
  await flood(5, () => [reserving])
  await decide(charge)
  await decide(charge)
  await flood(1, () => [charge])
  expect((await decide(reserving)).usage[0]?.[0]?.remaining).toBe(0)
})

test('withRefusalCache() reports no shorter a wait than the store, whatever the cost', async () => {
  const { clock, store, decide } = limited()
  const charge = hourly(50)
  for (let i = 0; i < 50; i++) {
    await decide(charge)
    clock.now += 10
  }
  for (let i = 0; i < 200; i++) {
    const request = take([{ ...charge, cost: 1 + ((i * 37) % 50) }])
    const { usage } = await store.decide({ ...request, action: 'peek' })
    const repeated = await decide(...request.charges)
    // The store was sent two milliseconds before.
    expect(repeated.usage[0]?.[0]?.retryAfterMs).toBeGreaterThanOrEqual((usage[0]?.[0]?.retryAfterMs ?? 0) - 2)
  }
})

test('withRefusalCache() reports for no cost a wait from before units came back and were used again', async () => {
  const { clock, decide } = limited()
  const charge = createCharge('sliding-window', [{ limit: 10, windowMs: 10_000 }])
  const readWaitMs = async (cost: number) => (await decide({ ...charge, cost })).usage[0]?.[0]?.retryAfterMs ?? 0
  await readWaitMs(10)
  await readWaitMs(3)
  for (const afterMs of [0, 5_000, 9_990]) {
    clock.now = Math.max(clock.now, START_MS + afterMs)
    await readWaitMs(10)
  }
  clock.now = START_MS + 10_050
  expect((await decide({ ...charge, cost: 10 })).granted).toBe(1)
  for (let i = 0; i < 3; i++) await readWaitMs(10)
  expect(await readWaitMs(3)).toBeGreaterThan(9_000)
})

test('withRefusalCache() reports for each cost that was decided its own wait', async () => {
  const { clock, decide } = limited()
  const charge = hourly(50)
  for (let i = 0; i < 50; i++) await decide(charge)
  const readWaitMs = async (cost: number) => (await decide({ ...charge, cost })).usage[0]?.[0]?.retryAfterMs ?? 0
  const startMs = clock.now
  const decided = [await readWaitMs(50), await readWaitMs(1), await readWaitMs(20)]
  const repeated = [await readWaitMs(50), await readWaitMs(1), await readWaitMs(20)]
  // The store takes a millisecond; what is repeated comes at once.
  expect(clock.now - startMs).toBe(3)
  for (const [at, ms] of repeated.entries()) expect(Math.abs(ms - (decided[at] ?? 0))).toBeLessThanOrEqual(3)
  expect(new Set(decided.map((ms) => Math.round(ms / 5))).size).toBe(3)
})

test('withRefusalCache() looks up only whether an identity is known, and writes nothing, once its address brings too many', async () => {
  const { clock, decide, flood, sent } = limited()
  const cap = newIdentities(2)
  await decide(hourly(5), cap)
  await decide(hourly(5), cap)
  expect(await flood(100, () => [hourly(5), cap])).toBe(8)
  expect(sent.slice(3).map(({ action }) => action)).toEqual(Array(7).fill('peek'))
  for (let second = 1; second < 5; second++) {
    clock.now += 1_000
    expect(await flood(100, () => [hourly(5), cap])).toBe(3)
  }
})

test('withRefusalCache() never refuses an identity that was admitted here', async () => {
  const { clock, decide, flood } = limited()
  const cap = newIdentities(1)
  const known = hourly(500)
  await decide(known, cap)
  for (let second = 0; second < 3; second++) {
    await flood(50, () => [hourly(5), cap])
    expect((await decide(known, cap)).granted).toBe(1)
    clock.now += 1_000
  }
})

test.each([
  ['a small', 40],
  ['a large', 4_000],
])(
  'four isolates behind %s flood of new identities refuse known ones only beyond their look-ups',
  async (size, count) => {
    const clock = { now: START_MS }
    const store = new SlowStore(clock)
    const options = { repeats: createEarlyRefusals, now: () => clock.now, timeoutMs: Number.POSITIVE_INFINITY }
    const isolates = Array.from({ length: 4 }, () => withIsolateMemory(store, options))
    const cap = newIdentities(5)
    const known = Array.from({ length: 30 }, () => hourly(500))
    for (const charge of known) await store.decide(take([charge]))
    const outcomes: number[] = []
    const before = store.sent.length
    for (let index = 0; index < count; index++) {
      clock.now = START_MS + index * (1_500 / count)
      await isolates[index % 4]?.decide(take([hourly(5), cap]))
      const at = Math.floor((index * known.length) / count)
      // Each comes once, to an isolate that has not seen it.
      if (at !== outcomes.length) continue
      outcomes.push((await isolates[(at + 1) % 4]?.decide(take([known[at] as StoreCharge, cap])))?.granted ?? 0)
    }
    expect(outcomes).toHaveLength(known.length)
    if (size === 'a small') expect(outcomes).not.toContain(0)
    // A look-up and a charge for each known one; for an isolate nine of the others in each of two seconds.
    const calls = store.sent.length - before - 2 * known.length
    expect(calls).toBeLessThanOrEqual(5 + 4 * 2 * 9)
  },
)

test('withRefusalCache() refuses a known identity that it has not seen once at most, and for a second, whatever flood shares its address', async () => {
  const { clock, store, decide, flood, sent } = limited()
  const cap = newIdentities(1)
  const known = hourly(500)
  await store.decide(take([known, cap]))
  await flood(50, () => [hourly(5), cap])
  const outcomes: number[] = []
  for (let i = 0; i < 30; i++) {
    const { granted, usage } = await decide(known, cap)
    outcomes.push(granted)
    if (granted === 0)
      expect(Math.max(...usage.flat().map(({ retryAfterMs }) => retryAfterMs))).toBeLessThanOrEqual(1_000)
    expect(await flood(20, () => [hourly(5), cap])).toBeLessThanOrEqual(8)
    clock.now += 100
  }
  expect(outcomes.filter((granted) => granted === 0).length).toBeLessThanOrEqual(1)
  expect(sent.length).toBeLessThan(150)
})

test('withRefusalCache() looks up nine identities a second at most, even if all of a flood come again', async () => {
  const { decide, flood } = limited()
  const cap = newIdentities(2)
  for (let i = 0; i < 2; i++) await decide(hourly(5), cap)
  const madeUp = Array.from({ length: 100 }, () => hourly(5))
  expect(await flood(1_000, (index) => [madeUp[index % 100] as StoreCharge, cap])).toBeLessThanOrEqual(9)
})

test('withRefusalCache() has the store count each refusal that leads to a penalty, and none that a penalty makes', async () => {
  const { flood, decide } = limited()
  const charge = hourly(1, { penalty: { durationMs: 60_000, after: 50 } })
  const slot = slots(1)
  await decide(charge, slot)
  expect(await flood(50, () => [charge, slot])).toBe(50)
  expect(await flood(50, () => [charge, slot])).toBe(0)
})

test('withRefusalCache() calls for three refusals of each plan a second, however often a caller changes it', async () => {
  const { decide, flood } = limited()
  const charge = slots(1)
  await decide(charge)
  expect(await flood(100, (index) => [{ ...charge, plan: index % 2 === 0 ? 'free' : 'pro' }])).toBe(6)
})

test('withRefusalCache() does not answer for another plan, in shadow, nor for a peek or a charge', async () => {
  const { decide, flood, limiter } = limited()
  const charge = hourly(1, { plan: 'free' })
  await decide(charge)
  await flood(10, () => [charge])
  expect((await decide({ ...charge, plan: 'pro', limits: [{ limit: 9, windowMs: 3_600_000 }] })).granted).toBe(1)
  expect((await decide({ ...charge, mode: 'shadow' })).granted).toBe(1)
  expect((await limiter.decide(take([charge], { action: 'record' }))).granted).toBe(1)
})

test('withRefusalCache() holds back a flood after its clock has stepped back, though a cheaper request was granted', async () => {
  const { clock, decide, flood } = limited()
  const costly = hourly(2, { cost: 2 })
  await decide({ ...costly, cost: 1 })
  await flood(10, () => [costly])
  await decide({ ...costly, cost: 1 })
  clock.now -= 1_800_000
  expect(await flood(100, () => [costly])).toBeLessThanOrEqual(6)
})

// What is known of charges, over a store that decides as it is told

const NOW_MS = 5_000
const left = (remaining: number, overrides: Partial<LimitState> = {}): LimitState => ({
  remaining,
  resetMs: 900,
  retryAfterMs: 0,
  ...overrides,
})
const many = (overrides: Partial<StoreCharge> = {}) =>
  createCharge('sliding-window', [{ limit: 9, windowMs: 60_000 }], overrides)
const PENALTY = { durationMs: 1_000, after: 2 }

function scripted(answer: Partial<Decision> | Error, repeats: RepeatedRefusals = 'certain') {
  const clock = { now: NOW_MS }
  const statuses = new StatusCache()
  const calls: unknown[] = []
  const avoided: unknown[] = []
  const note =
    (name: string) =>
    async (...args: unknown[]) =>
      void calls.push([name, ...args])
  const store = storeWith({
    async decide(request, context) {
      calls.push(['decide', request, context])
      if (answer instanceof Error) throw answer
      return { granted: 0, nowMs: 100, usage: [], ...answer }
    },
    ...Object.fromEntries(['release', 'revoke', 'settle', 'delete'].map((name) => [name, note(name)])),
  })
  const watch = { onAvoided: (...args: unknown[]) => avoided.push(args), onLeased() {} }
  const cache = withRefusalCache(store, { statuses, repeats, now: () => clock.now, watch })
  return { cache, statuses, calls, avoided, clock }
}

test.each<[string, Partial<StoreCharge>, LimitState[] | undefined, boolean]>([
  ['unknown', {}, undefined, true],
  ['unknown with a penalty', { penalty: PENALTY }, undefined, false],
  ['with as much as is wanted', { cost: 2, reserved: 3 }, [left(9), left(5)], true],
  ['with less than is wanted', { cost: 2, reserved: 3 }, [left(9), left(4)], false],
  ['in shadow mode', { mode: 'shadow' }, [left(0)], true],
  ['that may be settled', { needsSettlement: true }, [left(0)], true],
  ['that may be settled, with a penalty', { needsSettlement: true, penalty: PENALTY }, [left(0)], false],
  ['that may be settled, with a penalty and room', { needsSettlement: true, penalty: PENALTY }, [left(1)], true],
  ['that counts new identities', { counts: 'new-identities' }, [left(0)], true],
  ['that holds slots', { algorithm: 'concurrency' }, [left(0)], true],
  ['during a penalty', {}, [left(9, { penaltyMs: 5 })], false],
])('RefusalCache#hasRoom() of a charge %s', (_name, overrides, usage, hasRoom) => {
  const { cache, statuses } = scripted({})
  const charge = many(overrides)
  if (usage) statuses.update(take([charge]), { granted: 1, nowMs: 1, usage: [usage] }, 0, 0)
  expect(cache.refusals.hasRoom(charge, take([charge]))).toBe(hasRoom)
})

test('RefusalCache#hasRoom() knows of no room after a call that may have charged', () => {
  const { cache, statuses } = scripted({})
  const charge = many()
  statuses.update(take([charge]), { granted: 1, nowMs: 1, usage: [[left(5)]] }, 0, 0)
  expect(cache.refusals.hasRoom(charge, take([charge]))).toBe(true)
  statuses.invalidate(take([charge]))
  expect(cache.refusals.hasRoom(charge, take([charge]))).toBe(false)
})

test.each<[string, Error, boolean]>([
  ['that may have charged', new StoreError('no answer'), true],
  ['that has not run', new StoreError('open', { mayHaveRun: false }), false],
  ['that ended by a fault', new TypeError('a fault'), true],
])('withRefusalCache() doubts what it knows after a call %s', async (_name, error, isDoubtful) => {
  const { cache, statuses } = scripted(error)
  const charge = many()
  statuses.update(take([charge]), { granted: 1, nowMs: 1, usage: [[left(5)]] }, 0, 0)
  await expect(cache.decide(take([charge]))).rejects.toBe(error)
  expect(statuses.get(charge)?.isDoubtful).toBe(isDoubtful)
})

const REFUSED = [left(0, { retryAfterMs: 700 })]

test.each<[string, Partial<StoreCharge>, Partial<Decision>, boolean]>([
  ['a refusal', {}, { usage: [REFUSED] }, true],
  ['a provisional one', {}, { usage: [REFUSED], isProvisional: true }, false],
  ['one that counts towards a penalty', { penalty: PENALTY }, { usage: [REFUSED] }, false],
  ['a penalty', { penalty: PENALTY }, { usage: [[left(0, { retryAfterMs: 700, penaltyMs: 700 })]] }, true],
  ['one in shadow mode', { mode: 'shadow' }, { usage: [REFUSED] }, false],
  ['one by another charge', {}, { usage: [[left(0)]] }, false],
  ['one that says nothing', {}, { usage: [] }, false],
  ['a grant', {}, { granted: 1, usage: [REFUSED] }, false],
])('withRefusalCache() repeats %s, or not', async (_name, overrides, answer, isRepeated) => {
  const { cache, calls, avoided, clock } = scripted(answer)
  const charge = many(overrides)
  const context = callContext()
  const request = take([charge])
  await cache.decide(request, context)
  expect(calls).toEqual([['decide', request, context]])
  clock.now += 100
  const again = await cache.decide(request, context)
  expect(calls).toHaveLength(isRepeated ? 1 : 2)
  expect(avoided).toEqual(isRepeated ? [['refusalCache', [charge]]] : [])
  if (isRepeated) {
    expect(again).toMatchObject({
      granted: 0,
      nowMs: 200,
      usage: [[{ remaining: 0, resetMs: 800, retryAfterMs: 600 }]],
    })
  }
  expect(cache.refusals.find(request) !== undefined).toBe(isRepeated)
})

test('withRefusalCache() repeats nothing if it is not to, and nothing while another charge may refuse, too', async () => {
  const charge = many()
  const none = scripted({ usage: [REFUSED] }, 'none')
  for (let i = 0; i < 3; i++) await none.cache.decide(take([charge]))
  expect(none.calls).toHaveLength(3)
  const { cache, calls, statuses } = scripted({ usage: [REFUSED, [left(1)]] })
  const other = many()
  await cache.decide(take([charge, other]))
  await cache.decide(take([charge, other]))
  expect(calls).toHaveLength(1)
  statuses.invalidate(take([other]))
  await cache.decide(take([charge, other]))
  expect(calls).toHaveLength(2)
})

test('withRefusalCache() knows nothing any more of what is released, revoked, corrected or deleted', async () => {
  const charge = many()
  for (const change of [
    (cache: Store) => cache.release([charge]),
    (cache: Store) => cache.revoke([{ charge, isKnown: true }]),
    (cache: Store) => cache.settle([{ charge, units: -1 }], 5),
    (cache: Store) => cache.delete([charge.key]),
  ]) {
    const { cache, calls, statuses } = scripted({ usage: [REFUSED] })
    await cache.decide(take([charge]))
    await change(cache)
    expect(calls).toHaveLength(2)
    expect(statuses.get(charge)?.isDoubtful).toBe(true)
    await cache.decide(take([charge]))
    expect(calls).toHaveLength(3)
  }
})

test('withRefusalCache() charges an identity that others have admitted, once it was looked up', async () => {
  const { store, decide, flood, sent } = limited()
  const cap = newIdentities(1)
  await decide(hourly(5), cap)
  await flood(20, () => [hourly(5), cap])
  const known = hourly(5)
  await store.decide(take([known]))
  sent.length = 0
  // Its first request may be refused without a look.
  await decide(known, cap)
  await decide(known, cap)
  const { usage } = await store.decide(take([known], { action: 'peek' }))
  const charged = sent.filter(({ action }) => action === 'take').length
  expect(usage[0]?.[0]?.remaining).toBe(4 - charged)
})

test('withRefusalCache() admits an identity that one of two charges knows to be known', async () => {
  const { store, decide, flood } = limited()
  const cap = newIdentities(1)
  await decide(hourly(5), hourly(5), cap)
  for (const _ of [1, 2, 3]) await flood(1, () => [hourly(5), hourly(5), cap])
  const known = [hourly(50), hourly(50)]
  for (const charge of known) await store.decide(take([charge]))
  expect((await decide(...known, cap)).granted).toBe(1)
  expect((await decide(...known, cap)).granted).toBe(1)
  const { usage } = await store.decide(take(known, { action: 'peek' }))
  expect(usage.map(([limit]) => limit?.remaining)).toEqual([47, 47])
})

test('withRefusalCache() needs few calls for new identities that may get a penalty', async () => {
  const { decide, flood } = limited()
  const cap = newIdentities(1)
  const punished = () => hourly(5, { penalty: PENALTY })
  await decide(punished(), cap)
  expect(await flood(100, () => [punished(), cap])).toBeLessThanOrEqual(9)
})
