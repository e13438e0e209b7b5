/** The real clock shows whole milliseconds: windows counted in memory by it are no shorter for that. */
import fc from 'fast-check'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { StoreError } from '../../src/core/model/store.ts'
import { createLimiter, type LimiterOptions, slidingWindow } from '../../src/index.ts'
import { LONG, START_MS } from '../support/arbitraries.ts'
import { storeWith } from '../support/charges.ts'
import { expectProperty } from '../support/property.ts'
import { expectNoWindowOver } from '../support/windows.ts'

const WINDOW_MS = 5
const LIMIT = 3

/** The ways to count in memory. */
const WAYS: Readonly<Record<string, LimiterOptions>> = {
  'one policy': { limits: `${LIMIT}/${WINDOW_MS}ms` },
  'several policies': {
    policies: [
      { name: 'a', ...slidingWindow(`${LIMIT}/${WINDOW_MS}ms`) },
      { name: 'b', ...slidingWindow('1000/1h') },
    ],
  },
  'the fallback of a store that fails': {
    limits: `${LIMIT}/${WINDOW_MS}ms`,
    log: () => {},
    circuitBreaker: false,
    store: {
      isRemote: true,
      timeoutMs: 1_000,
      open: () => storeWith({ decide: () => Promise.reject(new StoreError('it is unavailable')) }),
    },
  },
}

beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'] }))
afterEach(() => void vi.useRealTimers())

test.each(Object.entries(WAYS))(
  '%s: no true window holds more than its limit, to the microsecond',
  async (_, options) => {
    let refused = 0
    await expectProperty(
      fc.asyncProperty(fc.array(fc.integer({ min: 0, max: 2_500 }), LONG), async (gapsUs) => {
        let nowUs = START_MS * 1000
        const limiter = createLimiter(options)
        const admitted = []
        for (const gapUs of gapsUs) {
          nowUs += gapUs
          vi.setSystemTime(Math.floor(nowUs / 1000))
          if ((await limiter.take('alice')).granted) admitted.push({ ms: nowUs / 1000, cost: 1 })
          else refused++
        }
        expectNoWindowOver(LIMIT, WINDOW_MS, admitted)
      }),
      200,
    )
    expect(refused).toBeGreaterThan(0)
  },
)
