import { expect, test } from 'vitest'
import { countUnitsPerSecond, findFullestLimit, isAtLimit, isIdle, type Look } from '../../src/command/top/activity.ts'
import type { RequestPolicy } from '../../src/core/model/policy.ts'
import { readCalendarLimits } from '../../src/core/options/calendar.ts'
import type { LimitUsage } from '../../src/gateway/callers/caller-charges.ts'
import { loadConfig } from '../../src/http/config/load-config.ts'

function createPolicy(table: Readonly<Record<string, unknown>>): RequestPolicy {
  const env = { UPSTREAM_URL: 'https://api.example', POLICIES: [{ name: 'p', ...table }] }
  return loadConfig(env, { readCalendarLimits }).policies[0] as RequestPolicy
}

function findLook(
  nowMs: number,
  ...limits: readonly (readonly [limit: number, windowMs: number, used: number, resetMs: number])[]
) {
  const states = limits.map(
    ([limit, windowMs, used, resetMs]): LimitUsage => ({
      ...{ policy: 'p', name: `p-${windowMs}`, route: null, key: 'k', limit, windowMs, used, remaining: limit - used },
      ...{ plan: null, resetMs, retryAfterMs: used >= limit ? resetMs : 0, penaltyUntilMs: null },
      ...{ assumed: false, unlimited: false, shadow: false, shared: false },
    }),
  )
  return { nowMs, limits: states } satisfies Look
}

test('countUnitsPerSecond() goes by the shortest window of ten seconds or more, else by the longest', () => {
  const policy = createPolicy({ limits: '10/1s, 120/1m, 5000/1h' })
  const look = findLook(0, [10, 1_000, 9, 900], [120, 60_000, 30, 100], [5_000, 3_600_000, 4_000, 100])
  expect(countUnitsPerSecond(policy, look, undefined)).toBe(0.5)
  expect(countUnitsPerSecond(createPolicy({ limits: '10/1s' }), findLook(0, [10, 1_000, 9, 900]), undefined)).toBe(9)
})

test('countUnitsPerSecond() of a counter goes by the time since its window has begun', () => {
  const policy = createPolicy({ limits: '600/1m', algorithm: 'fixed-window' })
  expect(countUnitsPerSecond(policy, findLook(0, [600, 60_000, 100, 50_000]), undefined)).toBe(10)
  // Of a window that has begun just now, no more than its units in a second.
  expect(countUnitsPerSecond(policy, findLook(0, [600, 60_000, 100, 60_000]), undefined)).toBe(100)
})

test('countUnitsPerSecond() of a quota by the calendar goes by the time since the month has begun', () => {
  const policy = createPolicy({ limits: '9000/month', algorithm: 'quota' })
  const nowMs = Date.UTC(2026, 1, 1, 0, 1)
  const { limits } = findLook(nowMs, [9_000, policy.limits[0]?.windowMs ?? 0, 120, Date.UTC(2026, 2) - nowMs])
  const look = { nowMs, limits: limits.map((limit) => ({ ...limit, name: 'p-month' })) }
  expect(countUnitsPerSecond(policy, look, undefined)).toBe(2)
})

test('countUnitsPerSecond() of a bucket is what went between two looks, refilled units included', () => {
  const policy = createPolicy({ limits: '60/1m', algorithm: 'token-bucket', burst: 10 })
  const full = findLook(1_000, [10, 60_000, 0, 0])
  const later = findLook(3_000, [10, 60_000, 6, 1_000])
  expect(countUnitsPerSecond(policy, later, undefined)).toBeUndefined()
  expect(countUnitsPerSecond(policy, later, full)).toBe(4)
  // At its limit, it spends what comes in.
  const empty = [findLook(0, [10, 60_000, 10, 1]), findLook(5_000, [10, 60_000, 10, 1])] as const
  expect(countUnitsPerSecond(policy, empty[1], empty[0])).toBe(1)
  expect(countUnitsPerSecond(policy, findLook(60_000, [10, 60_000, 0, 0]), later)).toBe(0)
})

test('countUnitsPerSecond() reports nothing of slots, which are held and not used up', () => {
  const policy = createPolicy({ limits: '3', algorithm: 'concurrency' })
  expect(countUnitsPerSecond(policy, findLook(1, [3, 60_000, 2, 0]), findLook(0, [3, 60_000, 0, 0]))).toBeUndefined()
})

test('a look reports whether a caller is at a limit, is idle, and which limit is the fullest', () => {
  const look = findLook(0, [10, 1_000, 2, 900], [120, 60_000, 120, 100])
  expect([isAtLimit(look), isIdle(look), findFullestLimit(look).name]).toEqual([true, false, 'p-60000'])
  expect([isAtLimit(findLook(0, [10, 1_000, 9, 1])), isIdle(findLook(0, [10, 1_000, 0, 0]))]).toEqual([false, true])
})
