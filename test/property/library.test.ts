/**
 * Laws of the library, in memory, at a time of the test's choosing; those of the counter in Redis, too.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Store } from '../../src/core/model/store.ts'
import {
  createLimiter,
  type Decision,
  fixedWindow,
  type LimiterStore,
  type PolicyOptions,
  quota,
  SlidingWindowCounter,
  slidingWindow,
  sortedSet,
  tokenBucket,
} from '../../src/index.ts'
import { START_MS } from '../support/arbitraries.ts'
import { shareRedis } from '../support/own-redis.ts'
import { expectProperty } from '../support/property.ts'
import { ScriptStore } from '../support/script-store.ts'
import { type Admission, expectNoWindowOver } from '../support/windows.ts'

const redis = shareRedis()

interface Limit {
  readonly limit: number
  readonly windowMs: number
}

const LONGEST_MS = 3_000
const limits = fc.uniqueArray(
  fc.record({ limit: fc.integer({ min: 4, max: 40 }), windowMs: fc.integer({ min: 1, max: LONGEST_MS }) }),
  { minLength: 1, maxLength: 3, selector: ({ windowMs }: Limit) => windowMs },
)
const gapMs = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 50 }), fc.integer({ min: 0, max: 2_000 }))

function readText(limits: readonly Limit[]): string {
  return limits.map(({ limit, windowMs }) => `${limit}/${windowMs}ms`).join(', ')
}

/** One of the ways to ask for something, and how long after the last one. */
const step = fc.record({
  gapMs,
  way: fc.constantFrom('take', 'take', 'obtain', 'waitFor', 'peek', 'refund'),
  cost: fc.integer({ min: 1, max: 4 }),
  permits: fc.integer({ min: 1, max: 50 }),
})
const steps = fc.array(step, { maxLength: 60, size: 'max' })
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never

/** Sends traffic to a limiter; what was granted, less what was given back, as it was granted. */
async function traffic(policies: readonly PolicyOptions[], steps: readonly Step[]): Promise<Admission[]> {
  const clock = { now: START_MS }
  const limiter = createLimiter({ policies, now: () => clock.now })
  const granted: (Admission & { readonly decision: Decision | Awaited<ReturnType<typeof limiter.takeUpTo>> })[] = []
  const keep = (decision: (typeof granted)[number]['decision']) => {
    if (decision.charged > 0) granted.push({ ms: decision.decidedAtMs, cost: decision.charged, decision })
  }
  for (const { gapMs, way, cost, permits } of steps) {
    clock.now += gapMs
    if (way === 'obtain') keep(await limiter.takeUpTo('alice', permits, { cost }))
    else if (way === 'peek') await limiter.peek('alice', { cost })
    else if (way === 'take') keep(await limiter.take('alice', { cost }))
    else if (way === 'waitFor') keep(await limiter.waitFor('alice', { cost, maxWaitMs: 0 }))
    else {
      const last = granted.pop()
      if (!last) continue
      const units = Math.min(permits, last.cost)
      await limiter.refund('alice', last.decision, units).catch(() => granted.push(last))
      if (last.cost > units)
        granted.push({ ...last, cost: last.cost - units, decision: { ...last.decision, charged: last.cost - units } })
    }
  }
  return granted.map(({ ms, cost }) => ({ ms, cost }))
}

test.each([
  ['slidingWindow', slidingWindow],
  ['sortedSet', sortedSet],
] as const)('%s: no true window ever grants more than its limit, whichever method is called', async (_name, make) => {
  await expectProperty(
    fc.asyncProperty(limits, steps, async (limits, steps) => {
      const withoutRefunds = steps.filter(({ way }) => way !== 'refund')
      const admitted = await traffic([{ name: 'p', ...make(readText(limits)) }], withoutRefunds)
      for (const { limit, windowMs } of limits) expectNoWindowOver(limit, windowMs, admitted)
    }),
    100,
  )
})

test('fixedWindow: no window of the clock grants more than its limit, less what was given back', async () => {
  await expectProperty(
    fc.asyncProperty(limits, steps, async (limits, steps) => {
      const admitted = await traffic([{ name: 'p', ...fixedWindow(readText(limits)) }], steps)
      for (const { limit, windowMs } of limits) {
        const windows = Map.groupBy(admitted, ({ ms }) => Math.floor(ms / windowMs))
        for (const inWindow of windows.values()) {
          expect(inWindow.reduce((sum, { cost }) => sum + cost, 0)).toBeLessThanOrEqual(limit)
        }
      }
    }),
    100,
  )
})

test('tokenBucket: no true window grants more than the bucket and what is refilled meanwhile', async () => {
  await expectProperty(
    fc.asyncProperty(limits, fc.integer({ min: 4, max: 60 }), steps, async ([rate], burst, steps) => {
      const { limit, windowMs } = rate as Limit
      const admitted = await traffic([{ name: 'p', ...tokenBucket(readText([rate as Limit]), { burst }) }], steps)
      for (const spanMs of [1, windowMs, 3 * windowMs]) {
        expectNoWindowOver(burst + Math.ceil((spanMs * limit) / windowMs), spanMs, admitted)
      }
    }),
    100,
  )
})

const MAKERS = { slidingWindow, sortedSet, fixedWindow, quota } as const
const anyPolicies = fc
  .array(fc.tuple(fc.constantFrom(...Object.values(MAKERS)), limits), { minLength: 1, maxLength: 3 })
  .map((made) => made.map(([maker, limits], index) => ({ name: `p${index}`, ...maker(readText(limits)) })))

describe('a refusal, of any policies together', () => {
  test('reports the shortest time after which the same is granted, and changes nothing', async () => {
    await expectProperty(
      fc.asyncProperty(anyPolicies, steps, fc.integer({ min: 1, max: 4 }), async (policies, steps, cost) => {
        const clock = { now: START_MS }
        const limiter = createLimiter({ policies, now: () => clock.now })
        for (const { gapMs, permits } of steps) {
          clock.now += gapMs
          await limiter.takeUpTo('alice', permits)
          const before = await limiter.peek('alice')
          const refused = await limiter.take('alice', { cost })
          if (refused.granted) continue
          expect(await limiter.peek('alice')).toEqual(before)
          clock.now += refused.retryAfterMs - 1
          expect((await limiter.take('alice', { cost })).granted).toBe(false)
          clock.now += 1
          expect((await limiter.take('alice', { cost })).granted).toBe(true)
        }
      }),
      100,
    )
  })
})

const additions = fc.array(fc.record({ gapMs, count: fc.integer({ min: 1, max: 1_000_000_000 }) }), {
  maxLength: 40,
  size: 'max',
})

/** The script itself, at a time of the test's choosing. */
function scriptAt(now: () => number): LimiterStore {
  const script = new ScriptStore(redis)
  const store: Pick<Store, 'decide'> = { decide: (request) => script.decide(request, now() * 1000) }
  return { isRemote: true, timeoutMs: 1, open: () => store as Store }
}

test.each(['memory', 'Redis'])(
  'SlidingWindowCounter in %s holds exactly what was added in its window',
  async (where) => {
    await expectProperty(
      fc.asyncProperty(fc.integer({ min: 1, max: LONGEST_MS }), additions, async (windowMs, additions) => {
        const clock = { now: START_MS }
        const now = () => clock.now
        const keyPrefix = crypto.randomUUID()
        const counter = new SlidingWindowCounter({
          window: `${windowMs}ms`,
          keyPrefix,
          ...(where === 'memory' ? { now } : { store: scriptAt(now) }),
        })
        const added: Admission[] = []
        const held = () => added.filter(({ ms }) => ms > clock.now - windowMs).reduce((sum, { cost }) => sum + cost, 0)
        for (const { gapMs, count } of additions) {
          clock.now += gapMs
          expect(await counter.get()).toBe(held())
          added.push({ ms: clock.now, cost: count })
          expect(await counter.add(count)).toBe(held())
        }
      }),
      60,
    )
  },
)
