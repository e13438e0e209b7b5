import { type Admission, checkWindows, type Limit, type WindowCheck } from '../../support/windows.ts'
import { formatNumber, formatPercent, type TableRow } from '../kit/table.ts'
import { POLICY_NAMES, type Policies, readPolicyName } from './policies.ts'
import type { Outcome } from './traffic.ts'

/** A check of all windows of one limit, by the store's own record. */
export interface LimitCheck extends WindowCheck {
  readonly policy: string
  readonly limit: Limit
  /** The same by when clients sent requests and the API received them: less sharp, and nothing of the store's. */
  readonly byClients: WindowCheck
}

/** What a store has recorded. */
interface Record {
  readonly keys: readonly string[]
  admissions(key: string): readonly Admission[]
}

/** Checks each window of each limit, of both records. */
export function checkLimits(policies: Policies, record: Record, outcomes: readonly Outcome[]): LimitCheck[] {
  const admitted = outcomes.filter(({ status }) => status === 200)
  return POLICY_NAMES.flatMap((policy) => {
    const keys = record.keys.filter((key) => readPolicyName(key) === policy)
    const byStore = keys.map((key) => record.admissions(key))
    const byClients = [...Map.groupBy(admitted, (outcome) => outcome[policy]).values()].map((own) =>
      own.map(({ sentMs, decidedByMs, cost }) => {
        return { ms: sentMs, latestMs: decidedByMs, cost: policy === 'caller' ? cost : 1 }
      }),
    )
    return policies[policy].map((limit) => ({
      policy,
      limit,
      ...checkGroups(limit, byStore),
      byClients: checkGroups(limit, byClients),
    }))
  })
}

/** @param groups admissions that each have the limit for themselves */
function checkGroups(limit: Limit, groups: readonly (readonly Admission[])[]): WindowCheck {
  const checks = groups.map((admissions) => checkWindows(limit, admissions))
  return {
    windows: sum(checks.map(({ windows }) => windows)),
    over: sum(checks.map(({ over }) => over)),
    fullest: Math.max(0, ...checks.map(({ fullest }) => fullest)),
  }
}

/** Limits with a window that held more than its limit, in words. */
export function findLimitViolations(limits: readonly LimitCheck[]): string[] {
  return limits.flatMap(({ policy, limit, over, byClients }) => {
    const name = `windows of ${policy} ${limit.limit}/${limit.windowMs} ms held more than their limit`
    return [
      ...(over > 0 ? [`${over} ${name} by the store's times`] : []),
      ...(byClients.over > 0 ? [`${byClients.over} ${name} by the clients' clocks`] : []),
    ]
  })
}

export function toLimitRows(limits: readonly LimitCheck[]): TableRow[] {
  const checks = limits.flatMap((check) => [check, check.byClients])
  return [
    ...limits.map(
      ({ policy, limit: { limit, windowMs }, windows, over, fullest, byClients }): TableRow => [
        `windows of ${policy} ${limit}/${windowMs / 1000}s`,
        windows + byClients.windows,
        `over ${formatNumber(over + byClients.over)}, fullest ${formatPercent(fullest)}, by the clients' clocks ${formatPercent(byClients.fullest)}`,
      ],
    ),
    ['windows checked', sum(checks.map(({ windows }) => windows))],
    ['over-admissions', sum(checks.map(({ over }) => over))],
  ]
}

export function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, one) => all + one, 0)
}
