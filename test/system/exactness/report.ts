import { formatNumber, formatPercent, formatTable } from '../kit/table.ts'
import { findLimitViolations, toLimitRows } from './limits.ts'
import { countByPermit, type Findings } from './run.ts'

/** Everything that is not as it must be, in words; empty if the limiter was exact. */
export function findViolations({ limits, ledger, audit }: Findings): readonly string[] {
  const found = findLimitViolations(limits)
  if (ledger.undue > 0) found.push(`Redis refused ${ledger.undue} requests for which there was room`)
  if (audit.undue > 0) found.push(`${audit.undue} requests were refused with room for them from sending to answer`)
  return [...found, ...ledger.faults, ...audit.faults]
}

/** The findings as a table. @param leases LEASES */
export function formatFindings(findings: Findings, callers: number, leases: string): string {
  const { outcomes, ledger, audit, limits, ideal } = findings
  const seconds = findSeconds(outcomes)
  return formatTable([
    ['requests', outcomes.length, `${formatNumber(outcomes.length / seconds)} a second, LEASES=${leases}`],
    ['callers', callers],
    ['calls to Redis', audit.calls, `${(audit.calls / outcomes.length).toFixed(2)} a request`],
    ['admitted', audit.admitted, `${formatPercent(audit.admitted / ideal)} of what one limiter for all would admit`],
    ['refused', audit.refused],
    ...(leases === 'off'
      ? []
      : ([
          ['leases', ledger.leases],
          ['charges by permits', countByPermit(audit.admitted, ledger), 'at least'],
          ['refused by Redis while leases ran', ledger.refusedDuringLeases],
        ] as const)),
    ...toLimitRows(limits),
    [
      'undue refusals',
      ledger.undue + audit.undue,
      `beside ${formatNumber(ledger.either)} within the µs in which Redis read its clock`,
    ],
    ['accounting faults', ledger.faults.length + audit.faults.length],
  ])
}

function findSeconds(outcomes: Findings['outcomes']): number {
  let [firstMs, lastMs] = [Number.POSITIVE_INFINITY, 0]
  for (const { sentMs, decidedByMs } of outcomes) {
    firstMs = Math.min(firstMs, sentMs)
    lastMs = Math.max(lastMs, decidedByMs)
  }
  return (lastMs - firstMs) / 1000
}
