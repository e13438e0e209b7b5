/** The log of a sliding window, beside a plain list; and the shorter way to decide by it, beside the usual one. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { WindowLog } from '../../src/core/algorithms/window-log.ts'
import type { Charge, Decision } from '../../src/core/model/charge.ts'
import { POLICY_MODES } from '../../src/core/model/policy.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { WindowStore } from '../../src/core/store/memory/window-store.ts'
import { anyConfigured, anyCost, anyPenalty, backAndForthUs, LONG, START_MS } from '../support/arbitraries.ts'
import { take } from '../support/charges.ts'
import { expectProperty } from '../support/property.ts'

const PREFIX = 'test:w:='

const action = fc.record({
  /** Of a clock that shows parts of a microsecond; up to a quarter, which is as much as it can tell today. */
  partUs: fc.constantFrom(0, 0, 0.25, 0.5, 0.75),
  gapUs: fc.oneof(
    fc.constantFrom(1, 999, 1_000),
    fc.integer({ min: 0, max: 3_000 }),
    fc.integer({ min: 0, max: 3_000 }),
    backAndForthUs,
  ),
  /** `window` takes as a limiter does whose one policy is a sliding window. */
  way: fc.constantFrom('window', 'window', 'window', 'take', 'take-up-to', 'peek', 'record'),
  permits: fc.integer({ min: 1, max: 5 }),
  leaseMs: fc.constantFrom(0, 0, 0, 40, 700),
  cost: anyCost,
  reserved: fc.constantFrom(0, 0, 3),
  mode: fc.constantFrom(...POLICY_MODES),
  isChanged: fc.integer({ min: 0, max: 9 }).map((die) => die === 9),
  hasPenalty: fc.boolean(),
})

test('a window that was opened decides every step as its store would', async () => {
  let steps = 0
  await expectProperty(
    fc.asyncProperty(
      anyConfigured('sliding-window'),
      anyPenalty,
      fc.array(action, { ...LONG, maxLength: 300 }),
      async ({ before, after }, penalty, actions) => {
        let nowUs = START_MS * 1000
        let clockMs = 0
        const store = new WindowStore(() => clockMs)
        const implementation = new MemoryStore(() => clockMs)
        for (const { gapUs, partUs, way, permits, leaseMs, isChanged, hasPenalty, ...demand } of actions) {
          nowUs += gapUs
          clockMs = (nowUs + partUs) / 1000
          steps++
          const charge = { ...(isChanged ? after : before), ...demand, key: `${PREFIX}alice` }
          if (way === 'window') {
            const plain = { ...charge, reserved: 0 }
            expect(takeAtOnce(store, plain)).toEqual(findExpected(plain, implementation.decideNow(take([plain]))))
          } else {
            const request = take([hasPenalty ? { ...charge, penalty } : charge], { action: way, permits, leaseMs })
            expect(store.decideNow(request)).toEqual(implementation.decideNow(request))
          }
          expect(store.size).toBe(implementation.size)
        }
      },
    ),
    4_000,
  )
  expect(steps).toBeGreaterThan(10_000)
})

function takeAtOnce(store: WindowStore, charge: Omit<Charge, 'policy' | 'digest'>) {
  const limits = charge.limits.map((limit) => ({ ...limit, name: `p-${limit.windowMs}` }))
  const policy = { ...charge, name: 'p', limits, burst: undefined, penalty: undefined, onStoreError: 'local' } as const
  return store.openWindow(PREFIX, { ...charge, policy })('alice', charge.cost)
}

/** The decision as the library reports it. */
function findExpected({ limits, cost }: Pick<Charge, 'limits' | 'cost'>, { granted, nowMs, usage }: Decision) {
  const states = usage[0] ?? []
  return {
    granted: granted > 0,
    limits: states.map((state, at) => ({ policy: 'p', name: `p-${limits[at]?.windowMs}`, ...limits[at], ...state })),
    retryAfterMs: granted > 0 ? 0 : Math.max(...states.map(({ retryAfterMs }) => retryAfterMs)),
    decidedAtMs: nowMs,
    charged: granted > 0 ? cost : 0,
  }
}

const step = fc.record({
  gapMs: fc.oneof(fc.integer({ min: 0, max: 30 }), fc.integer({ min: -200, max: 200 })),
  leaseMs: fc.constantFrom(0, 0, 0, 40),
  keptMs: fc.constantFrom(100, 100, 100, 250),
  units: fc.integer({ min: 1, max: 5 }),
  way: fc.constantFrom('charge', 'charge', 'charge', 'charge', 'remove', 'drop'),
  /** Which entry is removed from, of all that there are. */
  share: fc.double({ min: 0, max: 0.99, noNaN: true }),
})

test('a log measures as a list of its entries does, and drops only what has left the longest window', async () => {
  let dropped = 0
  await expectProperty(
    fc.asyncProperty(fc.array(step, { ...LONG, maxLength: 300 }), async (steps) => {
      const log = new WindowLog()
      let list: Entry[] = []
      let nowMs = START_MS
      for (const { gapMs, leaseMs, keptMs, units, way, share } of steps) {
        nowMs += gapMs
        const chosen = list[Math.floor(share * list.length)]
        if (way === 'charge') {
          log.charge(nowMs, nowMs + leaseMs, keptMs, units)
          const dateMs = Math.max(nowMs + leaseMs, list.at(-1)?.dateMs ?? 0)
          if (dateMs === list.at(-1)?.dateMs) (list.at(-1) as Entry).units += units
          else list.push({ dateMs, units })
        } else if (way === 'drop') log.dropUntil(nowMs - keptMs)
        else if (chosen) {
          const removed = Math.min(units, chosen.units)
          chosen.units -= removed
          expect(log.remove(chosen.dateMs, removed)).toBe(chosen.units)
          list = list.filter((entry) => entry.units > 0)
        }
        const gone = list.splice(0, list.length - log.size)
        expect(gone.filter(({ dateMs }) => dateMs > nowMs - keptMs)).toEqual([])
        dropped += gone.length
        expect(log.remove(0, 1)).toBeUndefined()
        for (const windowMs of [30, keptMs, 1_000]) {
          for (const wanted of [1, 4, 11])
            expect(measure(log, windowMs, nowMs, wanted)).toEqual(count(list, windowMs, nowMs, wanted))
        }
      }
    }),
    4_000,
  )
  expect(dropped).toBeGreaterThan(1_000)
})

interface Entry {
  readonly dateMs: number
  units: number
}

const LIMIT = 10

function measure(log: WindowLog, windowMs: number, nowMs: number, wanted: number) {
  const state = { remaining: 0, resetMs: 0, retryAfterMs: 0 }
  log.measure({ limit: LIMIT, windowMs }, nowMs, wanted, state)
  return state
}

function count(list: readonly Entry[], windowMs: number, nowMs: number, wanted: number) {
  const inside = list.filter(({ dateMs }) => dateMs > nowMs - windowMs)
  const sum = (entries: readonly Entry[]) => entries.reduce((all, { units }) => all + units, 0)
  const remaining = Math.max(0, LIMIT - sum(inside))
  const leaveMs = (entry: Entry | undefined) => (entry ? entry.dateMs + windowMs - nowMs : windowMs)
  const findFreeing = (units: number) => inside.find((_, at) => sum(inside.slice(at + 1)) <= LIMIT - units)
  const retryAfterMs = remaining >= wanted ? 0 : wanted > LIMIT ? windowMs : leaveMs(findFreeing(wanted))
  return { remaining, resetMs: leaveMs(remaining === 0 ? findFreeing(1) : inside[0]), retryAfterMs }
}

test('a log holds no more room than eight times what it counts', () => {
  const log = new WindowLog()
  const roomAt = (nowMs: number) => {
    log.charge(nowMs, nowMs, 10_000, 1)
    return log.ring.length / 2
  }
  for (let ms = 1; ms <= 10_000; ms++) roomAt(START_MS + ms)
  expect(roomAt(START_MS + 10_001)).toBe(16_384)
  // A quiet second later, little is left of the burst; what is charged then makes the ring small, step by step.
  for (let ms = 1; ms <= 1_000; ms++) roomAt(START_MS + 20_000 + ms)
  expect(log.ring.length / 2).toBeLessThanOrEqual(8_192)
  for (let at = 0; at < 300; at++) roomAt(START_MS + 40_000 + at * 1_000)
  expect(log.ring.length / 2).toBeLessThanOrEqual(128)
})
