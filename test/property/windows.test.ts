import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { Rule } from '../../src/store/store.ts'
import { type Admission, expectNoWindowOver } from '../support/admissions.ts'
import { anyCost, anyRule, backAndForthUs, forwardUs, LONG, START_MS } from '../support/arbitraries.ts'
import { expectProperty } from '../support/property.ts'
import { EXACT_ALGORITHMS, ruleOf, take } from '../support/rules.ts'
import { connectRedis, type RedisClient, ScriptStore } from '../support/script-store.ts'

let redis: RedisClient

beforeAll(async () => {
  redis = await connectRedis(inject('redisPort'))
})
afterAll(() => redis.close())

interface Step {
  readonly gapUs: number
  readonly cost: number
}

/**
 * What of these requests was admitted, and when, by a clock of its own on which a step back of Redis's clock takes no
 * time.
 */
async function admittedBy(rule: Rule, steps: readonly Step[]): Promise<Admission[]> {
  const script = new ScriptStore(redis)
  const admitted: Admission[] = []
  let nowUs = START_MS * 1000
  let elapsedUs = nowUs
  for (const { gapUs, cost } of steps) {
    nowUs += gapUs
    elapsedUs += Math.max(gapUs, 0)
    const { granted } = await script.decide(take([{ ...rule, cost }]), nowUs)
    if (granted > 0) admitted.push({ ms: Math.floor(elapsedUs / 1000), cost })
  }
  return admitted
}

function stepsOf(gapUs: fc.Arbitrary<number>): fc.Arbitrary<Step[]> {
  return fc.array(fc.record({ gapUs, cost: anyCost }), LONG)
}

/** Steps of whole milliseconds: with parts of them, the clock that these laws go by and Redis's would round apart. */
const backAndForth = stepsOf(backAndForthUs.map((us) => Math.trunc(us / 1000) * 1000))
const forward = stepsOf(forwardUs)

describe.each(EXACT_ALGORITHMS)('%s', (name) => {
  test('no true window ever admits more than its limit', async () => {
    await expectProperty(
      fc.asyncProperty(anyRule(name), forward, async (rule, steps) => {
        const admitted = await admittedBy(rule, steps)
        for (const { limit, windowMs } of rule.tiers) expectNoWindowOver(limit, windowMs, admitted)
      }),
      60,
    )
  })

  test('a clock that steps back makes it stricter, never looser', async () => {
    await expectProperty(
      fc.asyncProperty(anyRule(name), backAndForth, async (rule, steps) => {
        const admitted = await admittedBy(rule, steps)
        for (const { limit, windowMs } of rule.tiers) expectNoWindowOver(limit, windowMs, admitted)
      }),
      60,
    )
  })
})

test('fixed-window: no window of the clock admits more than its limit', async () => {
  await expectProperty(
    fc.asyncProperty(anyRule('fixed-window'), forward, async (rule, steps) => {
      const admitted = await admittedBy(rule, steps)
      for (const { limit, windowMs } of rule.tiers) {
        const windows = Map.groupBy(admitted, ({ ms }) => Math.floor(ms / windowMs))
        for (const inWindow of windows.values()) {
          expect(inWindow.reduce((sum, { cost }) => sum + cost, 0)).toBeLessThanOrEqual(limit)
        }
      }
    }),
    60,
  )
})

test('quota: no window that began at its first use admits more than its limit', async () => {
  await expectProperty(
    fc.asyncProperty(anyRule('quota'), forward, async (rule, steps) => {
      const admitted = await admittedBy(rule, steps)
      for (const { limit, windowMs } of rule.tiers) {
        let endMs = Number.NEGATIVE_INFINITY
        let used = 0
        for (const { ms, cost } of admitted) {
          if (ms >= endMs) {
            endMs = ms + windowMs
            used = 0
          }
          used += cost
          expect(used).toBeLessThanOrEqual(limit)
        }
      }
    }),
    60,
  )
})

test.each(['fixed-window', 'quota'] as const)(
  '%s: no true window admits more than twice its limit, also if the clock steps back',
  async (name) => {
    await expectProperty(
      fc.asyncProperty(anyRule(name), backAndForth, async (rule, steps) => {
        const admitted = await admittedBy(rule, steps)
        for (const { limit, windowMs } of rule.tiers) expectNoWindowOver(2 * limit, windowMs, admitted)
      }),
      60,
    )
  },
)

test('fixed-window admits twice its limit across a boundary, where sliding-window does not', async () => {
  const tiers = [{ limit: 10, windowMs: 60_000 }]
  const boundaryUs = Math.ceil(START_MS / 60_000) * 60_000 * 1000
  // Twenty requests in the last 10 ms of one minute, and twenty in the first 10 ms of the next.
  const timesUs = Array.from({ length: 40 }, (_, index) => boundaryUs + (index - 20) * 500)
  const admitted = async (rule: Rule) => {
    const script = new ScriptStore(redis)
    const grants: number[] = []
    for (const nowUs of timesUs) grants.push((await script.decide(take([rule]), nowUs)).granted)
    return [grants.slice(0, 20), grants.slice(20)].map((half) => half.reduce((sum, granted) => sum + granted, 0))
  }
  expect(await admitted(ruleOf('fixed-window', tiers))).toEqual([10, 10])
  expect(await admitted(ruleOf('sliding-window', tiers))).toEqual([10, 0])
})

test('fixed-window: a clock that steps back over a boundary finds the window before it as it was', async () => {
  const script = new ScriptStore(redis)
  const rule = ruleOf('fixed-window', [{ limit: 1, windowMs: 60_000 }])
  const boundaryUs = Math.ceil(START_MS / 60_000) * 60_000 * 1000
  expect((await script.decide(take([rule]), boundaryUs - 1_000)).granted).toBe(1)
  expect((await script.decide(take([rule], { mode: 'peek' }), boundaryUs)).granted).toBe(1)
  expect((await script.decide(take([rule]), boundaryUs - 1_000)).granted).toBe(0)
})
