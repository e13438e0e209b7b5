import fc from 'fast-check'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import type { Rule } from '../../src/limit/rule.ts'
import { LUA } from '../../src/store/redis/more-lua.ts'
import { Scripts } from '../../src/store/redis/script.ts'
import { releaseArguments, renewArguments, scriptArguments, slotMembers } from '../../src/store/redis/script-call.ts'
import { START_MS } from '../support/arbitraries.ts'
import { expectProperty } from '../support/property.ts'
import { ruleOf, take } from '../support/rules.ts'
import { connectRedis, type RedisClient } from '../support/script-store.ts'

// A network that delays, reorders, repeats and loses what an isolate sends to Redis, and a Redis that is away at times.

let redis: RedisClient

beforeAll(async () => {
  redis = await connectRedis(inject('redisPort'))
})
afterAll(() => redis.close())

const ARGUMENT_CLOCK = 'return tonumber(ARGV[#ARGV])'
const SCRIPTS = new Scripts(LUA, ARGUMENT_CLOCK)
const DECIDE = SCRIPTS.decide(['concurrency'])
const RELEASE = SCRIPTS.release()
const RENEW = SCRIPTS.renew()

/** No slot of a test lasts so long by itself. */
const WINDOW_MS = 3_600_000
/** A call arrives within a minute of what overtook it, or never. */
const LONGEST_DELAY_MS = 59_000

const anyDelay = fc.oneof(fc.integer({ min: 0, max: 50 }), fc.integer({ min: 0, max: LONGEST_DELAY_MS }))
const anyRequest = fc.record({
  sentMs: fc.integer({ min: 0, max: 1_000 }),
  cost: fc.integer({ min: 1, max: 3 }),
  /** Undefined: the call is lost. */
  takeDelayMs: fc.option(anyDelay, { nil: undefined }),
  /** The isolate hears whether it got its slots. */
  isAnswered: fc.boolean(),
  heldMs: fc.integer({ min: 0, max: 500 }),
  renewals: fc.array(fc.record({ afterMs: fc.nat(500), delayMs: anyDelay }), { maxLength: 2 }),
  /** Sent in vain, lost or not, before the one that is answered. */
  repeats: fc.array(fc.option(anyDelay, { nil: undefined }), { maxLength: 3 }),
  releaseDelayMs: anyDelay,
  /** Never released: it is held to the end. */
  isHeld: fc.boolean(),
})

interface Arrival {
  readonly atMs: number
  run(nowMs: number): Promise<void>
}

test('whatever the order in which calls arrive, what is given back is free and what is held is taken', async () => {
  await expectProperty(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 8 }),
      fc.array(anyRequest, { maxLength: 10 }),
      async (limit, requests) => {
        const shared = ruleOf('concurrency', [{ limit, windowMs: WINDOW_MS }])
        const arrivals: Arrival[] = []
        const held = new Set<Rule>()
        const returned = new Set<Rule>()

        const call = async (script: string, args: readonly (string | number)[], nowMs: number) =>
          redis.eval(script, { keys: [shared.key], arguments: [...args, nowMs * 1000].map(String) })
        const takenBy = async (rule: Rule, nowMs: number) => {
          const deadlines = await redis.zmScore(rule.key, slotMembers(rule))
          return deadlines.filter((deadlineMs) => (deadlineMs ?? 0) > nowMs).length
        }

        for (const {
          sentMs,
          cost,
          takeDelayMs,
          isAnswered,
          heldMs,
          renewals,
          repeats,
          releaseDelayMs,
          isHeld,
        } of requests) {
          const request = take([{ ...shared, cost: Math.min(cost, limit) }])
          const rule = request.rules[0] as Rule
          const isKnown = isAnswered && takeDelayMs !== undefined
          const atMs = START_MS + sentMs + (takeDelayMs ?? 0)
          if (takeDelayMs !== undefined) {
            arrivals.push({
              atMs,
              async run(nowMs) {
                const [granted] = (await call(DECIDE, scriptArguments(request), nowMs)) as unknown as [number]
                if (isKnown && granted === 1) held.add(rule)
              },
            })
          }
          // Who was answered renews and gives back; who was not gives back at once, and may be ahead of the call itself.
          const releasedMs = isKnown ? atMs + heldMs : START_MS + sentMs
          if (isKnown) {
            for (const { afterMs, delayMs } of renewals) {
              if (afterMs > heldMs && !isHeld) continue
              const run = async (nowMs: number) => {
                await call(RENEW, renewArguments([rule]), nowMs)
              }
              arrivals.push({ atMs: atMs + afterMs + delayMs, run })
            }
            if (isHeld) continue
          }
          for (const delayMs of [...repeats, releaseDelayMs]) {
            if (delayMs === undefined) continue
            arrivals.push({
              atMs: releasedMs + delayMs,
              async run(nowMs) {
                held.delete(rule)
                returned.add(rule)
                await call(RELEASE, releaseArguments([{ rule, isKnown }]), nowMs)
              },
            })
          }
        }

        for (const { atMs, run } of arrivals.toSorted((a, b) => a.atMs - b.atMs)) {
          await run(atMs)
          for (const rule of held) expect(await takenBy(rule, atMs)).toBe(rule.cost)
          for (const rule of returned) expect(await takenBy(rule, atMs)).toBe(0)
          expect(await redis.zCount(shared.key, `(${atMs}`, '+inf')).toBeLessThanOrEqual(limit)
        }
        const units = [...held].reduce((sum, { cost }) => sum + cost, 0)
        const endMs = START_MS + 1_000_000
        expect(await redis.zCount(shared.key, `(${endMs}`, '+inf')).toBe(units)
      },
    ),
    60,
  )
})

test('marks of releases go when they have stood for a minute, and with the key', async () => {
  const rule = ruleOf('concurrency', [{ limit: 1, windowMs: 1_000 }])
  const revoke = (slot: number, nowMs: number) =>
    redis.eval(RELEASE, {
      keys: [rule.key],
      arguments: [...releaseArguments([{ rule: { ...rule, slot }, isKnown: false }]), nowMs * 1000].map(String),
    })
  for (let i = 0; i < 300; i++) await revoke(i, START_MS + i * 1_000)
  expect(await redis.zCard(rule.key)).toBe(60)
  expect(await redis.pTTL(rule.key)).toBeLessThanOrEqual(120_000)
  expect(await redis.pTTL(rule.key)).toBeGreaterThan(0)
})
