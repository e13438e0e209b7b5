import { describe, expect, test } from 'vitest'
import type { StoreCharge } from '../../src/core/model/charge.ts'
import { openCalendar } from '../../src/core/options/calendar.ts'
import { createCharge, remainingIn, take } from '../support/charges.ts'
import { STORES } from '../support/stores.ts'

const caller = () => createCharge('sliding-window', [{ limit: 5, windowMs: 60_000 }])
const newIdentities = (limit: number, overrides: Partial<StoreCharge> = {}) =>
  createCharge('sliding-window', [{ limit, windowMs: 60_000 }], { counts: 'new-identities', ...overrides })

describe.each(Object.entries(STORES))('%s', (_name, createSubject) => {
  test('a charge for new identities is charged once for each of them', async () => {
    const { store } = createSubject()
    const [known, cap] = [caller(), newIdentities(3)]
    expect(remainingIn(await store.decide(take([known, cap])))).toEqual([4, 2])
    // It does not hold for one that is known: of it, such a decision knows nothing.
    expect(remainingIn(await store.decide(take([known, cap])))).toEqual([3, 3])
    expect(remainingIn(await store.decide(take([caller(), cap])))).toEqual([4, 1])
  })

  test('of a charge that does not hold, all limits are reported as unused', async () => {
    const { store } = createSubject()
    const known = caller()
    const limits = [
      { limit: 3, windowMs: 60_000 },
      { limit: 5, windowMs: 90_000 },
    ]
    const cap = newIdentities(0, { limits })
    await store.decide(take([known, cap]))
    const unused = limits.map(({ limit, windowMs }) => ({ remaining: limit, resetMs: windowMs, retryAfterMs: 0 }))
    expect((await store.decide(take([known, cap]))).usage[1]).toEqual(unused)
  })

  test('a quota by the calendar for new identities is not charged for one that is known', async () => {
    const { store } = createSubject()
    const calendar = openCalendar('year', 'UTC', 1)
    const windowMs = 366 * 86_400_000
    const known = caller()
    const cap = createCharge('quota', [{ limit: 3, windowMs, calendar }], { counts: 'new-identities' })
    expect(remainingIn(await store.decide(take([known, cap])))).toEqual([4, 2])
    expect(remainingIn(await store.decide(take([known, cap])))).toEqual([3, 3])
  })

  test('it refuses new identities beyond its limit, and leaves nothing of them behind', async () => {
    const { store } = createSubject()
    const [known, cap] = [caller(), newIdentities(2)]
    await store.decide(take([known, cap]))
    await store.decide(take([caller(), cap]))
    const minted = caller()
    expect((await store.decide(take([minted, cap]))).granted).toBe(0)
    // Nothing was written for it: it is new again, and those who are known go on.
    expect((await store.decide(take([minted, cap]))).granted).toBe(0)
    expect((await store.decide(take([known, cap]))).granted).toBe(1)
  })

  test('without a charge alongside it that distinguishes callers, it refuses nobody', async () => {
    const { store } = createSubject()
    const cap = newIdentities(1)
    for (let i = 0; i < 3; i++) expect((await store.decide(take([cap]))).granted).toBe(1)
  })

  test('one of several identities that is new is enough', async () => {
    const { store } = createSubject()
    const [known, cap] = [caller(), newIdentities(2)]
    await store.decide(take([known, caller(), cap]))
    await store.decide(take([known, caller(), cap]))
    expect((await store.decide(take([known, caller(), cap]))).granted).toBe(0)
  })
})
