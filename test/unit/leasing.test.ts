/** What leases send to the store, tell of a charge and report; test/property/leases has the laws of what they admit. */
import { expect, test } from 'vitest'
import { withLeases } from '../../src/core/engine/leases/with-leases.ts'
import { withIsolateMemory } from '../../src/core/engine/stages/isolate-memory.ts'
import type { Decision, DecisionRequest, StoreCharge } from '../../src/core/model/charge.ts'
import { StoreError } from '../../src/core/model/store.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { callContext } from '../support/call-context.ts'
import { createCharge, storeWith, take } from '../support/charges.ts'

const WINDOW_MS = 60_000
const createMany = (limit = 10_000) => createCharge('sliding-window', [{ limit, windowMs: WINDOW_MS }])

/** A store that may keep silent, or be split, below leases. */
function subject({ isSplit = false } = {}) {
  const clock = { now: 1_700_000_000_000 }
  const memory = new MemoryStore(() => clock.now)
  const requested: DecisionRequest[] = []
  const deleted: (readonly string[])[] = []
  const settled: unknown[] = []
  const server = { isSilent: false, error: undefined as unknown }
  const background: Promise<unknown>[] = []
  const avoided: [by: string, keys: string[]][] = []
  const leased: number[] = []
  const store = storeWith({
    isSplit: (charges) => isSplit && charges.length > 1,
    async decide(request) {
      requested.push(request)
      if (server.isSilent) return new Promise<never>(() => {})
      if (server.error) throw server.error
      return memory.decideNow(request)
    },
    async delete(keys) {
      deleted.push(keys)
      await memory.delete(keys)
    },
    settle: async (...args) => void settled.push(args),
  })
  const leases = withIsolateMemory(store, {
    repeats: 'certain',
    leases: withLeases('auto'),
    now: () => clock.now,
    timeoutMs: 500,
    watch: {
      onAvoided: (by, charges) => avoided.push([by, charges.map(({ key }) => key)]),
      onLeased: (permits) => leased.push(permits),
    },
  })
  const decide = async (...charges: StoreCharge[]): Promise<Decision> =>
    leases.decide(take(charges), callContext(background))
  async function hurry(charges: readonly StoreCharge[], requests: number) {
    for (let i = 0; i < requests; i++) {
      await decide(...charges)
      if (!server.isSilent) await Promise.all(background)
      clock.now++
    }
  }
  return { clock, memory, requested, deleted, settled, server, background, avoided, leased, leases, decide, hurry }
}

test('Leases end when a key is deleted', async () => {
  const { requested, deleted, leases, decide, hurry } = subject()
  const charge = createMany()
  await hurry([charge], 200)
  requested.length = 0
  await decide(charge)
  expect(requested).toEqual([])
  await leases.delete([charge.key])
  expect(deleted).toEqual([[charge.key]])
  expect((await decide(charge)).usage[0]?.[0]?.remaining).toBe(9_999)
  expect(requested).toHaveLength(1)
})

test.each<[string, Partial<DecisionRequest>]>([
  ['two permits', { permits: 2 }],
  ['as many permits as there are', { action: 'take-up-to' }],
  ['a record', { action: 'record' }],
  ['a peek', { action: 'peek' }],
])('Leases decide nothing but one permit: %s', async (_name, overrides) => {
  const { requested, leases, hurry } = subject()
  const charge = createMany()
  await hurry([charge], 200)
  requested.length = 0
  const request = take([charge], overrides)
  expect((await leases.decide(request, callContext())).granted).toBe(request.permits)
  expect(requested).toEqual([request])
})

test('Leases decide nothing without a context, in which calls go on', async () => {
  const { requested, leases, hurry } = subject()
  const charge = createMany()
  await hurry([charge], 200)
  requested.length = 0
  const request = take([charge])
  expect((await leases.decide(request)).granted).toBe(1)
  expect(requested).toEqual([request])
})

test('Leases take more while there are permits left, which decide meanwhile', async () => {
  const { requested, server, decide, hurry, background } = subject()
  const charge = createMany()
  await hurry([charge], 200)
  requested.length = 0
  server.isSilent = true
  let begun = background.length
  for (let i = 0; i < 100 && requested.length === 0; i++) {
    begun = background.length
    await decide(charge)
  }
  expect(requested).toMatchObject([{ action: 'take-up-to', charges: [charge] }])
  expect(background.length).toBe(begun + 1)
  // One call is under way.
  await decide(charge)
  expect(requested).toHaveLength(1)
})

test('LeasedDecision: one call takes more of all charges that are short while others decide', async () => {
  for (const isSplit of [false, true]) {
    const { requested, server, decide, hurry } = subject({ isSplit })
    const charges = [createMany(), createMany()]
    await hurry(charges, 300)
    requested.length = 0
    server.isSilent = true
    for (let i = 0; i < 100 && requested.length === 0; i++)
      expect(await decide(...charges)).toMatchObject({ granted: 1 })
    expect(requested.map((one) => [one.action, one.charges.map(({ key }) => key)])).toEqual(
      (isSplit ? charges.map((charge) => [charge]) : [charges]).map((group) => [
        'take-up-to',
        group.map(({ key }) => key),
      ]),
    )
  }
})

test('Leases are no part of what is decided', async () => {
  const { decide, clock, background } = subject()
  const charge = createMany()
  for (let i = 0; i < 300; i++) {
    expect(Object.keys(await decide(charge)).toSorted()).toEqual(['granted', 'nowMs', 'usage'])
    await Promise.all(background)
    clock.now++
  }
})

test('Leases tell of each limit how it stands, whatever has decided', async () => {
  for (const count of [1, 2, 3]) {
    const { clock, decide, hurry, requested } = subject()
    const charges = Array.from({ length: count }, (_, at) => createMany(10_000 * (at + 1)))
    await hurry(charges, 300)
    requested.length = 0
    for (let spent = 301; spent <= 400; spent++) {
      const { granted, usage } = await decide(...charges)
      expect(granted).toBe(1)
      expect(usage).toHaveLength(count)
      for (const [at, limits] of usage.entries()) {
        const [limit] = limits
        expect(limits).toHaveLength(1)
        expect(limit?.remaining).toBeLessThanOrEqual(10_000 * (at + 1) - spent)
        expect(limit?.remaining).toBeGreaterThan(10_000 * (at + 1) - 1_000)
        expect(limit?.retryAfterMs).toBe(0)
        expect(limit?.resetMs).toBeGreaterThan(0)
        expect(limit?.resetMs).toBeLessThanOrEqual(WINDOW_MS)
      }
      clock.now++
    }
    expect(requested.length).toBeLessThan(50)
  }
})

test('Leases tell a reset that comes closer while no call is made', async () => {
  const { clock, decide, hurry, requested } = subject()
  const charge = createMany()
  await hurry([charge], 300)
  let [before] = (await decide(charge)).usage[0] ?? []
  let compared = 0
  for (let i = 0; i < 30; i++) {
    requested.length = 0
    clock.now++
    const [limit] = (await decide(charge)).usage[0] ?? []
    if (requested.length === 0 && before) {
      compared++
      expect(limit?.resetMs).toBe(before.resetMs - 1)
      expect(limit?.remaining).toBe(before.remaining - 1)
    }
    before = limit
  }
  expect(compared).toBeGreaterThan(5)
})

test('Leases report each call that they spare, and what they take in advance', async () => {
  const { requested, avoided, leased, hurry } = subject()
  const charge = createMany()
  await hurry([charge], 300)
  const inAdvance = requested.flatMap(({ action, permits }) => (action === 'take-up-to' ? [permits] : []))
  const alone = requested.filter(({ action }) => action === 'take').length
  expect(new Set(avoided.map(([by, keys]) => `${by} ${keys}`))).toEqual(new Set([`leases ${charge.key}`]))
  // Every permit is used by a request that makes no call, or by the one that has taken it.
  const own = requested.length - leased.filter((permits) => inAdvance.includes(permits)).length
  expect(avoided.length).toBeLessThanOrEqual(300 - alone)
  expect(avoided.length).toBeGreaterThan(200)
  expect(own).toBeGreaterThanOrEqual(alone)
  expect(leased).toHaveLength(requested.length)
  expect(Math.min(...leased)).toBe(0)
  expect(leased.reduce((sum, permits) => sum + permits, 0)).toBeLessThanOrEqual(
    inAdvance.reduce((sum, permits) => sum + permits, 0),
  )
})

test('Leases pass on a fault of the program, and use what is left after a failure of the store', async () => {
  const { requested, server, decide, hurry, background } = subject()
  const charge = createMany()
  await hurry([charge], 200)
  server.error = new StoreError('no answer')
  requested.length = 0
  let admitted = 0
  const failed = await (async () => {
    for (; admitted < 1_000; admitted++) await decide(charge)
  })().catch((error: unknown) => error)
  expect(failed).toBe(server.error)
  expect(admitted).toBeGreaterThan(0)
  await Promise.all(background)
  server.error = new TypeError('a fault')
  await expect(decide(charge)).rejects.toThrow('a fault')
})

test('Leases settle each charge at the time that it was charged', async () => {
  const { leases, settled } = subject()
  const [first, second] = [createMany(), createMany()]
  const differences = [
    { charge: first, units: -1 },
    { charge: second, units: 2 },
  ]
  await leases.settle(differences, 5)
  expect(settled).toEqual([[differences, 5]])
})

test('LeasedDecision: over a store that is split, permits of each charge come by a call of its own', async () => {
  for (const isSplit of [false, true]) {
    const { requested, hurry } = subject({ isSplit })
    const charges = [createMany(), createMany()]
    await hurry(charges, 300)
    const inAdvance = requested.filter(({ action, permits }) => action === 'take-up-to' && permits > 1)
    expect(inAdvance.length).toBeGreaterThan(0)
    expect(new Set(inAdvance.map((one) => one.charges.length))).toEqual(new Set([isSplit ? 1 : 2]))
    expect(requested.length).toBeLessThan(100)
  }
})

test('LeasedDecision: what one charge refuses uses no permits of the others', async () => {
  const { memory, leases, decide, hurry, requested, avoided } = subject()
  const [many, few] = [createMany(), createMany(50)]
  await hurry([many, few], 50)
  const spared = avoided.filter(([by]) => by === 'leases').length
  const peek = async (charge: StoreCharge) => {
    const { usage } = await memory.decide(take([charge], { action: 'peek' }))
    return usage[0]?.[0]?.remaining
  }
  const before = await peek(many)
  requested.length = 0
  for (let i = 0; i < 20; i++) expect(await decide(many, few)).toMatchObject({ granted: 0 })
  expect(await peek(many)).toBe(before)
  expect(await peek(few)).toBe(0)
  expect(requested.length).toBeLessThanOrEqual(1)
  expect(avoided.filter(([by]) => by === 'leases')).toHaveLength(spared)
  // The refusing charge alone is reported with a wait.
  const { usage } = await leases.decide(take([many, few]), callContext())
  expect(usage.map((limits) => limits.some(({ retryAfterMs }) => retryAfterMs > 0))).toEqual([false, true])
})
