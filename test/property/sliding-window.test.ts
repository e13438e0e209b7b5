import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { MemoryStore } from '../../src/store/memory-store.ts'
import type { DecisionRequest, Rule, Tier } from '../../src/store/store.ts'
import { connectRedis, type RedisClient, ScriptStore } from '../support/script-store.ts'

let redis: RedisClient

beforeAll(async () => {
  redis = await connectRedis(inject('redisPort'))
})
afterAll(() => redis.close())

const START_MS = 1_700_000_000_000

const tiers: fc.Arbitrary<Tier[]> = fc.uniqueArray(
  fc.record({ limit: fc.integer({ min: 1, max: 200 }), windowMs: fc.integer({ min: 1, max: 3_000 }) }),
  { minLength: 1, maxLength: 3, selector: ({ windowMs }) => windowMs },
)
const cost = fc.oneof(fc.constant(1), fc.constant(1), fc.integer({ min: 1, max: 60 }))
/** Long enough for streams that no single read covers. */
const LONG = { maxLength: 150, size: 'max' } as const
const forward = fc.oneof(
  fc.constant(0),
  fc.integer({ min: 0, max: 5 }),
  fc.integer({ min: 0, max: 50 }),
  fc.integer({ min: 0, max: 2_000 }),
)
const backAndForth = fc.oneof(forward, fc.integer({ min: -1_500, max: 1_500 }))

function ruleOf(tiers: readonly Tier[], overrides: Partial<Rule> = {}): Rule {
  return {
    key: `property:${randomUUID()}`,
    algorithm: 'sliding-window',
    tiers,
    cost: 1,
    enforced: true,
    reserved: 0,
    ...overrides,
  }
}

function all(rule: Rule, cost: number): DecisionRequest {
  return { mode: 'all', permits: 1, rules: [{ ...rule, cost }] }
}

interface Admission {
  readonly ms: number
  readonly cost: number
}

function expectNoWindowOverLimit(tiers: readonly Tier[], admitted: readonly Admission[]): void {
  for (const { limit, windowMs } of tiers) {
    for (const end of admitted) {
      const inWindow = admitted.filter(({ ms }) => ms > end.ms - windowMs && ms <= end.ms)
      expect(inWindow.reduce((sum, { cost }) => sum + cost, 0)).toBeLessThanOrEqual(limit)
    }
  }
}

test('sliding-window: the Lua and its TypeScript twin agree on every step', async () => {
  const action = fc.record({
    gapMs: backAndForth,
    mode: fc.constantFrom('all', 'all', 'partial', 'peek'),
    permits: fc.integer({ min: 1, max: 5 }),
    costs: fc.tuple(cost, cost),
    enforced: fc.tuple(fc.boolean(), fc.boolean()),
    both: fc.boolean(),
  })
  await fc.assert(
    fc.asyncProperty(fc.tuple(tiers, tiers), fc.array(action, LONG), async (tiers, actions) => {
      let nowMs = START_MS
      const script = new ScriptStore(redis)
      const twin = new MemoryStore(() => nowMs)
      const [first, second] = [ruleOf(tiers[0]), ruleOf(tiers[1])]
      for (const { gapMs, mode, permits, costs, enforced, both } of actions) {
        nowMs += gapMs
        const rules = [{ ...first, cost: costs[0], enforced: enforced[0] }]
        if (both) rules.push({ ...second, cost: costs[1], enforced: enforced[1] })
        const request = { mode, permits, rules } as const
        expect(await script.decide(request, nowMs * 1000)).toEqual(await twin.decide(request))
      }
    }),
    { numRuns: 100 },
  )
})

test('sliding-window: no true window ever admits more than its limit', async () => {
  await fc.assert(
    fc.asyncProperty(tiers, fc.array(fc.record({ gapMs: forward, cost }), LONG), async (tiers, steps) => {
      const script = new ScriptStore(redis)
      const rule = ruleOf(tiers)
      const admitted: Admission[] = []
      let nowMs = START_MS
      for (const { gapMs, cost } of steps) {
        nowMs += gapMs
        const { granted } = await script.decide(all(rule, cost), nowMs * 1000)
        if (granted > 0) admitted.push({ ms: nowMs, cost })
      }
      expectNoWindowOverLimit(tiers, admitted)
    }),
    { numRuns: 100 },
  )
})

test('sliding-window: a clock that steps back makes it stricter, never looser', async () => {
  await fc.assert(
    fc.asyncProperty(tiers, fc.array(fc.record({ gapMs: backAndForth, cost }), LONG), async (tiers, steps) => {
      const script = new ScriptStore(redis)
      const rule = ruleOf(tiers)
      const admitted: Admission[] = []
      let nowMs = START_MS
      let elapsedMs = 0
      for (const { gapMs, cost } of steps) {
        nowMs += gapMs
        // A step back is the clock's alone: no time goes by.
        elapsedMs += Math.max(gapMs, 0)
        const { granted } = await script.decide(all(rule, cost), nowMs * 1000)
        if (granted > 0) admitted.push({ ms: elapsedMs, cost })
      }
      expectNoWindowOverLimit(tiers, admitted)
    }),
    { numRuns: 100 },
  )
})

test('sliding-window: the retry time is the least that works', async () => {
  await fc.assert(
    fc.asyncProperty(tiers, fc.array(fc.record({ gapMs: backAndForth, cost }), LONG), async (tiers, steps) => {
      const script = new ScriptStore(redis)
      const rule = ruleOf(tiers)
      const smallest = Math.min(...tiers.map(({ limit }) => limit))
      let nowMs = START_MS
      for (const step of steps) {
        nowMs += step.gapMs
        const cost = Math.min(step.cost, smallest)
        const { granted, usage } = await script.decide(all(rule, cost), nowMs * 1000)
        const retryAfterMs = Math.max(...(usage[0] ?? []).map((tier) => tier.retryAfterMs))
        expect(retryAfterMs > 0).toBe(granted === 0)
        if (granted > 0) continue
        const peekAt = (ms: number) => script.decide({ ...all(rule, cost), mode: 'peek' }, ms * 1000)
        expect((await peekAt(nowMs + retryAfterMs)).granted).toBe(1)
        expect((await peekAt(nowMs + retryAfterMs - 1)).granted).toBe(0)
      }
    }),
    { numRuns: 100 },
  )
})

test('sliding-window: a refusal changes nothing', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.tuple(tiers, tiers),
      fc.array(fc.record({ gapMs: forward, cost }), LONG),
      async (tiers, steps) => {
        const script = new ScriptStore(redis)
        const rules = [ruleOf(tiers[0]), ruleOf(tiers[1])]
        const dump = () => Promise.all(rules.map(({ key }) => redis.dump(key)))
        const expiry = () => rules.map(({ key }) => script.expiresAtMs(key))
        let nowMs = START_MS
        for (const { gapMs, cost } of steps) {
          nowMs += gapMs
          const request = { mode: 'all', permits: 1, rules: rules.map((rule) => ({ ...rule, cost })) } as const
          // What expires at this moment has nothing to do with the refusal.
          await script.decide({ ...request, mode: 'peek' }, nowMs * 1000)
          const before = { dump: await dump(), expiry: expiry() }
          const { granted } = await script.decide(request, nowMs * 1000)
          if (granted === 0) expect({ dump: await dump(), expiry: expiry() }).toEqual(before)
        }
      },
    ),
    { numRuns: 100 },
  )
})

test('sliding-window: after an admission the TTL lies between one and three of the longest windows', async () => {
  const action = fc.record({ gapMs: forward, cost, isAltered: fc.boolean() })
  await fc.assert(
    fc.asyncProperty(fc.tuple(tiers, tiers), fc.array(action, LONG), async ([tiers, altered], actions) => {
      const script = new ScriptStore(redis)
      const rule = ruleOf(tiers)
      let nowMs = START_MS
      for (const { gapMs, cost, isAltered } of actions) {
        nowMs += gapMs
        // A policy's windows may change between two requests: the next admission must care for the new ones.
        const current = { ...rule, tiers: isAltered ? altered : tiers }
        const { granted } = await script.decide(all(current, cost), nowMs * 1000)
        if (granted === 0) continue
        const ttlMs = script.expiresAtMs(rule.key) - nowMs
        const longestMs = Math.max(...current.tiers.map(({ windowMs }) => windowMs))
        expect(ttlMs).toBeGreaterThanOrEqual(longestMs)
        expect(ttlMs).toBeLessThanOrEqual(Math.ceil((3 * longestMs) / 1000) * 1000)
      }
    }),
    { numRuns: 100 },
  )
})
