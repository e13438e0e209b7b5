import { expect, test } from 'vitest'
import { withLeases } from '../../src/core/engine/leases/with-leases.ts'
import { withIsolateMemory } from '../../src/core/engine/stages/isolate-memory.ts'
import type { DecisionRequest, StoreCharge } from '../../src/core/model/charge.ts'
import { StoreError } from '../../src/core/model/store.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { callContext } from '../support/call-context.ts'
import { createCharge, remainingIn, retryAfterMs, storeWith, take } from '../support/charges.ts'

const TIMEOUT_MS = 500

/** A limit for all, of which permits are at hand, and a store that takes a call for each charge if it is split. */
async function subject({ isSplit = false } = {}) {
  const clock = { now: 1_700_000_000_000 }
  const memory = new MemoryStore(() => clock.now)
  const server = { isUnavailable: false }
  const requested: DecisionRequest[] = []
  const settledAtMs: number[] = []
  const background: Promise<unknown>[] = []
  const store = storeWith({
    isSplit: (charges) => isSplit && charges.length > 1,
    async decide(request) {
      requested.push(request)
      if (server.isUnavailable) throw new StoreError('no answer')
      return memory.decideNow(request)
    },
    async settle(differences, chargedAtMs) {
      settledAtMs.push(chargedAtMs)
      await memory.settle(differences, chargedAtMs)
    },
  })
  const leases = withIsolateMemory(store, {
    repeats: 'certain',
    leases: withLeases('auto'),
    now: () => clock.now,
    timeoutMs: TIMEOUT_MS,
  })
  const decide = async (...charges: StoreCharge[]) => {
    const decision = await leases.decide(take(charges), callContext(background))
    await Promise.all(background)
    clock.now++
    return decision
  }
  const all = createCharge('fixed-window', [{ limit: 100_000, windowMs: 60_000 }])
  clock.now -= clock.now % 60_000
  // It is hot.
  memory.decideNow({ action: 'record', permits: 20_000, charges: [all] })
  for (let i = 0; i < 200; i++) await decide(createToken(), all)
  requested.length = 0
  /** Charges that calls were about, without those for requests to come. */
  const listDecided = () =>
    requested.filter(({ action }) => action === 'take').map(({ charges }) => charges.map(({ key }) => key))
  return { clock, memory, server, requested, settledAtMs, leases, all, decide, listDecided }
}

function createToken(overrides: Partial<StoreCharge> = {}, limit = 100): StoreCharge {
  return createCharge('sliding-window', [{ limit, windowMs: 60_000 }], overrides)
}

test.each<[string, Partial<StoreCharge>]>([
  ['a limit of its own', {}],
  ['a reserve', { reserved: 5 }],
  ['a penalty', { penalty: { durationMs: 60_000, after: 1 } }],
  ['a shadow rule', { mode: 'shadow' }],
  ['slots', { algorithm: 'concurrency' }],
  ['what is settled', { algorithm: 'quota', needsSettlement: true }],
])('LeasedDecision: a limit for all is leased beside %s, which the store decides', async (_name, overrides) => {
  const { all, decide, listDecided } = await subject()
  const token = createToken(overrides)
  const decision = await decide(all, token)
  expect(decision.granted).toBe(1)
  expect(remainingIn(decision)).toEqual([expect.any(Number), 99])
  expect(listDecided()).toEqual([[token.key]])
})

test('LeasedDecision: a refusal is reported with its exact wait, and uses no permit', async () => {
  const { clock, all, decide, memory } = await subject()
  const token = createToken({}, 1)
  const first = await decide(token, all)
  const firstAtMs = clock.now - 1
  const refused = await decide(token, all)
  expect(refused.granted).toBe(0)
  expect(retryAfterMs(refused)).toBe(firstAtMs + 60_000 - (clock.now - 1))
  // The permit is at hand again, and nothing remains that is not there.
  expect(remainingIn(refused)[1]).toBe(remainingIn(first)[1])
  const { usage } = memory.decideNow(take([all], { action: 'peek' }))
  expect(remainingIn(refused)[1]).toBeGreaterThanOrEqual(usage[0]?.[0]?.remaining ?? 0)
})

test('LeasedDecision: a known refusal needs no call', async () => {
  const { requested, all, decide } = await subject()
  const token = createToken({}, 1)
  await decide(token, all)
  await decide(token, all)
  requested.length = 0
  expect(await decide(token, all)).toMatchObject({ granted: 0 })
  expect(requested).toEqual([])
})

test('LeasedDecision: permits count as used if it is unknown what the store did', async () => {
  const { server, all, decide } = await subject()
  const before = await decide(createToken(), all)
  server.isUnavailable = true
  await expect(decide(createToken(), all)).rejects.toThrow(StoreError)
  server.isUnavailable = false
  const after = await decide(createToken(), all)
  expect(remainingIn(after)[1]).toBe((remainingIn(before)[1] ?? 0) - 2)
})

test('LeasedDecision: a permit that expires while others are decided admits nothing', async () => {
  const { clock, leases, all, requested } = await subject()
  const token = createToken()
  const deciding = leases.decide(take([token, all]), callContext())
  clock.now += 12_000
  await expect(deciding).rejects.toThrow('a permit expired')
  expect(requested.some(({ charges }) => charges[0]?.key === token.key)).toBe(true)
})

test('LeasedDecision: a permit admits nothing if the clock has stepped back while others were decided', async () => {
  const { clock, leases, all, decide } = await subject()
  const deciding = leases.decide(take([createToken(), all]), callContext())
  clock.now -= 1
  await expect(deciding).rejects.toThrow('a permit expired')
  // The next one is decided by the store, like every other whose permits have been dropped.
  expect(await decide(createToken(), all)).toMatchObject({ granted: 1, nowMs: clock.now - 1 })
})

test('LeasedDecision: a permit of a refused request does not come back if the clock has stepped back meanwhile', async () => {
  const { clock, memory, leases, all, decide, listDecided } = await subject()
  const [used, token] = [createToken({}, 1), createToken()]
  memory.decideNow(take([used]))
  const deciding = leases.decide(take([used, all]), callContext())
  clock.now -= 1
  expect((await deciding).granted).toBe(0)
  await decide(token, all)
  expect(listDecided().at(-1)).toEqual([token.key, all.key])
})

test('LeasedDecision: each charge is settled at the time of its own decision', async () => {
  const { clock, settledAtMs, leases, all, decide } = await subject()
  const token = createToken({ algorithm: 'quota', needsSettlement: true })
  const { nowMs } = await decide(token, all)
  expect(nowMs).toBe(clock.now - 1)
  await leases.settle(
    [token, all].map((charge) => ({ charge, units: -1 })),
    nowMs,
  )
  expect(settledAtMs).toHaveLength(2)
  expect(settledAtMs[0]).toBe(nowMs)
  expect(settledAtMs[1]).toBeLessThan(nowMs)
})

test('LeasedDecision: a hot limit without a permit is asked apart where it would take calls to several places', async () => {
  const hot = createCharge('sliding-window', [{ limit: 10_000, windowMs: 10_000 }])
  const token = createToken()
  const split = await subject({ isSplit: true })
  await split.decide(token, hot)
  expect(split.requested.map(({ charges }) => charges.map(({ key }) => key))).toEqual([[hot.key], [token.key]])
  const joint = await subject()
  await joint.decide(token, hot)
  expect(joint.listDecided()).toEqual([[token.key, hot.key]])
})

test('LeasedDecision: whether an identity is new shows in the call that counts new ones', async () => {
  const hot = createCharge('sliding-window', [{ limit: 10_000, windowMs: 10_000 }])
  const { decide, listDecided } = await subject({ isSplit: true })
  const address = createToken({ counts: 'new-identities' }, 1)
  await decide(hot, address)
  expect(listDecided()).toEqual([[hot.key, address.key]])
})

test('LeasedDecision: a hot limit that refuses says nothing of a limit that may refuse for longer', async () => {
  const hot = createCharge('sliding-window', [{ limit: 10_000, windowMs: 10_000 }])
  const { clock, memory, decide } = await subject({ isSplit: true })
  const token = createToken({ penalty: { durationMs: 600_000, after: 1 } }, 1)
  await decide(token, hot)
  memory.decideNow({ action: 'record', permits: 10_000, charges: [hot] })
  clock.now += 3_000
  const refused = await decide(token, hot)
  expect(refused.granted).toBe(0)
  expect(retryAfterMs(refused)).toBe(600_000)
})

test('LeasedDecision: a hot limit that refuses alone is reported with its wait, and charges nothing', async () => {
  const hot = createCharge('sliding-window', [{ limit: 10_000, windowMs: 10_000 }])
  const { memory, requested, decide } = await subject({ isSplit: true })
  const token = createToken()
  memory.decideNow({ action: 'record', permits: 10_000, charges: [hot] })
  requested.length = 0
  const { granted, usage } = await decide(token, hot)
  expect(granted).toBe(0)
  expect(usage).toMatchObject([[], [{ remaining: 0 }]])
  expect(usage[1]?.[0]?.retryAfterMs).toBeGreaterThan(0)
  expect(requested.map(({ charges }) => charges.map(({ key }) => key))).toEqual([[hot.key]])
  expect(remainingIn(memory.decideNow(take([token], { action: 'peek' })))).toEqual([100])
})

test('LeasedDecision: a decision by permits alone is as late as the latest of them', async () => {
  const { clock, decide, all, requested } = await subject()
  const token = createCharge('sliding-window', [{ limit: 10_000, windowMs: 60_000 }])
  for (let i = 0; i < 300; i++) await decide(token, all)
  let compared = 0
  let latestMs = 0
  for (let i = 0; i < 200; i++) {
    requested.length = 0
    const { nowMs } = await decide(token, all)
    expect(nowMs).toBeLessThan(clock.now)
    // Nothing that was charged later is reported as charged before.
    expect(nowMs).toBeGreaterThanOrEqual(latestMs)
    latestMs = nowMs
    if (requested.length === 0) compared++
  }
  expect(compared).toBeGreaterThan(100)
})

test('LeasedDecision: where one call decides all charges, another one is made only if it saves some', async () => {
  const calm = createToken({}, 10_000)
  const joint = await subject()
  for (let i = 0; i < 100; i++) await joint.decide(createToken(), calm)
  expect(joint.requested).toHaveLength(100)
  joint.requested.length = 0
  const token = createToken({}, 10_000)
  for (let i = 0; i < 100; i++) await joint.decide(token, calm)
  expect(joint.requested.length).toBeLessThan(50)
})

test.each([false, true])(
  'LeasedDecision: no permits are taken that end before others are decided, over a store that is split: %s',
  async (isSplit) => {
    const { clock, memory, requested, decide } = await subject({ isSplit })
    // A quarter of its window is shorter than two deadlines.
    const brief = createCharge('sliding-window', [{ limit: 20_000, windowMs: 3_000 }])
    memory.decideNow({ action: 'record', permits: 5_000, charges: [brief] })
    requested.length = 0
    for (let i = 0; i < 50; i++) {
      // Slots are never leased.
      await decide(brief, createToken({ algorithm: 'concurrency' }))
      clock.now += 5
    }
    expect(requested.map(({ action }) => action)).toEqual(Array.from({ length: 50 }, () => 'take'))
  },
)

/** Counts the calls for a thousand requests of callers in turn, with so many limits of each caller, and perhaps one for all. */
async function countCalls(callers: number, limits: number, ofAll: readonly StoreCharge[] = []): Promise<number> {
  const { clock, requested, decide } = await subject()
  const charges = Array.from({ length: callers }, () => [
    ...Array.from({ length: limits }, (_, at) => createToken({}, (at + 1) * 100_000)),
    ...ofAll,
  ])
  requested.length = 0
  for (let i = 0; i < 1_000; i++) {
    expect(await decide(...(charges[i % callers] as StoreCharge[]))).toMatchObject({ granted: 1 })
    clock.now += 9
  }
  return requested.length
}

test('LeasedDecision: where one call decides all charges, several policies take no more calls than one', async () => {
  expect(await countCalls(1, 1)).toBe(38)
  expect(await countCalls(1, 2)).toBe(38)
  expect(await countCalls(1, 3)).toBe(38)
})

test('LeasedDecision: many callers with a limit for all make few calls for it besides their own', async () => {
  const ofAll = () => [createToken({}, 1_000_000)]
  expect(await countCalls(10, 1)).toBe(110)
  expect(await countCalls(10, 1, ofAll())).toBe(137)
})
