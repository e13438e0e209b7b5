import type { Findings } from './run.ts'

/** Everything that is not as it must be, in words; empty if the limiter was exact. */
export function violations({ tiers, byClients, ledger, audit }: Findings): readonly string[] {
  const over = tiers.reduce((sum, check) => sum + check.over, 0)
  const found = [...ledger.faults, ...audit.faults]
  if (over > 0) found.push(`${over} windows held more than their limit by Redis's times`)
  if (byClients.over > 0) found.push(`${byClients.over} windows held more than their limit by the clients' clocks`)
  if (ledger.undue > 0) found.push(`Redis refused ${ledger.undue} requests for which there was room`)
  if (audit.undue > 0) found.push(`${audit.undue} requests were refused with room for them from sending to answer`)
  return found
}

/** The findings as a table. */
export function report(findings: Findings, callers: number, seconds: number): string {
  const { outcomes, ledger, audit, tiers, byClients } = findings
  const rows: (readonly string[])[] = [
    ['requests', number(outcomes.length), `${number(outcomes.length / seconds)} a second`],
    ['callers', number(callers), ''],
    ['admitted', number(audit.admitted), ''],
    ['refused', number(audit.refused), `${number(audit.fromMemory)} of them without asking Redis`],
    ...tiers.map(({ policy, tier: { limit, windowMs }, windows, over, fullest }) => [
      `windows of ${policy} ${limit}/${windowMs / 1000}s`,
      number(windows),
      `over ${number(over)}, fullest ${percent(fullest)}`,
    ]),
    [
      "windows by clients' clocks",
      number(byClients.windows),
      `over ${number(byClients.over)}, fullest ${percent(byClients.fullest)}`,
    ],
    ['windows checked', number([...tiers, byClients].reduce((sum, { windows }) => sum + windows, 0)), ''],
    ['over-admissions', number([...tiers, byClients].reduce((sum, { over }) => sum + over, 0)), ''],
    [
      'undue refusals',
      number(ledger.undue + audit.undue),
      `beside ${number(ledger.either)} within the µs in which Redis read its clock`,
    ],
    ['accounting faults', number(ledger.faults.length + audit.faults.length), ''],
  ]
  const widths = [0, 1].map((column) => Math.max(...rows.map((row) => (row[column] as string).length)))
  const lines = rows.map(([name = '', value = '', note = '']) =>
    `${name.padEnd(widths[0] ?? 0)}  ${value.padStart(widths[1] ?? 0)}  ${note}`.trimEnd(),
  )
  return lines.join('\n')
}

function number(value: number): string {
  return Math.round(value).toLocaleString('en')
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)}%`
}
