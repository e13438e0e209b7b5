import { expect, test } from 'vitest'
import { type LeaseSize, withLeases } from '../../src/core/engine/leases/with-leases.ts'
import { withIsolateMemory } from '../../src/core/engine/stages/isolate-memory.ts'
import type { DecisionRequest, StoreCharge } from '../../src/core/model/charge.ts'
import type { AlgorithmName } from '../../src/core/model/limits.ts'
import { StoreError } from '../../src/core/model/store.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { callContext } from '../support/call-context.ts'
import { createCharge, storeWith, take } from '../support/charges.ts'

const START_MS = 1_700_000_000_000
const RULE = () => createCharge('sliding-window', [{ limit: 10_000, windowMs: 60_000 }])

/** @param pauseMs before a clock is read, the process is held up for so long, now and again */
function subject(size: LeaseSize = 'auto', pauseMs = 0) {
  /** `lateMs`: what a request reads of either clock is earlier by this. `setBackMs`: so far, which no steady clock is. */
  const clock = { now: START_MS, lateMs: 0, setBackMs: 0 }
  let readings = 0
  const readClock = () => {
    if (++readings % 7 === 0) clock.now += pauseMs
    return clock.now - clock.lateMs
  }
  const memory = new MemoryStore(() => clock.now)
  const requested: DecisionRequest[] = []
  const sentAtMs: number[] = []
  const server = { isUnavailable: false, roundTripMs: 0 }
  const background: Promise<unknown>[] = []
  const store = {
    async decide(request: DecisionRequest) {
      requested.push(request)
      sentAtMs.push(clock.now)
      if (server.isUnavailable) throw new StoreError('no answer')
      const decision = memory.decideNow(request)
      clock.now += server.roundTripMs
      return decision
    },
  }
  const leases = withIsolateMemory(storeWith(store), {
    repeats: 'none',
    leases: withLeases(size),
    now: readClock,
    readSteadyMs: () => readClock() + clock.setBackMs,
    timeoutMs: Number.POSITIVE_INFINITY,
  })
  const decide = (...charges: StoreCharge[]) => leases.decide(take(charges), callContext(background))
  /** So many requests, 1 ms after each other, replenishments answered between them. */
  async function hurry(charge: StoreCharge, requests: number): Promise<void> {
    for (let i = 0; i < requests; i++) {
      await decide(charge)
      await Promise.all(background)
      clock.now++
    }
  }
  function setBack(ms: number): void {
    clock.now -= ms
    clock.setBackMs += ms
  }
  return { clock, setBack, requested, sentAtMs, server, background, decide, hurry, memory }
}

test('Leases decide most requests of a busy caller without a call', async () => {
  const { requested, hurry } = subject()
  await hurry(RULE(), 500)
  expect(requested.length).toBeLessThan(50)
  expect(requested.some(({ action }) => action === 'take-up-to')).toBe(true)
  for (const { action, leaseMs = 0 } of requested) {
    expect(leaseMs).toBeLessThanOrEqual(12_000)
    expect(leaseMs > 0).toBe(action === 'take-up-to')
  }
})

test('Leases last although the process is held up between the readings of two clocks', async () => {
  const { requested, hurry } = subject('auto', 3)
  await hurry(RULE(), 500)
  expect(requested.length).toBeLessThan(50)
})

test('Leases last although a request whose timer is late reads when it was due, as Workers do', async () => {
  const { requested, clock, hurry } = subject()
  const charge = RULE()
  for (let i = 0; i < 500; i++) {
    clock.lateMs = i % 7 === 0 ? 15 : 0
    await hurry(charge, 1)
  }
  expect(requested.length).toBeLessThan(50)
})

test('Leases of two plans of one key do not disturb each other', async () => {
  const { requested, clock, background, decide } = subject()
  const charge = RULE()
  for (let i = 0; i < 1_000; i++) {
    await decide({ ...charge, plan: i % 2 === 0 ? 'free' : 'pro' })
    await Promise.all(background)
    clock.now++
  }
  expect(requested.length).toBeLessThan(150)
})

test('Leases call the store for each request of a slow caller', async () => {
  const { requested, clock, decide } = subject()
  const charge = RULE()
  for (let i = 0; i < 20; i++) {
    await decide(charge)
    clock.now += 6_000
  }
  expect(requested.map(({ action }) => action)).toEqual(Array.from({ length: 20 }, () => 'take'))
})

test('Leases take at most a 32nd of what is left', async () => {
  const { requested, clock, hurry } = subject()
  const limits = [
    { limit: 1_000, windowMs: 10_000 },
    { limit: 10_000, windowMs: 60_000 },
  ]
  clock.now += 5_000
  const charge = createCharge('fixed-window', limits)
  await hurry(charge, 700)
  const before = requested.length
  await hurry(charge, 100)
  const permits = requested.slice(before).map(({ permits }) => permits)
  // The one that is used at once, and those that are left.
  expect(Math.max(...permits)).toBeLessThanOrEqual(1 + 300 / 32)
  expect(Math.max(...permits)).toBeGreaterThan(200 / 32)
})

test('Leases take at most a number that is given, and fewer for a caller that needs fewer', async () => {
  const { requested, hurry } = subject(25)
  await hurry(RULE(), 200)
  const permits = requested.map(({ permits }) => permits)
  expect(permits[0]).toBe(1)
  expect(Math.max(...permits)).toBeLessThanOrEqual(25)
  expect(Math.max(...permits)).toBeGreaterThan(20)
  expect(Math.min(...permits.filter((count) => count > 1))).toBeLessThan(10)
})

test('Leases never report more than is left, and no less once all answers are there', async () => {
  const { requested, clock, decide, background } = subject()
  const charge = RULE()
  for (let spent = 1; spent <= 100; spent++) {
    const { usage } = await decide(charge)
    expect(usage[0]?.[0]?.remaining).toBeLessThanOrEqual(10_000 - spent)
    await Promise.all(background)
    clock.now += 10
  }
  const before = requested.length
  const { usage } = await decide(charge)
  expect(requested.length).toBe(before)
  expect(usage[0]?.[0]?.remaining).toBe(10_000 - 101)
})

test('Leases know what was used at another cost', async () => {
  const { requested, decide, hurry } = subject()
  const charge = RULE()
  await hurry(charge, 50)
  const before = requested.length
  await decide({ ...charge, cost: 100 })
  const { usage } = await decide(charge)
  expect(requested.length).toBe(before + 1)
  expect(usage[0]?.[0]?.remaining).toBe(10_000 - 151)
})

test('Leases replenish before the permits have run out, and count those on their way', async () => {
  const { requested, background, decide, hurry } = subject()
  const charge = RULE()
  await hurry(charge, 100)
  const [before, begun] = [requested.length, background.length]
  // The clock stands still, and no answer is taken in before all have asked.
  const decisions = Array.from({ length: 150 }, () => decide(charge))
  expect(background.length - begun).toBe(1)
  await Promise.all(decisions)
  const permits = requested.slice(before).flatMap(({ action, permits }) => (action === 'take-up-to' ? [permits] : []))
  expect(permits.reduce((sum, one) => sum + one, 0)).toBeLessThan(200)
})

test('Leases let permits expire a twentieth before they end in Redis', async () => {
  const { requested, sentAtMs, clock, decide, hurry } = subject()
  const charge = RULE()
  await hurry(charge, 100)
  const { action, leaseMs = 0 } = requested.at(-1) as DecisionRequest
  expect(action).toBe('take-up-to')
  clock.now = (sentAtMs.at(-1) ?? 0) + Math.ceil(0.95 * leaseMs)
  // The store itself admits it.
  expect((await decide(charge)).nowMs).toBe(clock.now)
})

test('Leases of two permits save every other call', async () => {
  const { requested, hurry } = subject(2)
  await hurry(RULE(), 100)
  expect(requested.length).toBeLessThan(60)
})

test('Leases expire when a request reads a millisecond less than the one before, though its steady clock goes on', async () => {
  const { requested, setBack, decide, hurry } = subject()
  const charge = RULE()
  await hurry(charge, 100)
  await decide(charge)
  const before = requested.length
  setBack(1)
  await decide(charge)
  expect(requested.slice(before)).toMatchObject([{ action: 'take', permits: 1 }])
})

test('Leases expire when the clock is seen to step back, those on their way too', async () => {
  const { requested, background, clock, setBack, decide, hurry } = subject()
  const charge = RULE()
  await hurry(charge, 100)
  setBack(2)
  const before = requested.length
  await decide(charge)
  expect(requested.slice(before)).toMatchObject([{ action: 'take', permits: 1 }])
  for (let i = 0; i < 40; i++) {
    clock.now++
    const begun = background.length
    await decide(charge)
    if (background.length === begun) continue
    // A lease is on its way.
    setBack(5)
    await Promise.all(background)
    const request = requested.length
    await decide(charge)
    expect(requested.slice(request)).toMatchObject([{ action: 'take', permits: 1 }])
    return
  }
  expect.unreachable('no lease was taken ahead')
})

test('Leases use what they have while the store is unavailable, and then say that it is', async () => {
  const { server, background, decide, hurry } = subject(25)
  const charge = RULE()
  await hurry(charge, 110)
  server.isUnavailable = true
  let spent = 0
  const all = async () => {
    for (; spent < 100; spent++) expect((await decide(charge)).granted).toBe(1)
  }
  await expect(all()).rejects.toThrow(StoreError)
  expect(spent).toBeGreaterThan(2)
  // A replenishment that failed is no unhandled rejection.
  await expect(Promise.all(background)).resolves.toBeDefined()
})

test('Leases take nothing in advance over a way that is long compared to their term', async () => {
  const { requested, clock, hurry, server } = subject()
  server.roundTripMs = 290
  const second = createCharge('sliding-window', [{ limit: 100_000, windowMs: 1_000 }])
  await hurry(second, 300)
  expect(requested.every(({ action }) => action === 'take')).toBe(true)
  server.roundTripMs = 10
  clock.now += 1_000
  await hurry(second, 300)
  expect(requested.some(({ action }) => action === 'take-up-to')).toBe(true)
})

test('Leases take nothing in advance of a caller who is near its limit', async () => {
  const { requested, clock, decide } = subject()
  const charge = createCharge('sliding-window', [{ limit: 1_000, windowMs: 60_000 }])
  for (let i = 0; i < 1_000; i++) {
    await decide(charge)
    clock.now += 60
  }
  const lateOnes = requested.slice(-60)
  expect(lateOnes.every(({ action }) => action === 'take')).toBe(true)
})

test('Leases pass a refusal on, with its exact wait', async () => {
  const { requested, decide } = subject(100)
  const charge = createCharge('sliding-window', [{ limit: 1_000, windowMs: 60_000 }], { cost: 10 })
  const granted: number[] = []
  for (let i = 0; i < 101; i++) granted.push((await decide(charge)).granted)
  expect(granted.reduce((sum, one) => sum + one, 0)).toBe(100)
  expect((await decide(charge)).usage).toMatchObject([[{ remaining: 0 }]])
  expect(requested.every(({ permits }) => permits <= 10)).toBe(true)
})

test.each<[string, Partial<StoreCharge>]>([
  ['slots', { algorithm: 'concurrency' }],
  ['what is settled', { algorithm: 'quota', needsSettlement: true }],
  ['a small bucket', { algorithm: 'token-bucket', burst: 19 }],
  ['a shadow rule', { mode: 'shadow' }],
  ['a reserve', { reserved: 5 }],
  ['new identities', { counts: 'new-identities' }],
  ['a small limit', { limits: [{ limit: 19, windowMs: 60_000 }] }],
])('Leases take nothing in advance of %s', async (_name, overrides) => {
  const { requested, decide } = subject(10)
  await decide(RULE(), { ...RULE(), ...overrides })
  expect(requested).toMatchObject([{ action: 'take', permits: 1 }])
})

const WINDOWED: readonly AlgorithmName[] = ['fixed-window', 'quota']

// The slower the caller, the longer its leases: those of the slowest would last far into the next window.
test.each(WINDOWED.flatMap((algorithm) => [20, 100, 200].map((gapMs) => [algorithm, gapMs] as const)))(
  'Leases of %s end with the window that they are charged to, of a caller every %i ms',
  async (algorithm, gapMs) => {
    const { requested, clock, hurry, background, decide } = subject()
    const windowMs = 60_000
    // Windows of the clock and those of a first use begin together.
    clock.now -= clock.now % windowMs
    const charge = createCharge(algorithm, [{ limit: 10_000, windowMs }])
    await hurry(charge, 1)
    clock.now += 40_000
    let requests = 0
    for (let window = 0; window < 2; window++) {
      const endMs = clock.now - (clock.now % windowMs) + windowMs
      for (; clock.now < endMs + 10 * gapMs; clock.now += gapMs, requests++) {
        const { nowMs } = await decide(charge)
        await Promise.all(background)
        expect(nowMs).toBeGreaterThanOrEqual(clock.now < endMs ? endMs - windowMs : endMs)
      }
      // A window of a first use begins with that.
      clock.now += windowMs - (clock.now % windowMs) - 10 * gapMs
    }
    expect(requested.length).toBeLessThan(requests / 2)
  },
)

test('Leases of a bucket last three tenths of the time in which it is filled at most, and cost what is refilled', async () => {
  const { requested, hurry, memory } = subject()
  const charge = createCharge('token-bucket', [{ limit: 1_000, windowMs: 60_000 }], { burst: 500 })
  await hurry(charge, 40)
  const leases = requested.filter(({ action }) => action === 'take-up-to')
  expect(leases.length).toBeGreaterThan(0)
  expect(leases.every(({ leaseMs = 0 }) => leaseMs <= 9_000)).toBe(true)
  const other = { ...charge, key: 'other' }
  const leased = memory.decideNow(take([other], { action: 'take-up-to', permits: 10, leaseMs: 3_000 }))
  expect(leased).toMatchObject({ granted: 10, usage: [[{ remaining: 500 - 10 - 50 }]] })
  expect(memory.decideNow(take([other], { action: 'peek' }))).toMatchObject({ usage: [[{ remaining: 440 }]] })
})

test('Leases take nothing in advance of a bucket that is nearly empty', async () => {
  const { requested, decide, hurry } = subject()
  const charge = createCharge('token-bucket', [{ limit: 1_000, windowMs: 60_000 }])
  await decide({ ...charge, cost: 940 })
  await hurry(charge, 60)
  expect(requested.every(({ action }) => action === 'take')).toBe(true)
})

test('Leases report when the permit was charged, so that it can be given back', async () => {
  const { requested, clock, decide, hurry } = subject()
  const charge = createCharge('quota', [{ limit: 10_000, windowMs: 60_000 }])
  await hurry(charge, 50)
  const before = requested.length
  clock.now += 3
  const { nowMs } = await decide(charge)
  expect(requested.length).toBe(before)
  expect(nowMs).toBeLessThan(clock.now)
  expect(nowMs).toBeGreaterThanOrEqual(START_MS)
})

test('Leases take no permits in advance of a charge that may penalty its caller', async () => {
  const { requested, hurry } = subject()
  await hurry({ ...RULE(), penalty: { durationMs: 60_000, after: 1 } }, 100)
  expect(requested.map(({ permits }) => permits)).toEqual(Array.from({ length: 100 }, () => 1))
})
