import type { UserConsoleLog } from 'vitest'
import type { Reporter, TestModule } from 'vitest/node'
import { SecretWatch } from './secret-watch.ts'

/**
 * Ends a run with the line `N passed, M failed`. A file that could not be run, and an error outside of any test, count
 * as failed, and so does each planted secret that the run's output or a Worker's log shows; a skipped test is neither
 * and is told apart.
 */
export default class SummaryReporter implements Reporter {
  readonly #watch: SecretWatch

  constructor({ watch = new SecretWatch() }: { readonly watch?: SecretWatch } = {}) {
    this.#watch = watch
  }

  onUserConsoleLog({ content }: UserConsoleLog): void {
    this.#watch.read(content)
  }

  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()])
    const count = (state: string) => tests.filter((test) => test.result().state === state).length
    const broken = modules.filter((module) => module.errors().length > 0).length + unhandledErrors.length
    const leaks = this.#watch.end()
    for (const leak of leaks) console.error(`a secret was shown: ${leak}`)
    if (leaks.length > 0) process.exitCode = 1
    const skipped = count('skipped')
    console.log(
      `\n${count('passed')} passed, ${count('failed') + broken + leaks.length} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`,
    )
  }
}
