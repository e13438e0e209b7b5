import fc from 'fast-check'
import { inject } from 'vitest'

const { isLong, share } = inject('fuzz')

/** Sooner than a test's timeout, which would hide the counterexample that is being made smaller. */
const TIME_LIMIT_MS = isLong ? 6_000_000 : 50_000

/**
 * Asserts that a law holds for random cases.
 * @param numRuns cases to try, of which `npm test` takes a twentieth, and FUZZ=long ten times as many
 * @param shortShare of those, unless FUZZ=long
 * @param timeLimitMs less than the timeout of a test that waits for more than it computes
 */
export function expectProperty<Values>(
  property: fc.IAsyncProperty<Values>,
  numRuns: number,
  shortShare = 1,
  timeLimitMs = TIME_LIMIT_MS,
): Promise<void> {
  return fc.assert(property, {
    numRuns: Math.ceil(numRuns * share * (isLong ? 1 : shortShare)),
    interruptAfterTimeLimit: Math.max(timeLimitMs, TIME_LIMIT_MS),
    markInterruptAsFailure: true,
  })
}
