/** The log of a sliding window in memory, beside the twin of the Lua: plain arrays, read by binary search. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { decide } from '../../src/algorithms/decide.ts'
import type { Charge, Decision } from '../../src/model/charge.ts'
import { POLICY_MODES } from '../../src/model/policy.ts'
import { ExpiringStates } from '../../src/store/memory/expiring-states.ts'
import { WindowLog } from '../../src/store/memory/window-log.ts'
import { WindowStore } from '../../src/store/memory/window-store.ts'
import { anyBlock, anyConfigured, anyCost, backAndForthUs, LONG, START_MS } from '../support/arbitraries.ts'
import { take } from '../support/charges.ts'
import { expectProperty } from '../support/property.ts'

const PREFIX = 'test:w:='

const action = fc.record({
  gapUs: fc.oneof(fc.integer({ min: 0, max: 3_000 }), fc.integer({ min: 0, max: 3_000 }), backAndForthUs),
  /** `window` takes as a limiter does whose one policy is a sliding window. */
  way: fc.constantFrom('window', 'window', 'window', 'take', 'take-up-to', 'peek', 'record'),
  permits: fc.integer({ min: 1, max: 5 }),
  leaseMs: fc.constantFrom(0, 0, 0, 40, 700),
  cost: anyCost,
  reserved: fc.constantFrom(0, 0, 3),
  mode: fc.constantFrom(...POLICY_MODES),
  isChanged: fc.integer({ min: 0, max: 9 }).map((die) => die === 9),
  isBlocking: fc.boolean(),
})

test('a sliding window in memory decides every step as its twin does', async () => {
  let steps = 0
  await expectProperty(
    fc.asyncProperty(
      anyConfigured('sliding-window'),
      anyBlock,
      fc.array(action, { ...LONG, maxLength: 300 }),
      async ({ before, after }, penalty, actions) => {
        let nowUs = START_MS * 1000
        const store = new WindowStore(() => nowUs / 1000)
        const twin = new ExpiringStates()
        for (const { gapUs, way, permits, leaseMs, isChanged, isBlocking, ...demand } of actions) {
          nowUs += gapUs
          steps++
          const charge = { ...(isChanged ? after : before), ...demand, key: `${PREFIX}alice` }
          const states = twin.at(Math.floor(nowUs / 1000))
          if (way === 'window') {
            const plain = { ...charge, reserved: 0 }
            expect(takeAtOnce(store, plain)).toEqual(expectedOf(plain, decide(take([plain]), nowUs, states)))
          } else {
            const request = take([isBlocking ? { ...charge, penalty } : charge], { action: way, permits, leaseMs })
            expect(store.decideNow(request)).toEqual(decide(request, nowUs, states))
          }
          expect(store.size).toBe(twin.size)
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

/** What the library reports of a decision. */
function expectedOf({ limits, cost }: Pick<Charge, 'limits' | 'cost'>, { granted, nowMs, usage }: Decision) {
  const states = usage[0] ?? []
  return {
    granted: granted > 0,
    limits: states.map((state, at) => ({ policy: 'p', name: `p-${limits[at]?.windowMs}`, ...limits[at], ...state })),
    retryAfterMs: granted > 0 ? 0 : Math.max(...states.map(({ retryAfterMs }) => retryAfterMs)),
    decidedAtMs: nowMs,
    charged: granted > 0 ? cost : 0,
  }
}

test('a sliding window in memory holds no more room than eight times what it counts', () => {
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
