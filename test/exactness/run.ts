import type { Bundle } from '../support/build-bundle.ts'
import { type Audit, audit } from './audit.ts'
import { admittedByOne } from './ideal.ts'
import { Ledger } from './ledger.ts'
import { MAX_COST, POLICIES, POLICY_NAMES, policyOf, SHORTEST_WINDOW_MS, teamsOf, tiersOf } from './policies.ts'
import { record } from './redis-record.ts'
import { startSite } from './site.ts'
import { type Outcome, sendTraffic } from './traffic.ts'
import { checkWindows, type Tier, type WindowCheck } from './windows.ts'

export interface RunOptions {
  readonly bundle: Bundle
  readonly requests: number
  readonly callers: number
  readonly seed: number
  /** LEASES. Redis then knows when permits were taken, and no longer when they were spent. */
  readonly leases?: string
}

/** A check of all windows of one tier. */
export interface TierCheck extends WindowCheck {
  readonly policy: string
  readonly tier: Tier
  /** The same by when clients sent requests and the API received them: less sharp, and nothing of Redis's. */
  readonly byClients: WindowCheck
}

export interface Findings {
  readonly outcomes: readonly Outcome[]
  readonly audit: Audit
  readonly ledger: Ledger
  readonly tiers: readonly TierCheck[]
  /** Requests that one limiter for all, with no way to go, would have admitted. */
  readonly ideal: number
}

/** Sends the traffic through four points of presence, and checks each decision and each window. */
export async function run({ bundle, requests, callers, seed, leases = 'off' }: RunOptions): Promise<Findings> {
  const isLeased = leases !== 'off'
  const teams = teamsOf(callers)
  const site = await startSite(bundle, { LEASES: leases })
  try {
    const ledger = new Ledger(tiersOf, isLeased)
    const recording = await record(site.redisPort, (decision) => ledger.add(decision))
    const { gateways } = site
    const windowMs = SHORTEST_WINDOW_MS
    const outcomes = await sendTraffic({ gateways, requests, callers, teams, maxCost: MAX_COST, windowMs, seed })
    await recording.stop()
    return {
      outcomes,
      ledger,
      audit: audit(outcomes, ledger, isLeased),
      tiers: POLICY_NAMES.flatMap((policy) =>
        POLICIES[policy].map((tier) => ({
          policy,
          tier,
          ...byRedis(ledger, policy, tier),
          byClients: byClients(outcomes, policy, tier),
        })),
      ),
      ideal: admittedByOne(outcomes),
    }
  } finally {
    await site.stop()
  }
}

function byRedis(ledger: Ledger, policy: string, tier: Tier): WindowCheck {
  const keys = ledger.keys.filter((key) => policyOf(key) === policy)
  return sum(keys.map((key) => checkWindows(tier, ledger.admissions(key))))
}

function byClients(outcomes: readonly Outcome[], policy: 'caller' | 'team', tier: Tier): WindowCheck {
  const admitted = outcomes.filter(({ status }) => status === 200)
  const groups = Map.groupBy(admitted, (outcome) => outcome[policy])
  const checks = [...groups.values()].map((own) => {
    const admissions = own.map(({ sentMs, decidedByMs, cost }) => {
      return { earliestMs: sentMs, latestMs: decidedByMs, cost: policy === 'caller' ? cost : 1 }
    })
    return checkWindows(tier, admissions)
  })
  return sum(checks)
}

function sum(checks: readonly WindowCheck[]): WindowCheck {
  return {
    windows: checks.reduce((windows, check) => windows + check.windows, 0),
    over: checks.reduce((over, check) => over + check.over, 0),
    fullest: Math.max(0, ...checks.map(({ fullest }) => fullest)),
  }
}
