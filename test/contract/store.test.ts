import { describe, expect, test } from 'vitest'
import { ACTIONS, type Decision, type StoreCharge } from '../../src/core/model/charge.ts'
import { openCalendar } from '../../src/core/options/calendar.ts'
import { listNames } from '../../src/core/runtime/lists.ts'
import {
  createCharge,
  EVERY_ALGORITHM,
  retryAfterMs,
  TIERED_ALGORITHMS,
  take,
  unhurried,
  unhurriedMs,
} from '../support/charges.ts'
import { STORES } from '../support/stores.ts'

/** The length, 400 ms or somewhat more, of a window of the clock that began just now. */
function windowBegunNow(nowMs: number): number {
  const lengths = Array.from({ length: 800 }, (_, index) => 400 + index)
  return lengths.reduce((best, length) => (nowMs % length < nowMs % best ? length : best))
}

/** When the first of two units that used up a charge comes back, at the earliest and at the latest. */
function returnOfFirstMs({ algorithm, limits }: StoreCharge, spentMs: number): [earliest: number, latest: number] {
  const [{ windowMs } = { windowMs: Number.NaN }] = limits
  switch (algorithm) {
    case 'fixed-window': {
      const endMs = spentMs - (spentMs % windowMs) + windowMs
      return [endMs, endMs]
    }
    case 'token-bucket':
      // Redis tells the whole milliseconds of moments that it knows to the microsecond.
      return [spentMs + Math.floor(windowMs / 2), spentMs + Math.ceil(windowMs / 2) + 1]
    case 'sliding-window':
    case 'sorted-set':
      // Entries are dated by the end of their millisecond.
      return [spentMs + windowMs, spentMs + windowMs + 1]
    default:
      return [spentMs + windowMs, spentMs + windowMs]
  }
}

function remaining({ usage }: Decision): number[] {
  return usage.flat().map((limit) => limit.remaining)
}

// Together, because some of them wait.
describe.concurrent.each(Object.entries(STORES))('%s', (_name, createSubject) => {
  test.each(listNames(ACTIONS))('decide() does what the table says of %s', async (action) => {
    const { charges, mayRefuse, grantsPart } = ACTIONS[action]
    const { store } = createSubject()
    const charge = createCharge('sliding-window', [{ limit: 2, windowMs: 3_600_000 }])
    const { granted } = await store.decide(take([charge], { action, permits: 3 }))
    expect(granted).toBe(!mayRefuse ? 3 : grantsPart ? 2 : 0)
    await store.decide(take([charge], { action, permits: 1 }))
    const { usage } = await store.decide(take([charge], { action: 'peek' }))
    expect(usage[0]?.[0]?.remaining).toBe(!charges ? 2 : granted > 0 ? 0 : 1)
  })

  test('decide() refuses until the end of a month by its own clock, whatever that of the caller shows', async () => {
    const { store } = createSubject()
    const calendar = openCalendar('month', 'Europe/Berlin', 15)
    const { findEnds } = openCalendar('month', 'Europe/Berlin', 15)
    for (const skewDays of [-27, 0, 27]) {
      const skewed = { ...calendar, findEnds: (nowMs: number) => calendar.findEnds(nowMs + skewDays * 86_400_000) }
      const charge = createCharge('quota', [{ limit: 2, windowMs: 2_682_000_000, calendar: skewed }])
      const admitted = await store.decide(take([charge], { action: 'take-up-to', permits: 9 }))
      expect(admitted.granted).toBe(2)
      const refused = await store.decide(take([charge]))
      expect([refused.granted, refused.nowMs + retryAfterMs(refused)]).toEqual([0, findEnds(admitted.nowMs)[1]])
    }
  })

  describe.each(EVERY_ALGORITHM)('%s', (algorithm) => {
    test('decide() admits up to the limit, then refuses until the very moment it gave', async () => {
      const { store, advance } = createSubject()
      const trySpending = async () => {
        const { nowMs } = await store.decide(take([unhurried(algorithm, 1)], { action: 'peek' }))
        const charge = createCharge(algorithm, [{ limit: 2, windowMs: windowBegunNow(nowMs) }])
        const decisions = [await store.decide(take([charge])), await store.decide(take([charge]))] as const
        return { charge, decisions, refused: await store.decide(take([charge])) }
      }
      let { charge, decisions, refused } = await trySpending()
      const returns = () => returnOfFirstMs(charge, decisions[0].nowMs)
      // On a machine so slow that a unit was back before the third request, try again.
      while (refused.nowMs >= returns()[0]) ({ charge, decisions, refused } = await trySpending())

      const seen = [...decisions, refused].map((decision) => [decision.granted, ...remaining(decision)])
      expect(seen).toEqual([
        [1, 1],
        [1, 0],
        [0, 0],
      ])
      const againMs = refused.nowMs + retryAfterMs(refused)
      expect(againMs).toBeGreaterThanOrEqual(returns()[0])
      expect(againMs).toBeLessThanOrEqual(returns()[1])
      await advance(retryAfterMs(refused))
      expect((await store.decide(take([charge]))).granted).toBe(1)
    })

    test('decide() says how long an unused charge would take to give more', async () => {
      const { store } = createSubject()
      const charge = unhurried(algorithm, 7)
      const { nowMs, usage } = await store.decide(take([charge], { action: 'peek' }))
      const windowMs = unhurriedMs(algorithm)
      const resetMs =
        {
          'fixed-window': windowMs - (nowMs % windowMs),
          'token-bucket': Math.ceil(windowMs / 7),
        }[algorithm as string] ?? windowMs
      expect(usage).toEqual([[{ remaining: 7, resetMs, retryAfterMs: 0 }]])
    })

    test('decide() keeps callers apart', async () => {
      const { store } = createSubject()
      expect((await store.decide(take([unhurried(algorithm, 1)]))).granted).toBe(1)
      expect((await store.decide(take([unhurried(algorithm, 1)]))).granted).toBe(1)
    })

    test('decide() grants in partial mode what every charge has left', async () => {
      const { store } = createSubject()
      const charges = [unhurried(algorithm, 10, { cost: 3 }), unhurried(algorithm, 10)]
      const decision = await store.decide(take(charges, { action: 'take-up-to', permits: 8 }))
      expect([decision.granted, ...remaining(decision)]).toEqual([3, 1, 7])
      const empty = await store.decide(take(charges, { action: 'take-up-to', permits: 8 }))
      expect(empty.granted).toBe(0)
      expect(empty.usage.map(([limit]) => (limit?.retryAfterMs ?? 0) > 0)).toEqual([true, false])
    })

    test('decide() in peek mode answers as a decision would, and charges nothing', async () => {
      const { store } = createSubject()
      const charges = [unhurried(algorithm, 1)]
      for (let i = 0; i < 3; i++) {
        const decision = await store.decide(take(charges, { action: 'peek' }))
        expect([decision.granted, ...remaining(decision), retryAfterMs(decision)]).toEqual([1, 1, 0])
      }
      await store.decide(take(charges))
      expect((await store.decide(take(charges, { action: 'peek' }))).granted).toBe(0)
    })

    test('decide() lets a shadow charge refuse nothing, and charges it only where it fits', async () => {
      const { store } = createSubject()
      const charges = [unhurried(algorithm, 1, { mode: 'shadow' }), unhurried(algorithm, 3)]
      const seen: number[][] = []
      for (let i = 0; i < 4; i++) {
        const decision = await store.decide(take(charges))
        seen.push([decision.granted, ...remaining(decision)])
      }
      expect(seen).toEqual([
        [1, 0, 2],
        [1, 0, 1],
        [1, 0, 0],
        [0, 0, 0],
      ])
    })

    test('decide() reports how long a cost that never fits would have to wait: a window', async () => {
      const { store } = createSubject()
      const decision = await store.decide(take([unhurried(algorithm, 3, { cost: 4 })]))
      expect([decision.granted, retryAfterMs(decision)]).toEqual([0, unhurriedMs(algorithm)])
    })
  })

  test.each(TIERED_ALGORITHMS)(
    'decide() holds every limit of %s at once and says how each stands',
    async (algorithm) => {
      const { store } = createSubject()
      const windowMs = unhurriedMs(algorithm)
      const limits = [
        { limit: 3, windowMs },
        { limit: 5, windowMs: 2 * windowMs },
      ]
      const charge = createCharge(algorithm, limits, { cost: 2 })
      expect(remaining(await store.decide(take([charge])))).toEqual([1, 3])
      const refused = await store.decide(take([charge]))
      expect([refused.granted, ...remaining(refused)]).toEqual([0, 1, 3])
      expect(refused.usage[0]?.map((limit) => limit.retryAfterMs > 0)).toEqual([true, false])
    },
  )

  test('decide() charges every charge of several algorithms, or none', async () => {
    const { store } = createSubject()
    const charges = EVERY_ALGORITHM.map((algorithm, index) => unhurried(algorithm, 3 + index))
    const left = (spent: number) => charges.map((_, index) => 3 + index - spent)
    for (const spent of [1, 2, 3]) {
      const decision = await store.decide(take(charges))
      expect([decision.granted, ...remaining(decision)]).toEqual([1, ...left(spent)])
    }
    const refused = await store.decide(take(charges))
    expect([refused.granted, ...remaining(refused)]).toEqual([0, ...left(3)])
    const others = await store.decide(take(charges.slice(1), { action: 'take-up-to', permits: 100 }))
    expect([others.granted, ...remaining(others)]).toEqual([1, ...left(4).slice(1)])
  })

  test('ping() resolves', async () => {
    await expect(createSubject().store.ping()).resolves.toBeUndefined()
  })
})
