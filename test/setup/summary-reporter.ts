import type { Reporter, TestModule } from 'vitest/node'

/**
 * Ends a run with the line `N passed, M failed`. A file that could not be run, and an error outside of any test, count
 * as failed; a skipped test is neither and is told apart.
 */
export default class SummaryReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()])
    const count = (state: string) => tests.filter((test) => test.result().state === state).length
    const broken = modules.filter((module) => module.errors().length > 0).length + unhandledErrors.length
    const skipped = count('skipped')
    console.log(
      `\n${count('passed')} passed, ${count('failed') + broken} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`,
    )
  }
}
