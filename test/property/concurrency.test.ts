import fc from 'fast-check'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { type ConcurrencyState, concurrency, releaseSlot, renewSlot } from '../../src/limit/algorithms/concurrency.ts'
import { backAndForthUs, LONG, START_MS } from '../support/arbitraries.ts'
import { expectProperty } from '../support/property.ts'
import { ruleOf, take } from '../support/rules.ts'
import { connectRedis, type RedisClient, ScriptStore } from '../support/script-store.ts'

let redis: RedisClient

beforeAll(async () => {
  redis = await connectRedis(inject('redisPort'))
})
afterAll(() => redis.close())

interface Held {
  readonly slot: number
  readonly members: string[]
}

const anyTier = fc.record({ limit: fc.integer({ min: 1, max: 12 }), windowMs: fc.integer({ min: 1, max: 3_000 }) })
const anyAction = fc.record({
  gapUs: backAndForthUs,
  cost: fc.integer({ min: 1, max: 5 }),
  afterwards: fc.constantFrom('nothing', 'nothing', 'release', 'renew'),
  /** Of those that were admitted. */
  oneOf: fc.nat(),
})

test('never more than the limit are held, each until it is released or its deadline has passed', async () => {
  await expectProperty(
    fc.asyncProperty(anyTier, fc.array(anyAction, LONG), async (tier, actions) => {
      const { limit, windowMs } = tier
      const rule = ruleOf('concurrency', [tier])
      const script = new ScriptStore(redis)
      let state: ConcurrencyState | undefined
      const admitted: Held[] = []
      let nowUs = START_MS * 1000
      for (const { gapUs, cost, afterwards, oneOf } of actions) {
        nowUs += gapUs
        const nowMs = Math.floor(nowUs / 1000)
        if (script.expiresAtMs(rule.key) < nowMs) state = undefined
        const request = take([{ ...rule, cost }])
        const slot = request.rules[0]?.slot ?? Number.NaN
        const { available, usage } = concurrency.peek(state, rule, nowUs, cost)
        const granted = available >= cost ? 1 : 0
        const usageAfter = usage.map((tier) => ({ ...tier, remaining: tier.remaining - granted * cost }))
        expect(await script.decide(request, nowUs)).toEqual({ granted, nowMs, usage: [usageAfter] })
        if (granted > 0) {
          state = concurrency.commit(state, { ...rule, slot }, nowUs, cost).state
          expect(state.expiresAtMs).toBe(script.expiresAtMs(rule.key))
          admitted.push({ slot, members: Array.from({ length: cost }, (_, index) => `${slot}:${index + 1}`) })
        }
        expect(await redis.zCount(rule.key, `(${nowMs}`, '+inf')).toBeLessThanOrEqual(limit)

        const held = admitted[oneOf % admitted.length]
        if (!held || !state) continue
        if (afterwards === 'release') {
          await redis.zRem(rule.key, held.members)
          releaseSlot(state, held.slot)
        } else if (afterwards === 'renew') {
          const score = nowMs + windowMs
          const members = held.members.map((value) => ({ score, value }))
          await redis.zAdd(rule.key, members, { condition: 'XX' })
          const { ttlMs } = renewSlot(state, held.slot, nowMs, windowMs)
          if (ttlMs !== undefined) script.expireAt(rule.key, nowMs + ttlMs)
        }
      }
    }),
    100,
  )
})

test('a key outlasts every deadline, whatever clocks and windows did', async () => {
  const anyWindowMs = fc.oneof(fc.integer({ min: 1, max: 3_000 }), fc.integer({ min: 1, max: 600_000 }))
  const anyTaking = fc.record({ gapMs: fc.integer({ min: -100_000, max: 200_000 }), windowMs: anyWindowMs })
  await expectProperty(
    fc.asyncProperty(fc.array(anyTaking, LONG), async (takings) => {
      const limit = 1_000
      const { key } = ruleOf('concurrency', [{ limit, windowMs: 1 }])
      const script = new ScriptStore(redis)
      let nowMs = START_MS
      let latestMs = 0
      for (const { gapMs, windowMs } of takings) {
        nowMs += gapMs
        if (script.expiresAtMs(key) < nowMs) latestMs = 0
        await script.decide(take([ruleOf('concurrency', [{ limit, windowMs }], { key })]), nowMs * 1000)
        latestMs = Math.max(latestMs, nowMs + windowMs)
        expect(script.expiresAtMs(key)).toBeGreaterThanOrEqual(latestMs)
      }
    }),
    50,
  )
})
