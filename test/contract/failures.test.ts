import { describe, expect, test } from 'vitest'
import type { Decision, Rule } from '../../src/limit/rule.ts'
import { EVERY_ALGORITHM, ruleOf, take } from '../support/rules.ts'
import { STORES } from '../support/stores.ts'

/** Such that no window of the clock ends, and nothing is refilled, in the time of a test: that of 1970 ends in 2033. */
const TIERS = { 'fixed-window': 2_000_000_000_000, 'token-bucket': 36_000_000, concurrency: 60_000 } as const
const WITHOUT_SLOTS = EVERY_ALGORITHM.filter((name) => name !== 'concurrency')

function failing(algorithm: (typeof WITHOUT_SLOTS)[number], limit: number, overrides: Partial<Rule> = {}): Rule {
  const windowMs = TIERS[algorithm as keyof typeof TIERS] ?? 60_000
  return ruleOf(algorithm, [{ limit, windowMs }], { counts: 'failures', ...overrides })
}

function left({ usage }: Decision): (number | undefined)[] {
  return usage.map(([tier]) => tier?.remaining)
}

describe.each(Object.entries(STORES))('%s', (_name, createSubject) => {
  describe.each(WITHOUT_SLOTS)('%s', (algorithm) => {
    test('failures are charged by "charge" alone, and refuse when they have reached the limit', async () => {
      const { store } = createSubject()
      const rule = failing(algorithm, 2)
      const charge = () => store.decide(take([rule], { mode: 'charge' }))
      for (let i = 0; i < 4; i++) expect(left(await store.decide(take([rule])))).toEqual([2])
      expect(left(await charge())).toEqual([1])
      expect(left(await store.decide(take([rule])))).toEqual([1])
      expect(left(await charge())).toEqual([0])
      const refused = await store.decide(take([rule]))
      expect([refused.granted, refused.usage[0]?.[0]?.remaining]).toEqual([0, 0])
      expect(refused.usage[0]?.[0]?.retryAfterMs).toBeGreaterThan(0)
    })

    test('a late failure counts beyond the limit', async () => {
      const { store } = createSubject()
      const rule = failing(algorithm, 2, { cost: 2 })
      for (let i = 0; i < 3; i++) {
        expect(await store.decide(take([rule], { mode: 'charge' }))).toMatchObject({ granted: 1 })
      }
      // By a raised limit, it shows how many there were.
      const raised = { ...rule, cost: 1, tiers: rule.tiers.map((tier) => ({ ...tier, limit: 10 })) }
      const { usage } = await store.decide(take([{ ...raised, ...(rule.burst && { burst: 10 }) }], { mode: 'peek' }))
      expect(usage[0]?.[0]?.remaining).toBe(4)
    })
  })

  test('a refusal for failures charges nothing, and one for something else no failure', async () => {
    const { store } = createSubject()
    const [failures, requests] = [failing('sliding-window', 1), ruleOf('quota', [{ limit: 2, windowMs: 60_000 }])]
    expect(left(await store.decide(take([failures, requests])))).toEqual([1, 1])
    await store.decide(take([failures], { mode: 'charge' }))
    expect((await store.decide(take([failures, requests]))).granted).toBe(0)
    expect(left(await store.decide(take([requests], { mode: 'peek' })))).toEqual([1])
  })

  test('whoever never failed is not a new identity by that', async () => {
    const { store } = createSubject()
    const known = ruleOf('sliding-window', [{ limit: 9, windowMs: 60_000 }])
    const newcomers = ruleOf('sliding-window', [{ limit: 1, windowMs: 60_000 }], { counts: 'identities' })
    const rules = [failing('sliding-window', 1), known, newcomers]
    for (const granted of [1, 1, 1]) expect((await store.decide(take(rules))).granted).toBe(granted)
  })

  test('a shadow rule is charged for failures too, and refuses nothing', async () => {
    const { store } = createSubject()
    const rule = failing('sliding-window', 1, { enforced: false })
    for (let i = 0; i < 2; i++) await store.decide(take([rule], { mode: 'charge' }))
    const { granted, usage } = await store.decide(take([rule]))
    expect(granted).toBe(1)
    expect(usage[0]?.[0]?.retryAfterMs).toBeGreaterThan(0)
  })

  test('"charge" leaves a rule for newcomers alone where there is none', async () => {
    const { store } = createSubject()
    const newcomers = ruleOf('sliding-window', [{ limit: 1, windowMs: 60_000 }], { counts: 'identities' })
    const rules = [failing('quota', 3), newcomers]
    expect(left(await store.decide(take(rules, { mode: 'charge' })))).toEqual([2, 1])
  })
})
