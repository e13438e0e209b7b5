import type { UserConsoleLog } from 'vitest'
import type { Reporter, TestCase, TestModule, Vitest } from 'vitest/node'
import { SecretWatch } from './secret-watch.ts'

/** Variable of the environment: milliseconds after which a run is judged by what it has seen. */
export const RUN_BOUND_MS = 'RUN_BOUND_MS'

/** The last line of a run. */
export const CLOSING_LINE = /^(\d+) passed, (\d+) failed(?:, (\d+) inconclusive)?$/m
/** Names a test that failed, shortly before it. */
export const FAILED_LINE = /^failed: .*$/gm

/**
 * Ends a run with the line `N passed, M failed`. A file that could not be run, and an error outside of any test, count
 * as failed, and so does each planted secret that the run's output or a Worker's log shows. A test that the machine did
 * not let come to a verdict is told with what was seen, and counted apart; any other that was skipped has failed, unless
 * its tag left it to another run.
 */
export default class SummaryReporter implements Reporter {
  readonly #watch: SecretWatch

  constructor({ watch = new SecretWatch() }: { readonly watch?: SecretWatch } = {}) {
    this.#watch = watch
  }

  /** A run with a bound ends with what it has seen by then. */
  onInit(vitest: Pick<Vitest, 'state'>): void {
    const boundMs = Number(process.env[RUN_BOUND_MS] ?? 0)
    if (boundMs === 0) return
    const end = () => {
      this.onTestRunEnd(vitest.state.getTestModules(), [])
      process.exit()
    }
    setTimeout(end, boundMs).unref()
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
    const skipped = tests.filter((test) => test.result().state === 'skipped' && !isLeftToAnotherRun(test))
    const inconclusive = skipped.filter((test) => findNote(test) !== undefined)
    for (const test of inconclusive) console.log(`inconclusive: ${test.fullName}: ${findNote(test)}`)
    const running = tests.filter((test) => test.result().state === 'pending')
    const waiting = modules.filter((module) => module.state() === 'queued')
    for (const test of running) console.log(`inconclusive: ${test.fullName}: has not ended in time`)
    for (const { relativeModuleId } of waiting) console.log(`inconclusive: ${relativeModuleId}: its turn never came`)
    const unasked = skipped.filter((test) => findNote(test) === undefined)
    for (const test of unasked) console.error(`skipped without a reason: ${test.fullName}`)
    if (leaks.length + unasked.length > 0) process.exitCode = 1
    for (const test of tests) if (test.result().state === 'failed') console.log(`failed: ${test.fullName}`)
    const failed = count('failed') + broken + leaks.length + unasked.length
    const untold = inconclusive.length + running.length + waiting.length
    if (failed > 0) process.exitCode = 1
    const apart = untold > 0 ? `, ${untold} inconclusive` : ''
    console.log(`\n${count('passed')} passed, ${failed} failed${apart}`)
  }
}

function findNote(test: TestCase): string | undefined {
  const result = test.result()
  return result.state === 'skipped' ? result.note : undefined
}

/** `npm test` leaves slow tests to `npm run test:system`, which leaves it all others. */
function isLeftToAnotherRun({ options, project }: TestCase): boolean {
  const filter = project.vitest.config.tagsFilter?.join() ?? ''
  if (filter === '') return false
  return (options.tags ?? []).includes('slow') === filter.startsWith('!')
}
