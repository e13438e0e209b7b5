/** A partner's budget of five limits, each of which alone would let too much through, spent by four processes. */
import { expect, test } from 'vitest'
import { createLimiter } from '../../../src/index.ts'
import { throttle } from '../../../src/outbound.ts'
import { greedyTimes } from '../../support/greedy.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

/** A thousandth of 300/min (of ten minutes), 15,750/h, 300,000/day, 1,500,000/week, 6,000,000/30 days. */
const BUDGET = [
  { limit: 3, windowMs: 10 * 60_000 },
  { limit: 15, windowMs: 3_600_000 },
  { limit: 300, windowMs: 86_400_000 },
  { limit: 1_500, windowMs: 7 * 86_400_000 },
  { limit: 6_000, windowMs: 30 * 86_400_000 },
]

test('four throttled functions use all of it, and never more', async () => {
  const clock = new VirtualClock()
  const startMs = clock.now()
  const limits = BUDGET.map(({ limit, windowMs }) => `${limit}/${windowMs}ms`).join(', ')
  const limiter = createLimiter({ limits, now: () => clock.now() })
  const admitted: number[] = []
  const options = { limiter, identity: 'partner', maxWaitMs: Number.POSITIVE_INFINITY, maxQueued: 20_000, clock }
  const processes = Array.from({ length: 4 }, () =>
    throttle(async () => {
      admitted.push(clock.now() - startMs)
    }, options),
  )
  const count = 6_100
  const calls = Array.from({ length: count }, (_, index) => processes[index % 4]?.())
  await clock.finish(Promise.all(calls))

  // As one process with perfect knowledge would have spent it, to the millisecond.
  expect(admitted).toEqual(greedyTimes(BUDGET, count))
  for (const { limit, windowMs } of BUDGET) {
    const full = admitted.filter((ms, index) => index >= limit && ms - (admitted[index - limit] as number) === windowMs)
    expect(full.length).toBeGreaterThan(0)
    expect(admitted.some((ms, index) => index >= limit && ms - (admitted[index - limit] as number) < windowMs)).toBe(
      false,
    )
  }
})
