import type { Findings } from './run.ts'

/** Everything that is not as it must be, in words; empty if the limiter was exact. */
export function violations({ tiers, ledger, audit }: Findings): readonly string[] {
  const found: string[] = []
  for (const { policy, tier, over, byClients } of tiers) {
    const name = `windows of ${policy} ${tier.limit}/${tier.windowMs} ms held more than their limit`
    if (over > 0) found.push(`${over} ${name} by Redis's times`)
    if (byClients.over > 0) found.push(`${byClients.over} ${name} by the clients' clocks`)
  }
  if (ledger.undue > 0) found.push(`Redis refused ${ledger.undue} requests for which there was room`)
  if (audit.undue > 0) found.push(`${audit.undue} requests were refused with room for them from sending to answer`)
  return [...found, ...ledger.faults, ...audit.faults]
}

/** The findings as a table. @param leases LEASES */
export function report(findings: Findings, callers: number, leases: string): string {
  const { outcomes, ledger, audit, tiers, ideal } = findings
  const seconds = secondsOf(outcomes)
  const checks = tiers.flatMap((check) => [check, check.byClients])
  const rows: (readonly string[])[] = [
    ['requests', number(outcomes.length), `${number(outcomes.length / seconds)} a second, LEASES=${leases}`],
    ['callers', number(callers), ''],
    ['calls to Redis', number(audit.calls), `${(audit.calls / outcomes.length).toFixed(2)} a request`],
    ['admitted', number(audit.admitted), `${percent(audit.admitted / ideal)} of what one limiter for all would admit`],
    ['refused', number(audit.refused), ''],
    ...(leases === 'off'
      ? []
      : [
          ['leases', number(ledger.leases), ''],
          ['admitted without a call', number(audit.admitted - ledger.grants), 'at least'],
          ['refused by Redis while leases ran', number(ledger.refusedBesideLeases), ''],
        ]),
    ...tiers.map(({ policy, tier: { limit, windowMs }, windows, over, fullest, byClients }) => [
      `windows of ${policy} ${limit}/${windowMs / 1000}s`,
      number(windows + byClients.windows),
      `over ${number(over + byClients.over)}, fullest ${percent(fullest)}, by the clients' clocks ${percent(byClients.fullest)}`,
    ]),
    ['windows checked', number(checks.reduce((sum, { windows }) => sum + windows, 0)), ''],
    ['over-admissions', number(checks.reduce((sum, { over }) => sum + over, 0)), ''],
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

function secondsOf(outcomes: Findings['outcomes']): number {
  let [firstMs, lastMs] = [Number.POSITIVE_INFINITY, 0]
  for (const { sentMs, decidedByMs } of outcomes) {
    firstMs = Math.min(firstMs, sentMs)
    lastMs = Math.max(lastMs, decidedByMs)
  }
  return (lastMs - firstMs) / 1000
}

function number(value: number): string {
  return Math.round(value).toLocaleString('en')
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)}%`
}
