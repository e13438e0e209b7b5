import fc from 'fast-check'
import { inject, test } from 'vitest'

const { seed, scale } = inject('fuzz')
const TIMEOUT_MS = 180_000 * (scale > 1 ? 5 : 1)

/**
 * A test of many cases. Its name ends with their number; a failure names the seed and the smallest case found.
 * @param shortRuns cases in the short form
 */
export function fuzz<Case>(
  name: string,
  shortRuns: number,
  property: fc.IAsyncProperty<Case> | fc.IProperty<Case>,
): void {
  const numRuns = shortRuns * scale
  test(`${name} (${numRuns} cases)`, { timeout: TIMEOUT_MS }, async () => {
    // Sooner than the test's timeout, which would hide the case that is being made smaller.
    const interruptAfterTimeLimit = TIMEOUT_MS * 0.9
    await fc.assert(property, { seed, numRuns, interruptAfterTimeLimit, markInterruptAsFailure: true })
  })
}
