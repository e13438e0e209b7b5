import { formatDuration } from '../format.ts'
import type { Terminal } from '../terminal.ts'
import type { Simulation } from './simulation.ts'
import type { Variant } from './variants.ts'

/** One entry of `results` in the JSON. */
export type Result = { readonly [Key in keyof Variant]: NonNullable<Variant[Key]> | null } & ReturnType<
  Simulation['summarize']
>

/** A table of the terminal and of the page. */
export interface Table {
  readonly title: string
  readonly header: readonly string[]
  readonly rows: readonly (readonly (string | number)[])[]
}

export function tabulateResults(results: readonly Result[]): Table {
  const tried = (['limits', 'algorithm', 'leases'] as const).filter((key) => results.some((each) => each[key] !== null))
  const waits = ['median wait', '95th of 100', 'longest']
  const header = [...tried, 'admitted', 'refused', 'share', ...waits, 'not counted', 'calls', 'commands', 'dollars']
  const rows = results.map((result) => {
    const { admitted, refused, rejected, wait, calls, commands, dollars } = result
    return [
      ...tried.map((key) => `${result[key] ?? ''}`),
      admitted,
      refused,
      `${((100 * refused) / Math.max(1, admitted + refused)).toFixed(1)}%`,
      ...[wait.medianMs, wait.p95Ms, wait.longestMs].map(formatDuration),
      rejected,
      calls,
      commands,
      dollars.toFixed(2),
    ]
  })
  return { title: 'In numbers', header, rows }
}

export function tabulateResult({ policies, callers }: Result): readonly Table[] {
  const policyRows = policies.map(({ policy, mode, requests, admitted, refused }) => [
    mode === 'shadow' ? `${policy} (shadow)` : policy,
    ...[requests, admitted, refused],
  ])
  const callerRows = callers.map(({ policy, digest, caller, refused }) => [policy, caller ?? digest, refused])
  const tables = [
    { title: 'Policies', header: ['policy', 'requests', 'admitted', 'refused'], rows: policyRows },
    { title: 'Callers refused most', header: ['policy', 'caller', 'refused'], rows: callerRows },
  ]
  return tables.filter(({ rows }) => rows.length > 0)
}

export function formatVariant({ limits, algorithm, leases }: Result): string {
  return [limits, algorithm, leases && `leases ${leases}`].filter(Boolean).join(', ') || 'as configured'
}

/** Shows several results side by side, and then each in full. */
export function formatResults(results: readonly Result[], terminal: Terminal): string {
  const format = ({ header, rows }: Table) => terminal.table(header, rows)
  const parts = results.map((result) => [
    ...(results.length > 1 ? [terminal.style('bold', formatVariant(result))] : []),
    ...tabulateResult(result).map(format),
  ])
  return [format(tabulateResults(results)), ...parts.map((lines) => lines.join('\n'))].join('\n\n')
}
