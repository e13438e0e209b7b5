import { describe, expect, inject, test } from 'vitest'
import { MemoryStore } from '../../src/store/memory-store.ts'
import { RedisStore } from '../../src/store/redis-store.ts'
import { joinScript } from '../../src/store/script.ts'
import type { DecisionRequest, Rule, Store, Tier } from '../../src/store/store.ts'

interface Subject {
  readonly store: Store
  /** Lets exactly this much time go by. */
  advance(ms: number): Promise<void>
}

const SUBJECTS: Record<string, () => Subject> = {
  MemoryStore() {
    let now = 1_700_000_000_000
    return {
      store: new MemoryStore(() => now),
      async advance(ms) {
        now += ms
      },
    }
  },
  'RedisStore with key locking': () => redisSubject(inject('redisRestUrl')),
  'RedisStore on plain Redis': () => redisSubject(inject('plainRestUrl')),
}

function redisSubject(url: string): Subject {
  const script = joinScript(new Set(['sliding-window']))
  return {
    store: new RedisStore({ url, token: inject('redisRestToken'), script, timeoutMs: 5_000 }),
    // Redis's clock is this machine's, and the wait begins after Redis has read it.
    advance: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
  }
}

function rule(tiers: readonly Tier[], overrides: Partial<Rule> = {}): Rule {
  return {
    key: `contract:${crypto.randomUUID()}`,
    algorithm: 'sliding-window',
    tiers,
    cost: 1,
    enforced: true,
    reserved: 0,
    ...overrides,
  }
}

function take(rules: readonly Rule[], overrides: Partial<DecisionRequest> = {}): DecisionRequest {
  return { mode: 'all', permits: 1, rules, ...overrides }
}

const MINUTE = 60_000

describe.each(Object.entries(SUBJECTS))('%s', (_name, createSubject) => {
  test('decide() admits up to the limit, then refuses until the very millisecond it gave', async () => {
    const { store, advance } = createSubject()
    const request = take([rule([{ limit: 2, windowMs: 300 }])])
    const first = await store.decide(request)
    expect(first).toMatchObject({ granted: 1, usage: [[{ remaining: 1, resetMs: 300, retryAfterMs: 0 }]] })
    await store.decide(request)
    const refused = await store.decide(request)
    expect(refused.granted).toBe(0)
    const [tier] = refused.usage[0] ?? []
    expect(tier?.remaining).toBe(0)
    expect(tier?.retryAfterMs).toBe(first.nowMs + 300 - refused.nowMs)
    await advance(tier?.retryAfterMs ?? Number.NaN)
    expect((await store.decide(request)).granted).toBe(1)
  })

  test('decide() holds every tier at once and says how each stands', async () => {
    const { store } = createSubject()
    const tiers = [
      { limit: 3, windowMs: MINUTE },
      { limit: 5, windowMs: 60 * MINUTE },
    ]
    const request = take([rule(tiers, { cost: 2 })])
    const { usage } = await store.decide(request)
    expect(usage[0]?.map(({ remaining }) => remaining)).toEqual([1, 3])
    const refused = await store.decide(request)
    expect(refused.granted).toBe(0)
    expect(refused.usage[0]?.map(({ remaining }) => remaining)).toEqual([1, 3])
    expect(refused.usage[0]?.map(({ retryAfterMs }) => retryAfterMs > 0)).toEqual([true, false])
  })

  test('decide() charges no rule if one refuses', async () => {
    const { store } = createSubject()
    const wide = rule([{ limit: 100, windowMs: MINUTE }])
    const narrow = rule([{ limit: 1, windowMs: MINUTE }])
    await store.decide(take([wide, narrow]))
    const refused = await store.decide(take([wide, narrow]))
    expect(refused.granted).toBe(0)
    const peek = await store.decide(take([wide], { mode: 'peek' }))
    expect(peek.usage[0]?.[0]?.remaining).toBe(99)
  })

  test('decide() keeps callers apart', async () => {
    const { store } = createSubject()
    const tiers = [{ limit: 1, windowMs: MINUTE }]
    expect((await store.decide(take([rule(tiers)]))).granted).toBe(1)
    expect((await store.decide(take([rule(tiers)]))).granted).toBe(1)
  })

  test('decide() grants in partial mode what every rule has left', async () => {
    const { store } = createSubject()
    const rules = [rule([{ limit: 10, windowMs: MINUTE }], { cost: 3 }), rule([{ limit: 10, windowMs: MINUTE }])]
    const decision = await store.decide(take(rules, { mode: 'partial', permits: 8 }))
    expect(decision.granted).toBe(3)
    expect(decision.usage.map(([tier]) => tier?.remaining)).toEqual([1, 7])
    const empty = await store.decide(take(rules, { mode: 'partial', permits: 8 }))
    expect(empty.granted).toBe(0)
    expect(empty.usage.map(([tier]) => (tier?.retryAfterMs ?? 0) > 0)).toEqual([true, false])
  })

  test('decide() in peek mode answers as if it were asked for, and charges nothing', async () => {
    const { store } = createSubject()
    const rules = [rule([{ limit: 1, windowMs: MINUTE }])]
    for (let i = 0; i < 3; i++) {
      const decision = await store.decide(take(rules, { mode: 'peek' }))
      expect(decision).toMatchObject({ granted: 1, usage: [[{ remaining: 1, resetMs: MINUTE, retryAfterMs: 0 }]] })
    }
    await store.decide(take(rules))
    expect((await store.decide(take(rules, { mode: 'peek' }))).granted).toBe(0)
  })

  test('decide() lets a shadow rule refuse nothing, and charges it only where it fits', async () => {
    const { store } = createSubject()
    const shadow = rule([{ limit: 1, windowMs: MINUTE }], { enforced: false })
    const enforced = rule([{ limit: 3, windowMs: MINUTE }])
    const remaining: unknown[] = []
    for (let i = 0; i < 4; i++) {
      const { granted, usage } = await store.decide(take([shadow, enforced]))
      remaining.push([granted, usage[0]?.[0]?.remaining, usage[1]?.[0]?.remaining])
    }
    expect(remaining).toEqual([
      [1, 0, 2],
      [1, 0, 1],
      [1, 0, 0],
      [0, 0, 0],
    ])
  })

  test('decide() tells when the asked cost fits, not merely one unit', async () => {
    const { store, advance } = createSubject()
    const caller = rule([{ limit: 4, windowMs: 400 }])
    for (let i = 0; i < 4; i++) {
      await store.decide(take([caller]))
      await advance(20)
    }
    const cheap = await store.decide(take([caller], { mode: 'peek' }))
    const dear = await store.decide(take([{ ...caller, cost: 3 }], { mode: 'peek' }))
    const wait = (decision: typeof cheap) => decision.nowMs + (decision.usage[0]?.[0]?.retryAfterMs ?? Number.NaN)
    expect(wait(dear) - wait(cheap)).toBeGreaterThanOrEqual(40)
  })

  test('ping() resolves', async () => {
    await expect(createSubject().store.ping()).resolves.toBeUndefined()
  })
})
