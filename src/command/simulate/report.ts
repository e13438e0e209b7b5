/** Prints what a simulation has found. */
import { isEnforced } from '../../core/model/policy.ts'
import { formatDuration } from '../format.ts'
import type { Row, Terminal } from '../terminal.ts'
import type { Simulation } from './simulation.ts'
import type { Variant } from './variants.ts'

export type Result = Variant & ReturnType<Simulation['summarize']>

export interface ReportTable {
  readonly title: string
  readonly rows: readonly Row[]
}

export function tabulateResults(results: readonly Result[]): ReportTable {
  const tried = (['limits', 'algorithm', 'leases'] as const).filter((key) => results.some((each) => each[key] !== null))
  const rows = results.map((result) => ({
    ...Object.fromEntries(tried.map((key) => [key, `${result[key] ?? ''}`])),
    admitted: result.admitted,
    refused: result.refused,
    share: `${((100 * result.refused) / Math.max(1, result.admitted + result.refused)).toFixed(1)}%`,
    'median wait': formatDuration(result.wait.medianMs),
    '95th of 100': formatDuration(result.wait.p95Ms),
    longest: formatDuration(result.wait.longestMs),
    'not counted': result.rejected,
    calls: result.calls,
    commands: result.commands,
    dollars: result.dollars.toFixed(2),
  }))
  return { title: 'In numbers', rows }
}

export function tabulateResult({ policies, callers }: Result): readonly ReportTable[] {
  const policyRows = policies.map(({ mode, policy, ...counts }) => {
    return { policy: isEnforced({ mode }) ? policy : `${policy} (${mode})`, ...counts }
  })
  const callerRows = callers.map(({ policy, digest, caller = digest, refused }) => ({ policy, caller, refused }))
  const tables = [
    { title: 'Policies', rows: policyRows },
    { title: 'Callers refused most', rows: callerRows },
  ]
  return tables.filter(({ rows }) => rows.length > 0)
}

export function formatVariant({ limits, algorithm, leases }: Result): string {
  return [limits, algorithm, leases && `leases ${leases}`].filter(Boolean).join(', ') || 'as configured'
}

export function formatResults(results: readonly Result[], terminal: Terminal): string {
  const format = ({ rows }: ReportTable) => terminal.formatTable(rows)
  const parts = results.map((result) => [
    ...(results.length > 1 ? [terminal.style('bold', formatVariant(result))] : []),
    ...tabulateResult(result).map(format),
  ])
  return [format(tabulateResults(results)), ...parts.map((lines) => lines.join('\n'))].join('\n\n')
}
