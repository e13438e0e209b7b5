import { formatRows } from '../../../bench/report/markdown.ts'
import type { Outcome, Scenario } from './fault.ts'

export interface Row {
  readonly scenario: Pick<Scenario, 'fault' | 'promised'>
  readonly outcome: Outcome
}

/** A table in Markdown, and below it each difference between what was promised and what was seen. */
export function formatOutcomes(rows: readonly Row[]): string {
  const cells = rows.map(({ scenario: { fault, promised }, outcome: { differences, observed, requests, errors } }) => {
    const verdict = differences.length === 0 ? 'as promised' : 'NOT AS PROMISED'
    return { fault, promised, observed: `${verdict}: ${observed}`, requests, errors }
  })
  const differences = rows.flatMap(({ scenario, outcome }) =>
    outcome.differences.map((difference) => `${scenario.fault}: ${difference}`),
  )
  return [formatRows(cells), '', ...differences].join('\n')
}
