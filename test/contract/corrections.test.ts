import { describe, expect, test } from 'vitest'
import type { StoreCharge } from '../../src/core/model/charge.ts'
import { createCharge, take } from '../support/charges.ts'
import { STORES } from '../support/stores.ts'

const HOUR_MS = 3_600_000

/**
 * Tries again with other keys, and twice the time, until all came in time: a slow machine is no failure.
 * @param attempt takes ten such units at most, and tells whether everything came in time
 */
async function untilInTime(attempt: (unitMs: number) => Promise<boolean>): Promise<void> {
  for (let unitMs = 40; !(await attempt(unitMs)); unitMs *= 2) {}
}

// Together, because most of them wait.
describe.concurrent.each(Object.entries(STORES))('%s', (_name, createSubject) => {
  const held = (limit: number, windowMs: number, overrides: Partial<StoreCharge> = {}) =>
    createCharge('concurrency', [{ limit, windowMs }], overrides)

  test('release() gives back the slots of one request, once, and no others', async () => {
    const { store } = createSubject()
    const charge = held(3, 60_000)
    const [first, second] = [take([{ ...charge, cost: 2 }]), take([charge])]
    expect([(await store.decide(first)).granted, (await store.decide(second)).granted]).toEqual([1, 1])
    expect((await store.decide(take([charge]))).granted).toBe(0)
    await store.release(first.charges)
    await store.release(first.charges)
    expect((await store.decide(take([charge], { action: 'peek' }))).usage[0]?.[0]?.remaining).toBe(2)
    await store.release(second.charges)
    expect((await store.decide(take([charge], { action: 'peek' }))).usage[0]?.[0]?.remaining).toBe(3)
  })

  test('release() of what was never held changes nothing', async () => {
    const { store } = createSubject()
    await expect(store.release(take([held(1, 60_000)]).charges)).resolves.toBeUndefined()
  })

  test('revoke() gives back slots that were taken, and may be repeated', async () => {
    const { store } = createSubject()
    const charge = held(6, 60_000)
    const requests = [take([{ ...charge, cost: 2 }]), take([{ ...charge, cost: 3 }]), take([charge])]
    for (const request of requests) expect((await store.decide(request)).granted).toBe(1)
    const [known, unknown] = requests.map(({ charges }) => charges[0] as StoreCharge)
    for (let i = 0; i < 2; i++) {
      await store.revoke([
        { charge: known as StoreCharge, isKnown: true },
        { charge: unknown as StoreCharge, isKnown: false },
      ])
      expect((await store.decide(take([charge], { action: 'peek' }))).usage[0]?.[0]?.remaining).toBe(5)
    }
  })

  test('revoke() before a slot is taken keeps it from counting, and no other', async () => {
    const { store, advance } = createSubject()
    const charge = held(3, HOUR_MS)
    const request = take([{ ...charge, cost: 2 }])
    const remaining = async () => (await store.decide(take([charge], { action: 'peek' }))).usage[0]?.[0]?.remaining
    await store.revoke(request.charges.map((own) => ({ charge: own, isKnown: false })))
    await store.decide(request)
    expect(await remaining()).toBe(3)

    // What is overdue is swept away by the next admission, and the mark of the revoked slot is not.
    await store.decide(take([{ ...charge, limits: [{ limit: 3, windowMs: 50 }] }]))
    await advance(50)
    await store.decide(take([charge]))
    await store.decide(request)
    expect(await remaining()).toBe(2)
  })

  test('renew() keeps slots of several charges beyond their deadline, and no longer than a whole one more', async () => {
    const { store, advance } = createSubject()
    await untilInTime(async (unitMs) => {
      const charges = [1, 2, 3].map((cost) => held(cost, 10 * unitMs, { cost }))
      const request = take(charges)
      const { nowMs } = await store.decide(request)
      await advance(unitMs)
      await store.renew(request.charges)
      const renewed = await store.decide(take(charges))
      if (renewed.nowMs - nowMs >= 10 * unitMs) return false
      const waitsMs = renewed.usage.map(([limit]) => limit?.retryAfterMs ?? Number.NaN)
      for (const waitMs of waitsMs) expect(renewed.nowMs + waitMs - nowMs).toBeGreaterThanOrEqual(11 * unitMs)
      await advance(Math.max(...waitsMs))
      expect((await store.decide(take(charges))).granted).toBe(1)
      return true
    })
  })

  test('renew() does not bring back a slot that was released', async () => {
    const { store } = createSubject()
    const charge = held(1, 60_000)
    const request = take([charge])
    await store.decide(request)
    await store.release(request.charges)
    await store.renew(request.charges)
    expect((await store.decide(take([charge]))).granted).toBe(1)
  })

  test('settle() takes what was charged too little of a bucket that is full again', async () => {
    const { store, advance } = createSubject()
    const msPerUnit = 50
    const charge = createCharge('token-bucket', [{ limit: 1_000 / msPerUnit, windowMs: 1_000 }], { burst: 10_000 })
    const { nowMs } = await store.decide(take([charge]))
    await advance(2 * msPerUnit)
    await store.settle([{ charge, units: 9_999 }], nowMs)
    const late = await store.decide(take([charge], { action: 'peek' }))
    const refilled = (late.nowMs - nowMs) / msPerUnit
    expect(refilled).toBeGreaterThan(1)
    expect(late.usage[0]?.[0]?.remaining).toBeLessThanOrEqual(refilled)
    expect(late.usage[0]?.[0]?.remaining).toBeGreaterThan(refilled - 1.1)

    // As much has been refilled since.
    await store.settle(
      [{ charge: { ...charge, key: `${charge.key}-3` }, units: 100 }],
      late.nowMs - 101 * msPerUnit - 2,
    )
    const other = await store.decide(take([{ ...charge, key: `${charge.key}-3` }], { action: 'peek' }))
    expect(other.usage[0]?.[0]?.remaining).toBe(10_000)
  })

  test('settle() gives nothing back twice that was refilled at a higher rate', async () => {
    const { store, advance } = createSubject()
    const fast = createCharge('token-bucket', [{ limit: 1_000_000, windowMs: 1_000 }], { burst: 100 })
    const slow = { ...fast, limits: [{ limit: 1, windowMs: HOUR_MS }] }
    const { nowMs } = await store.decide(take([{ ...fast, cost: 50 }]))
    await advance(2)
    await store.decide(take([{ ...slow, cost: 50 }]))
    await store.settle([{ charge: { ...fast, cost: 50 }, units: -50 }], nowMs)
    const left = await store.decide(take([slow], { action: 'peek' }))
    expect(left.usage[0]?.[0]?.remaining).toBe(50)
  })

  describe.each([
    ['quota', { limit: 10, windowMs: HOUR_MS }, {}],
    // The window of the clock that began in 1970 and ends in 2033.
    ['fixed-window', { limit: 10, windowMs: 2_000_000_000_000 }, {}],
    ['token-bucket', { limit: 1, windowMs: HOUR_MS }, { burst: 10 }],
  ] as const)('%s', (algorithm, limit, overrides) => {
    const charge = () => createCharge(algorithm, [limit], overrides)

    async function left(subject: ReturnType<typeof createSubject>, charge: StoreCharge): Promise<number | undefined> {
      // A charge is dated to the ms: a bucket keeps back what one ms refills.
      await subject.advance(2)
      return (await subject.store.decide(take([charge], { action: 'peek' }))).usage[0]?.[0]?.remaining
    }

    test('settle() gives back what was charged too much, and takes what was charged too little', async () => {
      const subject = createSubject()
      const own = charge()
      const { nowMs } = await subject.store.decide(take([{ ...own, cost: 6 }]))
      await subject.store.settle([{ charge: own, units: -4 }], nowMs)
      expect(await left(subject, own)).toBe(8)
      await subject.store.settle([{ charge: own, units: 5 }], nowMs)
      expect(await left(subject, own)).toBe(3)
      await subject.store.settle([{ charge: own, units: 9 }], nowMs)
      expect(await left(subject, own)).toBe(0)
    })

    test('settle() never gives back more than was used', async () => {
      const subject = createSubject()
      const own = charge()
      const { nowMs } = await subject.store.decide(take([{ ...own, cost: 2 }]))
      await subject.store.settle([{ charge: own, units: -9 }], nowMs)
      expect(await left(subject, own)).toBe(10)
      await subject.store.decide(take([{ ...own, cost: 10 }]))
      expect(await left(subject, own)).toBe(0)
    })

    test('settle() of a caller of whom nothing is left changes nothing', async () => {
      const subject = createSubject()
      const own = charge()
      await subject.store.settle([{ charge: own, units: -1 }], 1_700_000_000_000)
      expect(await left(subject, own)).toBe(10)
    })
  })

  test('settle() leaves alone a window that began after the charge', async () => {
    const { store, advance } = createSubject()
    await untilInTime(async (unitMs) => {
      const windowMs = 10 * unitMs
      const charge = createCharge('quota', [{ limit: 10, windowMs }])
      const { nowMs } = await store.decide(take([{ ...charge, cost: 5 }]))
      await advance(windowMs)
      const second = await store.decide(take([{ ...charge, cost: 5 }]))
      await store.settle([{ charge, units: -5 }], nowMs)
      const last = await store.decide(take([charge], { action: 'peek' }))
      if (last.nowMs - second.nowMs >= windowMs) return false
      expect(last.usage[0]?.[0]?.remaining).toBe(5)
      return true
    })
  })

  test('settle() does not give a bucket back what was refilled since the charge', async () => {
    const { store, advance } = createSubject()
    const charge = createCharge('token-bucket', [{ limit: 1, windowMs: 100 }], { burst: 5 })
    const { nowMs } = await store.decide(take([{ ...charge, cost: 5 }]))
    await advance(200)
    // Two units have come back and are spent again: of four too many, two are left to give back, and not quite that.
    await store.decide(take([{ ...charge, cost: 2 }]))
    await store.settle([{ charge, units: -4 }], nowMs)
    const { usage, nowMs: endMs } = await store.decide(take([charge], { action: 'peek' }))
    expect(usage[0]?.[0]?.remaining).toBeLessThanOrEqual(2 + Math.floor((endMs - nowMs - 200) / 100))
  })

  test('settle() and renew() leave a state its whole life', async () => {
    const { store, advance } = createSubject()
    await untilInTime(async (unitMs) => {
      const windowMs = 10 * unitMs
      const quota = createCharge('quota', [{ limit: 1, windowMs }])
      const { nowMs } = await store.decide(take([quota]))
      await advance(5 * unitMs)
      await store.settle([{ charge: quota, units: 1 }], nowMs)
      await advance(3 * unitMs)
      const { granted, usage, nowMs: endMs } = await store.decide(take([quota]))
      if (endMs - nowMs >= windowMs) return false
      expect([granted, usage[0]?.[0]?.remaining]).toEqual([0, 0])
      return true
    })
  })

  test('settle() corrects several charges at once, each by its own difference', async () => {
    const { store } = createSubject()
    const [first, second] = [
      createCharge('quota', [{ limit: 10, windowMs: HOUR_MS }]),
      createCharge('quota', [{ limit: 20, windowMs: HOUR_MS }]),
    ]
    const { nowMs } = await store.decide(
      take([
        { ...first, cost: 5 },
        { ...second, cost: 5 },
      ]),
    )
    await store.settle(
      [
        { charge: first, units: -3 },
        { charge: second, units: 4 },
      ],
      nowMs,
    )
    const { usage } = await store.decide(take([first, second], { action: 'peek' }))
    expect(usage.map(([limit]) => limit?.remaining)).toEqual([8, 11])
  })
})
