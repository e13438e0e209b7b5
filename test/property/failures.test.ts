/** What counts failures, while requests that were let through end later, in any order. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { anyCharge, forwardUs, LONG, START_MS } from '../support/arbitraries.ts'
import { type EVERY_ALGORITHM, EXACT_ALGORITHMS, findCapacity, take } from '../support/charges.ts'
import { TIMED_STORES, type Trial } from '../support/timed-stores.ts'

const NUM_RUNS = 200
/** In flight at most. */
const MOST_IN_FLIGHT = 5

const action = fc.record({
  gapUs: forwardUs,
  /** Below 0, another request comes; else one of those in flight ends. */
  which: fc.integer({ min: -5, max: 5 }),
  hasFailed: fc.boolean(),
})

interface Failed {
  readonly atMs: number
}

/** Plays requests against a store: each is let through or not, and charged at its end if it has failed. */
async function play(
  { open, expectProperty }: Trial,
  algorithm: (typeof EVERY_ALGORITHM)[number],
  check: (seen: {
    readonly charge: ReturnType<typeof take>['charges'][number]
    readonly failures: readonly Failed[]
    readonly nowMs: number
    readonly granted: number | undefined
  }) => void,
): Promise<void> {
  await expectProperty(
    fc.asyncProperty(anyCharge(algorithm), fc.array(action, LONG), async (drawn, actions) => {
      const charge = { ...drawn, counts: 'failures' } as const
      let nowUs = START_MS * 1000
      const store = open()
      const failures: Failed[] = []
      let inFlight = 0
      for (const { gapUs, which, hasFailed } of actions) {
        nowUs += gapUs
        let granted: number | undefined
        if (which < 0 && inFlight < MOST_IN_FLIGHT) {
          const decision = await store.decide(take([charge]), nowUs)
          granted = decision.granted
          inFlight += granted
        } else if (which >= 0 && inFlight > 0) {
          inFlight--
          if (hasFailed) {
            await store.decide(take([charge], { action: 'record' }), nowUs)
            failures.push({ atMs: Math.ceil(nowUs / 1000) })
          }
        }
        check({ charge, failures, nowMs: Math.floor(nowUs / 1000), granted })
      }
    }),
    NUM_RUNS,
  )
}

describe.each(TIMED_STORES)('%s', (_name, trial) => {
  describe.each(EXACT_ALGORITHMS)('%s', (algorithm) => {
    test('a request is refused exactly while a window holds as many failures as its limit, or more', async () => {
      await play(trial, algorithm, ({ charge, failures, nowMs, granted }) => {
        if (granted === undefined) return
        const isOver = charge.limits.some(
          ({ limit, windowMs }) => failures.filter(({ atMs }) => atMs > nowMs - windowMs).length >= limit,
        )
        expect(granted).toBe(isOver ? 0 : 1)
      })
    })

    test('no window holds more failures than its limit and those that were in flight alongside it', async () => {
      await play(trial, algorithm, ({ charge, failures, nowMs }) => {
        for (const { limit, windowMs } of charge.limits) {
          const held = failures.filter(({ atMs }) => atMs > nowMs - windowMs).length
          expect(held).toBeLessThanOrEqual(limit + MOST_IN_FLIGHT - 1)
        }
      })
    })
  })

  describe.each(['fixed-window', 'quota', 'token-bucket'] as const)('%s', (algorithm) => {
    test('no more fail than the limits and those that were in flight alongside them allow', async () => {
      await play(trial, algorithm, ({ charge, failures, nowMs }) => {
        for (const { limit, windowMs } of charge.limits) {
          const elapsedMs = nowMs - START_MS
          // Windows that were begun, by the clock or by failures; or what was refilled.
          const windows = algorithm === 'token-bucket' ? elapsedMs / windowMs : Math.ceil(elapsedMs / windowMs) + 1
          const most = algorithm === 'token-bucket' ? findCapacity(charge) + windows * limit : windows * limit
          // In each window anew, those in flight may come on top; a bucket goes into debt by them once.
          const alongside = (algorithm === 'token-bucket' ? 1 : windows) * (MOST_IN_FLIGHT - 1)
          expect(failures.length).toBeLessThanOrEqual(Math.floor(most) + alongside)
        }
      })
    })
  })
})
