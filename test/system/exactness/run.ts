import type { Bundle } from '../../support/build-bundle.ts'
import { type IdealRequest, idealAdmissions } from '../../support/history.ts'
import { startSite } from '../../support/site.ts'
import { type Audit, audit } from './audit.ts'
import { Ledger } from './ledger.ts'
import { checkLimits, type LimitCheck } from './limits.ts'
import {
  findLimits,
  LEASED_POLICIES,
  POLICIES,
  POLICY_NAMES,
  type Policies,
  stretchWindows,
  toPolicyTables,
} from './policies.ts'
import { recordDecisions } from './redis-record.ts'
import { type Outcome, sendTraffic } from './traffic.ts'

/** Leases taken, permits spent from them, refusals, and refusals while leases ran: at least so many, or a run tests nothing. */
export const MIN_SEEN = 10

/** A permit is kept while other charges are decided, so it must last for longer than that may take. */
const BRIEF = { STORE_TIMEOUT_MS: 500 }

export interface RunOptions {
  readonly bundle: Bundle
  readonly requests: number
  readonly callers: number
  readonly seed: number
  /** LEASES. Redis then knows when permits were taken, and no longer when they were spent. Limits and callers differ. */
  readonly leases?: string
  /** Windows are so many times as long, for a machine too slow to fill shorter ones. */
  readonly stretch?: number
}

export interface Findings {
  readonly outcomes: readonly Outcome[]
  readonly audit: Audit
  readonly ledger: Ledger
  readonly limits: readonly LimitCheck[]
  /** Requests that one limiter for all, with no way to go, would have admitted. */
  readonly ideal: number
}

/** Sends the traffic through four points of presence, and checks each decision and each window. */
export async function run(options: RunOptions): Promise<Findings> {
  const { bundle, requests, callers, seed, leases = 'off', stretch = 1 } = options
  const isLeased = leases !== 'off'
  const policies = stretchWindows(isLeased ? LEASED_POLICIES : POLICIES, stretch)
  const variables = { LEASES: leases, POLICIES: toPolicyTables(policies), ...(isLeased && BRIEF) }
  const site = await startSite({ bundle, points: 4, variables })
  try {
    const ledger = new Ledger((key) => findLimits(policies, key), isLeased)
    const recording = await recordDecisions(site.redis.port, (decision) => ledger.add(decision))
    const traffic = { gateways: site.urls, requests, callers, policies, seed }
    const outcomes = await sendTraffic({ ...traffic, ...(isLeased && { hasSeenEnough: watchLeases(ledger) }) })
    await recording.stop()
    return {
      outcomes,
      ledger,
      audit: audit(outcomes, ledger, isLeased),
      limits: checkLimits(policies, ledger, outcomes),
      ideal: idealAdmissions(outcomes.map((outcome) => toIdealRequest(outcome, policies))),
    }
  } finally {
    await site.stop()
  }
}

function toIdealRequest({ caller, team, cost, sentMs }: Outcome, policies: Policies): IdealRequest {
  const own = { key: `caller ${caller}`, limits: policies.caller, cost }
  return { ms: sentMs, charges: [own, { key: `team ${team}`, limits: policies.team, cost: 1 }] }
}

/** Charges of admitted requests that have no entry of their own: permits that were taken in advance made them. */
export function countByPermit(admitted: number, { entries }: Ledger): number {
  return admitted * POLICY_NAMES.length - entries
}

/** Whether a run has come to test something, with room for a record that lags behind the answers. */
function watchLeases(ledger: Ledger): (outcomes: readonly Outcome[]) => boolean {
  return (outcomes) => {
    const admitted = outcomes.filter(({ status }) => status === 200).length
    const { leases, refusedDuringLeases } = ledger
    return (
      Math.min(leases, countByPermit(admitted, ledger), outcomes.length - admitted, refusedDuringLeases) >= 2 * MIN_SEEN
    )
  }
}
