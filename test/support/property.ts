import fc from 'fast-check'

/** Sooner than a test's timeout, which would hide the counterexample that is being made smaller. */
const TIME_LIMIT_MS = 45_000

export function expectProperty<Values>(property: fc.IAsyncProperty<Values>, numRuns: number): Promise<void> {
  return fc.assert(property, { numRuns, interruptAfterTimeLimit: TIME_LIMIT_MS, markInterruptAsFailure: true })
}
