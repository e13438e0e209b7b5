import fc from 'fast-check'
import { inject, test } from 'vitest'

const { isLong, scale } = inject('fuzz')
const TIMEOUT_MS = isLong ? 900_000 : 60_000

/**
 * A test of many cases. Its name ends with their number; a failure names the seed and the smallest case found.
 * @param shortRuns cases, of which `npm test` takes two fifths, and FUZZ=long forty times as many
 */
export function fuzz<Case>(
  name: string,
  shortRuns: number,
  property: fc.IAsyncProperty<Case> | fc.IProperty<Case>,
): void {
  const numRuns = Math.ceil(shortRuns * scale)
  test(`${name} (${numRuns} cases)`, { timeout: TIMEOUT_MS }, async () => {
    // Sooner than the test's timeout, which would hide the case that is being made smaller.
    const interruptAfterTimeLimit = TIMEOUT_MS * 0.9
    await fc.assert(property, { numRuns, interruptAfterTimeLimit, markInterruptAsFailure: true })
  })
}
