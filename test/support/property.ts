import fc from 'fast-check'
import { inject } from 'vitest'

const { scale } = inject('fuzz')

/** Sooner than a test's timeout, which would hide the counterexample that is being made smaller. */
const TIME_LIMIT_MS = 150_000

/** Cases tried for each that a law asks for: each run draws others, so that the short form may do with fewer. */
const SHARE = { short: 0.1, long: 10 }

/**
 * Asserts that a law holds for random cases.
 * @param numRuns cases to try; the short form takes a tenth of them, FUZZ=long ten times as many
 * @param shortShare of those that the short form takes
 */
export function expectProperty<Values>(
  property: fc.IAsyncProperty<Values>,
  numRuns: number,
  shortShare = 1,
): Promise<void> {
  return fc.assert(property, {
    numRuns: Math.ceil(numRuns * (scale > 1 ? SHARE.long : SHARE.short * shortShare)),
    interruptAfterTimeLimit: TIME_LIMIT_MS * scale,
    markInterruptAsFailure: true,
  })
}
