/** Four points of presence on one Redis, whose own record shows each decision. */
import { type IdealRequest, idealAdmissions } from '../../support/history.ts'
import { startSite } from '../../support/site.ts'
import type { Run } from '../kit/scenario.ts'
import { formatNumber, formatPercent, type TableRow } from '../kit/table.ts'
import { audit } from './audit.ts'
import { Ledger } from './ledger.ts'
import { checkLimits } from './limits.ts'
import { findLimits, POLICY_NAMES, type Policies, toPolicyTables } from './policies.ts'
import { recordDecisions } from './redis-record.ts'
import type { ExactnessOptions, RecordedSite } from './scenario.ts'
import type { Outcome } from './traffic.ts'

/** Leases taken, permits spent from them, refusals, and refusals while leases ran: at least so many, or a run tests nothing. */
const MIN_SEEN = 10

/** A permit is kept while other charges are decided, so it must last for longer than that may take. */
const BRIEF = { STORE_TIMEOUT_MS: 500 }

export async function startOverRedis(
  { leases }: ExactnessOptions,
  policies: Policies,
  { bundle }: Run,
): Promise<RecordedSite> {
  const isLeased = leases !== 'off'
  const variables = { LEASES: leases, POLICIES: toPolicyTables(policies), ...(isLeased && BRIEF) }
  const site = await startSite({ bundle, points: 4, variables })
  const ledger = new Ledger((key) => findLimits(policies, key), isLeased)
  const recording = await recordDecisions(site.redis.port, (decision) => ledger.add(decision))
  return {
    urls: site.urls,
    stop: site.stop,
    ...(isLeased && {
      hasSeenEnough: (outcomes) => Math.min(...Object.values(countLeases(outcomes, ledger))) >= 2 * MIN_SEEN,
    }),
    async read(outcomes) {
      await recording.stop()
      const audited = audit(outcomes, ledger, isLeased)
      const ideal = idealAdmissions(outcomes.map((outcome) => toIdealRequest(outcome, policies)))
      const seen = countLeases(outcomes, ledger)
      const rows: TableRow[] = [
        ['calls to Redis', audited.calls, `${(audited.calls / outcomes.length).toFixed(2)} a request`],
        [
          'admitted',
          audited.admitted,
          `${formatPercent(audited.admitted / ideal)} of what one limiter for all would admit`,
        ],
        ['refused', audited.refused],
        ...(isLeased ? Object.entries(seen) : []),
        [
          'undue refusals',
          ledger.undue + audited.undue,
          `beside ${formatNumber(ledger.either)} within the µs in which Redis read its clock`,
        ],
      ]
      const isLacking = isLeased && Math.min(...Object.values(seen)) < MIN_SEEN
      return {
        limits: checkLimits(policies, ledger, outcomes),
        rows,
        wrong: [
          ...(ledger.undue > 0 ? [`Redis refused ${ledger.undue} requests for which there was room`] : []),
          ...(audited.undue > 0
            ? [`${audited.undue} requests were refused with room for them from sending to answer`]
            : []),
          ...(isLeased && audited.calls > outcomes.length ? ['more calls to Redis than requests'] : []),
          ...ledger.faults,
          ...audited.faults,
        ],
        missing: isLacking ? [`one below ${MIN_SEEN}: ${JSON.stringify(seen)}`] : [],
      }
    },
  }
}

function toIdealRequest({ caller, team, cost, sentMs }: Outcome, policies: Policies): IdealRequest {
  const own = { key: `caller ${caller}`, limits: policies.caller, cost }
  return { ms: sentMs, charges: [own, { key: `team ${team}`, limits: policies.team, cost: 1 }] }
}

/** Counts what leases have saved in a run. A record may lag behind the answers. */
function countLeases(outcomes: readonly Outcome[], { entries, leases, refusedDuringLeases }: Ledger) {
  const admitted = outcomes.filter(({ status }) => status === 200).length
  return {
    leases,
    // Charges of admitted requests that have no entry of their own.
    'charges by permits, at least': admitted * POLICY_NAMES.length - entries,
    refusals: outcomes.length - admitted,
    'refused by Redis while leases ran': refusedDuringLeases,
  }
}
