import { describe, expect, test } from 'vitest'
import type { StoreCharge } from '../../src/core/model/charge.ts'
import { createCharge, EVERY_ALGORITHM, remainingIn, take, unhurried } from '../support/charges.ts'
import { STORES } from '../support/stores.ts'

const WITHOUT_SLOTS = EVERY_ALGORITHM.filter((name) => name !== 'concurrency')

function failing(
  algorithm: (typeof WITHOUT_SLOTS)[number],
  limit: number,
  overrides: Partial<StoreCharge> = {},
): StoreCharge {
  return unhurried(algorithm, limit, { counts: 'failures', ...overrides })
}

describe.each(Object.entries(STORES))('%s', (_name, createSubject) => {
  describe.each(WITHOUT_SLOTS)('%s', (algorithm) => {
    test('failures are charged by "record" alone, and refuse when they have reached the limit', async () => {
      const { store } = createSubject()
      const charge = failing(algorithm, 2)
      const record = () => store.decide(take([charge], { action: 'record' }))
      for (let i = 0; i < 4; i++) expect(remainingIn(await store.decide(take([charge])))).toEqual([2])
      expect(remainingIn(await record())).toEqual([1])
      expect(remainingIn(await store.decide(take([charge])))).toEqual([1])
      expect(remainingIn(await record())).toEqual([0])
      const refused = await store.decide(take([charge]))
      expect([refused.granted, refused.usage[0]?.[0]?.remaining]).toEqual([0, 0])
      expect(refused.usage[0]?.[0]?.retryAfterMs).toBeGreaterThan(0)
    })

    test('a late failure counts beyond the limit', async () => {
      const { store } = createSubject()
      const charge = failing(algorithm, 2, { cost: 2 })
      for (let i = 0; i < 3; i++) {
        expect(await store.decide(take([charge], { action: 'record' }))).toMatchObject({ granted: 1 })
      }
      // By a raised limit, it shows how many there were.
      const raised = { ...charge, cost: 1, limits: charge.limits.map((limit) => ({ ...limit, limit: 10 })) }
      const { usage } = await store.decide(
        take([{ ...raised, ...(charge.burst && { burst: 10 }) }], { action: 'peek' }),
      )
      expect(usage[0]?.[0]?.remaining).toBe(4)
    })
  })

  test('a refusal for failures charges nothing, and one for something else no failure', async () => {
    const { store } = createSubject()
    const [failures, requests] = [failing('sliding-window', 1), createCharge('quota', [{ limit: 2, windowMs: 60_000 }])]
    expect(remainingIn(await store.decide(take([failures, requests])))).toEqual([1, 1])
    await store.decide(take([failures], { action: 'record' }))
    expect((await store.decide(take([failures, requests]))).granted).toBe(0)
    expect(remainingIn(await store.decide(take([requests], { action: 'peek' })))).toEqual([1])
  })

  test('a caller that has never failed is no new identity for that', async () => {
    const { store } = createSubject()
    const known = createCharge('sliding-window', [{ limit: 9, windowMs: 60_000 }])
    const newIdentities = createCharge('sliding-window', [{ limit: 1, windowMs: 60_000 }], { counts: 'new-identities' })
    const charges = [failing('sliding-window', 1), known, newIdentities]
    for (const granted of [1, 1, 1]) expect((await store.decide(take(charges))).granted).toBe(granted)
  })

  test('a shadow charge is charged for failures too, and refuses nothing', async () => {
    const { store } = createSubject()
    const charge = failing('sliding-window', 1, { mode: 'shadow' })
    for (let i = 0; i < 2; i++) await store.decide(take([charge], { action: 'record' }))
    const { granted, usage } = await store.decide(take([charge]))
    expect(granted).toBe(1)
    expect(usage[0]?.[0]?.retryAfterMs).toBeGreaterThan(0)
  })

  test('"record" leaves a charge for new identities alone where there is none', async () => {
    const { store } = createSubject()
    const newIdentities = createCharge('sliding-window', [{ limit: 1, windowMs: 60_000 }], { counts: 'new-identities' })
    const charges = [failing('quota', 3), newIdentities]
    expect(remainingIn(await store.decide(take(charges, { action: 'record' })))).toEqual([2, 1])
  })
})
