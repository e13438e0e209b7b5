import type { Outcome, Scenario } from './scenario.ts'

const COLUMNS = ['fault', 'promised', 'observed', 'requests', 'errors'] as const

export interface Row {
  readonly scenario: Pick<Scenario, 'fault' | 'promised'>
  readonly outcome: Outcome
}

/** A table in Markdown, and below it each difference between what was promised and what was seen. */
export function formatTable(rows: readonly Row[]): string {
  const cells = rows.map(({ scenario: { fault, promised }, outcome }) => [
    fault,
    promised,
    `${outcome.differences.length === 0 ? 'as promised' : 'NOT AS PROMISED'}: ${outcome.observed}`,
    String(outcome.requests),
    String(outcome.errors),
  ])
  const widths = COLUMNS.map((name, column) => Math.max(name.length, ...cells.map((row) => row[column]?.length ?? 0)))
  const line = (row: readonly string[]) => `| ${row.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join(' | ')} |`
  const differences = rows.flatMap(({ scenario, outcome }) =>
    outcome.differences.map((difference) => `${scenario.fault}: ${difference}`),
  )
  return [line(COLUMNS), line(widths.map((width) => '-'.repeat(width))), ...cells.map(line), '', ...differences].join(
    '\n',
  )
}
