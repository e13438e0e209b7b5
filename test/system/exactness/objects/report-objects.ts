import { formatTable } from '../../kit/table.ts'
import { findLimitViolations, toLimitRows } from '../limits.ts'
import type { ObjectFindings } from './run-objects.ts'

/** Everything that is not as it must be, in words. */
export function findObjectViolations(findings: Omit<ObjectFindings, 'record' | 'undue'>): readonly string[] {
  const { outcomes, limits, lostUnits, leakedUnits, aborted } = findings
  const found = findLimitViolations(limits)
  if (lostUnits > 0) found.push(`${lostUnits} units let requests through and are not charged`)
  if (aborted > 0) return found
  if (leakedUnits > 0) found.push(`${leakedUnits} units are charged and let nothing through`)
  const others = outcomes.filter(({ status }) => status !== 200 && status !== 429)
  if (others.length > 0) found.push(`${others.length} answers were neither 200 nor 429, such as ${others[0]?.status}`)
  return found
}

const MAX_UNDUE = 0.001

/** The same of long runs: a short one may be unlucky. */
export function findTooManyUndue({ undue, outcomes }: ObjectFindings): readonly string[] {
  return undue > MAX_UNDUE * outcomes.length ? [`${undue} requests of ${outcomes.length} were refused unduly`] : []
}

/** The findings as a table. */
export function formatObjectFindings(findings: ObjectFindings, callers: number): string {
  const { outcomes, record, limits, undue, lostUnits, leakedUnits, aborted } = findings
  const count = (status: number) => outcomes.filter((outcome) => outcome.status === status).length
  const [admitted, refused] = [count(200), count(429)]
  return formatTable([
    ['requests', outcomes.length, 'through 4 gateways that share Durable Objects'],
    ['callers', callers],
    ['calls to objects', record.calls, `${(record.calls / outcomes.length).toFixed(2)} a request`],
    ['extra calls', record.extraCalls, 'that keep or take back what was reserved, or ask about it'],
    ['objects ended', aborted],
    ['admitted', admitted],
    ['refused', refused],
    ['not decided', outcomes.length - admitted - refused, 'answered 503: an object had just been ended'],
    ...toLimitRows(limits),
    ['units lost', lostUnits],
    ['units charged in vain', leakedUnits],
    [
      'undue refusals',
      undue,
      `${((undue / outcomes.length) * 100).toFixed(3)}% of the requests, by reservations that were then taken back`,
    ],
  ])
}
