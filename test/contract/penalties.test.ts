import { describe, expect, test } from 'vitest'
import type { Decision, StoreCharge } from '../../src/core/model/charge.ts'
import type { PenaltySettings } from '../../src/core/model/limits.ts'
import { createCharge, EVERY_ALGORITHM, take, unhurried } from '../support/charges.ts'
import { STORES } from '../support/stores.ts'

const WITHOUT_SLOTS = EVERY_ALGORITHM.filter((name) => name !== 'concurrency')
type Penalizable = (typeof WITHOUT_SLOTS)[number]

const HOUR: PenaltySettings = { durationMs: 3_600_000, after: 1 }

function withPenalty(
  algorithm: Penalizable,
  limit: number,
  penalty: PenaltySettings = HOUR,
  overrides: Partial<StoreCharge> = {},
): StoreCharge {
  return unhurried(algorithm, limit, { penalty, ...overrides })
}

/** Reads the first limit of each charge: remaining units, whether it refuses, whether there is a penalty. */
function states({ usage }: Decision): unknown[] {
  return usage.map(([limit]) => [limit?.remaining, (limit?.retryAfterMs ?? 0) > 0, limit?.penaltyMs !== undefined])
}

// Together, because some of them wait.
describe.concurrent.each(Object.entries(STORES))('%s', (_name, createSubject) => {
  describe.each(WITHOUT_SLOTS)('%s', (algorithm) => {
    test('a refused caller has a penalty, even for what is left, until the very moment that the refusal says', async () => {
      const { store, advance } = createSubject()
      const tryAgain = async () => {
        const charge = withPenalty(algorithm, 3, { durationMs: 300, after: 1 })
        await store.decide(take([{ ...charge, cost: 2 }]))
        const refused = await store.decide(take([{ ...charge, cost: 2 }]))
        return { charge, refused, again: await store.decide(take([charge])) }
      }
      let { charge, refused, again } = await tryAgain()
      // On a machine so slow that the penalty had ended before the third request, try again.
      while (again.nowMs >= refused.nowMs + 300) ({ charge, refused, again } = await tryAgain())

      expect([refused.granted, refused.usage[0]?.[0]?.remaining, refused.usage[0]?.[0]?.penaltyMs]).toEqual([0, 1, 300])
      expect([again.granted, ...states(again)]).toEqual([0, [1, true, true]])
      const { retryAfterMs = 0, penaltyMs } = again.usage[0]?.[0] ?? {}
      // It was not prolonged by being refused again.
      expect(again.nowMs + retryAfterMs).toBe(refused.nowMs + 300)
      expect(penaltyMs).toBe(retryAfterMs)
      await advance(retryAfterMs)
      expect((await store.decide(take([charge]))).granted).toBe(1)
    })

    test('as many refusals as said lead to a penalty, and what the charge would grant meanwhile is granted', async () => {
      const { store } = createSubject()
      const charge = withPenalty(algorithm, 5, { ...HOUR, after: 3 })
      const ask = async (cost: number) => {
        const decision = await store.decide(take([{ ...charge, cost }]))
        return [decision.granted, decision.usage[0]?.[0]?.penaltyMs]
      }
      const seen = [await ask(3), await ask(3), await ask(1), await ask(3), await ask(3), await ask(1)]
      expect(seen.map(([granted]) => granted)).toEqual([1, 0, 1, 0, 0, 0])
      expect(seen.map(([, penaltyMs]) => penaltyMs !== undefined)).toEqual([false, false, false, false, true, true])
    })

    test('a peek shows a penalty, and neither leads to one nor counts', async () => {
      const { store } = createSubject()
      const charge = withPenalty(algorithm, 1)
      await store.decide(take([charge]))
      const peek = async () => states(await store.decide(take([charge], { action: 'peek' })))
      expect([await peek(), await peek()]).toEqual([[[0, true, false]], [[0, true, false]]])
      await store.decide(take([charge]))
      expect(await peek()).toEqual([[0, true, true]])
    })

    test('delete() ends a penalty', async () => {
      const { store } = createSubject()
      const charge = withPenalty(algorithm, 1)
      for (let i = 0; i < 3; i++) await store.decide(take([charge]))
      await store.delete([charge.key])
      expect((await store.decide(take([charge]))).granted).toBe(1)
    })

    test('a partial grant is no refusal, but nothing at all is one', async () => {
      const { store } = createSubject()
      const charge = withPenalty(algorithm, 3)
      const obtain = async () => {
        const decision = await store.decide(take([charge], { action: 'take-up-to', permits: 5 }))
        return [decision.granted, ...states(decision)]
      }
      expect(await obtain()).toEqual([3, [0, false, false]])
      expect(await obtain()).toEqual([0, [0, true, true]])
    })

    test('failures that reach their limit lead to a penalty at the next request, and are counted while it lasts', async () => {
      const { store } = createSubject()
      const charge = withPenalty(algorithm, 2, HOUR, { counts: 'failures' })
      const record = () => store.decide(take([charge], { action: 'record' }))
      await record()
      expect(states(await store.decide(take([charge])))).toEqual([[1, false, false]])
      await record()
      expect(states(await store.decide(take([charge])))).toEqual([[0, true, true]])
      expect((await record()).granted).toBe(1)
      const raised = { ...charge, limits: charge.limits.map((limit) => ({ ...limit, limit: 10 })) }
      const decision = await store.decide(take([{ ...raised, ...(charge.burst && { burst: 10 }) }]))
      expect([decision.granted, ...states(decision)]).toEqual([0, [7, true, true]])
    })
  })

  test('made-up identities lead to a penalty for those that bring them, and not for the identities that are known', async () => {
    const { store } = createSubject()
    const known = createCharge('sliding-window', [{ limit: 9, windowMs: 60_000 }])
    const other = () => createCharge('sliding-window', [{ limit: 9, windowMs: 60_000 }])
    const newIdentities = withPenalty('sliding-window', 1, HOUR, { counts: 'new-identities' })
    expect((await store.decide(take([known, newIdentities]))).granted).toBe(1)
    expect((await store.decide(take([other(), newIdentities]))).usage[1]?.[0]?.penaltyMs).toBe(HOUR.durationMs)
    const decision = await store.decide(take([known, newIdentities]))
    expect([decision.granted, decision.usage[1]?.[0]?.penaltyMs]).toEqual([1, undefined])
  })
})
