import type { TestContext } from 'vitest'

/**
 * Runs a trial of what a slow machine may never let happen, each time with more time, until it tells something. What a
 * trial asserts must hold each time. If none tells anything, the test is inconclusive, and says what was seen last.
 * @param lengths given to the trials, one after the other
 * @param trial answers what kept it from telling anything, or nothing if it told
 */
export async function untilConclusive<Length>(
  { skip }: TestContext,
  lengths: readonly Length[],
  trial: (length: Length) => Promise<string | undefined>,
): Promise<void> {
  let seen: string | undefined
  for (const length of lengths) {
    seen = await trial(length)
    if (seen === undefined) return
  }
  skip(seen)
}
