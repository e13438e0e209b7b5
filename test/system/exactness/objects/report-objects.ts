import type { ObjectFindings } from './run-objects.ts'

/** Everything that is not as it must be, in words. */
export function objectViolations({
  outcomes,
  tiers,
  lostUnits,
  leakedUnits,
  aborted,
}: ObjectFindings): readonly string[] {
  const found: string[] = []
  for (const { policy, tier, check, byClients } of tiers) {
    const over = check.over + byClients.over
    if (over > 0)
      found.push(`${over} windows of ${policy} ${tier.limit}/${tier.windowMs} ms held more than their limit`)
  }
  if (lostUnits > 0) found.push(`${lostUnits} units let requests through and are not charged`)
  if (aborted > 0) return found
  if (leakedUnits > 0) found.push(`${leakedUnits} units are charged and let nothing through`)
  const others = outcomes.filter(({ status }) => status !== 200 && status !== 429)
  if (others.length > 0) found.push(`${others.length} answers were neither 200 nor 429, such as ${others[0]?.status}`)
  return found
}

const MOST_UNDUE = 0.001

/** The same of long runs: a short one may be unlucky. */
export function undueViolations({ undue, outcomes }: ObjectFindings): readonly string[] {
  return undue > MOST_UNDUE * outcomes.length ? [`${undue} requests of ${outcomes.length} were refused unduly`] : []
}

/** The findings as a table. */
export function objectReport(findings: ObjectFindings, callers: number): string {
  const { outcomes, record, tiers, undue, lostUnits, leakedUnits, aborted } = findings
  const count = (status: number) => outcomes.filter((outcome) => outcome.status === status).length
  const [admitted, refused] = [count(200), count(429)]
  const rows = [
    ['requests', number(outcomes.length), 'through 4 gateways that share Durable Objects'],
    ['callers', number(callers), ''],
    ['calls to objects', number(record.calls), `${(record.calls / outcomes.length).toFixed(2)} a request`],
    ['extra calls', number(record.extraCalls), 'that keep or take back what was reserved, or ask about it'],
    ['objects ended', number(aborted), ''],
    ['admitted', number(admitted), ''],
    ['refused', number(refused), ''],
    ['not decided', number(outcomes.length - admitted - refused), 'answered 503: an object had just been ended'],
    ...tiers.map(({ policy, tier: { limit, windowMs }, check, byClients }) => [
      `windows of ${policy} ${limit}/${windowMs / 1000}s`,
      number(check.windows + byClients.windows),
      `over ${number(check.over + byClients.over)}, fullest ${percent(check.fullest)}, by the clients' clocks ${percent(byClients.fullest)}`,
    ]),
    ['over-admissions', number(tiers.reduce((sum, { check, byClients }) => sum + check.over + byClients.over, 0)), ''],
    ['units lost', number(lostUnits), ''],
    ['units charged in vain', number(leakedUnits), ''],
    [
      'undue refusals',
      number(undue),
      `${((undue / outcomes.length) * 100).toFixed(3)}% of the requests, by reservations that were then taken back`,
    ],
  ]
  const widths = [0, 1].map((column) => Math.max(...rows.map((row) => (row[column] as string).length)))
  return rows
    .map(([name = '', value = '', note = '']) =>
      `${name.padEnd(widths[0] ?? 0)}  ${value.padStart(widths[1] ?? 0)}  ${note}`.trimEnd(),
    )
    .join('\n')
}

function number(value: number): string {
  return Math.round(value).toLocaleString('en')
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)}%`
}
