/**
 * Writes each test that fails as soon as it has, and how many were run at the end: a run that is stopped at its first failures
 * may crash before it could report anything.
 */
import { appendFileSync } from 'node:fs'
import { relative } from 'node:path'
import type { Reporter, TestCase, TestModule } from 'vitest/node'

/** Where the lines go, for the process of Vitest. */
export const REPORT_VARIABLE = 'PLANTED_REPORT'

export type ReportLine = { readonly failed: string } | { readonly tests: number }

export default class PlantedReporter implements Reporter {
  #tests = 0

  onTestCaseResult(test: TestCase): void {
    const { state } = test.result()
    if (state !== 'skipped') this.#tests++
    if (state === 'failed') write({ failed: `${findPath(test.module)}: ${test.fullName}` })
  }

  onTestModuleEnd(module: TestModule): void {
    for (const { message } of module.errors()) write({ failed: `${findPath(module)}: ${message.split('\n')[0]}` })
  }

  onTestRunEnd(): void {
    write({ tests: this.#tests })
  }
}

function findPath({ moduleId }: TestModule): string {
  return relative(process.cwd(), moduleId)
}

function write(line: ReportLine): void {
  appendFileSync(process.env[REPORT_VARIABLE] as string, `${JSON.stringify(line)}\n`)
}
