import { describe, expect, test } from 'vitest'
import type { Decision, StoreCharge } from '../../src/model/charge.ts'
import type { PenaltySettings } from '../../src/model/limits.ts'
import { EVERY_ALGORITHM, ruleOf, take, unhurried } from '../support/rules.ts'
import { STORES } from '../support/stores.ts'

const WITHOUT_SLOTS = EVERY_ALGORITHM.filter((name) => name !== 'concurrency')
type Blockable = (typeof WITHOUT_SLOTS)[number]

const HOUR: PenaltySettings = { blockMs: 3_600_000, after: 1 }

function blocking(
  algorithm: Blockable,
  limit: number,
  block: PenaltySettings = HOUR,
  overrides: Partial<StoreCharge> = {},
): StoreCharge {
  return unhurried(algorithm, limit, { block, ...overrides })
}

/** What each rule says of its first tier: units left, whether it refuses, whether it is blocked. */
function states({ usage }: Decision): unknown[] {
  return usage.map(([tier]) => [tier?.remaining, (tier?.retryAfterMs ?? 0) > 0, tier?.blockedMs !== undefined])
}

// Together, because some of them wait.
describe.concurrent.each(Object.entries(STORES))('%s', (_name, createSubject) => {
  describe.each(WITHOUT_SLOTS)('%s', (algorithm) => {
    test('who is refused is blocked, even for what is left, until the very moment that was told', async () => {
      const { store, advance } = createSubject()
      const tryAgain = async () => {
        const rule = blocking(algorithm, 3, { blockMs: 300, after: 1 })
        await store.decide(take([{ ...rule, cost: 2 }]))
        const refused = await store.decide(take([{ ...rule, cost: 2 }]))
        return { rule, refused, again: await store.decide(take([rule])) }
      }
      let { rule, refused, again } = await tryAgain()
      // On a machine so slow that the block had ended before the third request, try again.
      while (again.nowMs >= refused.nowMs + 300) ({ rule, refused, again } = await tryAgain())

      expect([refused.granted, refused.usage[0]?.[0]?.remaining, refused.usage[0]?.[0]?.blockedMs]).toEqual([0, 1, 300])
      expect([again.granted, ...states(again)]).toEqual([0, [1, true, true]])
      const { retryAfterMs = 0, blockedMs } = again.usage[0]?.[0] ?? {}
      // It was not prolonged by being refused again.
      expect(again.nowMs + retryAfterMs).toBe(refused.nowMs + 300)
      expect(blockedMs).toBe(retryAfterMs)
      await advance(retryAfterMs)
      expect((await store.decide(take([rule]))).granted).toBe(1)
    })

    test('"after" refusals lead to a block, and what the rule would grant meanwhile is granted', async () => {
      const { store } = createSubject()
      const rule = blocking(algorithm, 5, { ...HOUR, after: 3 })
      const ask = async (cost: number) => {
        const decision = await store.decide(take([{ ...rule, cost }]))
        return [decision.granted, decision.usage[0]?.[0]?.blockedMs]
      }
      const seen = [await ask(3), await ask(3), await ask(1), await ask(3), await ask(3), await ask(1)]
      expect(seen.map(([granted]) => granted)).toEqual([1, 0, 1, 0, 0, 0])
      expect(seen.map(([, blockedMs]) => blockedMs !== undefined)).toEqual([false, false, false, false, true, true])
    })

    test('a peek shows a block, and neither leads to one nor counts', async () => {
      const { store } = createSubject()
      const rule = blocking(algorithm, 1)
      await store.decide(take([rule]))
      const peek = async () => states(await store.decide(take([rule], { mode: 'peek' })))
      expect([await peek(), await peek()]).toEqual([[[0, true, false]], [[0, true, false]]])
      await store.decide(take([rule]))
      expect(await peek()).toEqual([[0, true, true]])
    })

    test('forget() lifts a block', async () => {
      const { store } = createSubject()
      const rule = blocking(algorithm, 1)
      for (let i = 0; i < 3; i++) await store.decide(take([rule]))
      await store.forget([rule.key])
      expect((await store.decide(take([rule]))).granted).toBe(1)
    })

    test('a partial grant is no refusal, but nothing at all is one', async () => {
      const { store } = createSubject()
      const rule = blocking(algorithm, 3)
      const obtain = async () => {
        const decision = await store.decide(take([rule], { mode: 'partial', permits: 5 }))
        return [decision.granted, ...states(decision)]
      }
      expect(await obtain()).toEqual([3, [0, false, false]])
      expect(await obtain()).toEqual([0, [0, true, true]])
    })

    test('failures that reach their limit block at the next request, and are counted while it lasts', async () => {
      const { store } = createSubject()
      const rule = blocking(algorithm, 2, HOUR, { counts: 'failures' })
      const charge = () => store.decide(take([rule], { mode: 'charge' }))
      await charge()
      expect(states(await store.decide(take([rule])))).toEqual([[1, false, false]])
      await charge()
      expect(states(await store.decide(take([rule])))).toEqual([[0, true, true]])
      expect((await charge()).granted).toBe(1)
      const raised = { ...rule, tiers: rule.tiers.map((tier) => ({ ...tier, limit: 10 })) }
      const decision = await store.decide(take([{ ...raised, ...(rule.burst && { burst: 10 }) }]))
      expect([decision.granted, ...states(decision)]).toEqual([0, [7, true, true]])
    })
  })

  test('made-up identities block those that bring them, and not the identities that are known', async () => {
    const { store } = createSubject()
    const known = ruleOf('sliding-window', [{ limit: 9, windowMs: 60_000 }])
    const other = () => ruleOf('sliding-window', [{ limit: 9, windowMs: 60_000 }])
    const newcomers = blocking('sliding-window', 1, HOUR, { counts: 'identities' })
    expect((await store.decide(take([known, newcomers]))).granted).toBe(1)
    expect((await store.decide(take([other(), newcomers]))).usage[1]?.[0]?.blockedMs).toBe(HOUR.blockMs)
    const decision = await store.decide(take([known, newcomers]))
    expect([decision.granted, decision.usage[1]?.[0]?.blockedMs]).toEqual([1, undefined])
  })
})
