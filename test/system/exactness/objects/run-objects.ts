import type { Bundle } from '../../../support/build-bundle.ts'
import { startObjectSite } from '../../../support/object-site.ts'
import { checkLimits, type LimitCheck, sum } from '../limits.ts'
import { limitsOf, MAX_COST, POLICIES, type Policies, policyOf, policyTables, stretched, teamsOf } from '../policies.ts'
import { type Outcome, sendTraffic } from '../traffic.ts'
import { ObjectRecord } from './object-record.ts'

const POINTS = 4
/** Between two readings of what the objects did. */
const READ_EVERY_MS = 1_000

export interface ObjectRunOptions {
  readonly bundle: Bundle
  readonly requests: number
  readonly callers: number
  readonly seed: number
  /** All objects are ended at once every so many readings; 0 for never. */
  readonly abortEvery: number
  /** Windows are so many times as long, for a machine too slow to fill shorter ones. */
  readonly stretch?: number
}

export interface ObjectFindings {
  readonly outcomes: readonly Outcome[]
  readonly record: ObjectRecord
  readonly policies: Policies
  /** Objects that were ended. */
  readonly aborted: number
  readonly limits: readonly LimitCheck[]
  /** Refusals by reservations that were then taken back. */
  readonly undue: number
  /** Units that callers were let through with, less those that stayed charged to them: above 0, something was lost. */
  readonly lostUnits: number
  /** Units that stayed charged and let nobody through. */
  readonly leakedUnits: number
}

/** Sends the traffic through four gateways that share Durable Objects, and checks each window. */
export async function runOverObjects({
  bundle,
  requests,
  callers,
  seed,
  abortEvery,
  stretch = 1,
}: ObjectRunOptions): Promise<ObjectFindings> {
  const policies = stretched(POLICIES, stretch)
  const variables = { STORE: 'durable-object', POLICIES: policyTables(policies) }
  const site = await startObjectSite({ bundle, variables, points: POINTS, records: true })
  try {
    const record = new ObjectRecord()
    let [readings, aborted, isOver] = [0, 0, false]
    const reading = (async () => {
      while (!isOver) {
        await new Promise((resolve) => setTimeout(resolve, READ_EVERY_MS))
        record.add(await site.record())
        if (abortEvery > 0 && ++readings % abortEvery === 0 && !isOver) aborted += await site.abort()
      }
    })()
    const [teams, windowMs] = [teamsOf(policies, callers), Math.min(...policies.caller.map(({ windowMs }) => windowMs))]
    const traffic = { gateways: site.urls, requests, callers, teams, maxCost: MAX_COST, windowMs, seed }
    const outcomes = await sendTraffic(traffic)
    isOver = true
    await reading
    record.add(await site.record())
    return { outcomes, record, policies, aborted, ...examine(outcomes, record, policies) }
  } finally {
    await site.stop()
  }
}

function examine(
  outcomes: readonly Outcome[],
  record: ObjectRecord,
  policies: Policies,
): Pick<ObjectFindings, 'limits' | 'undue' | 'lostUnits' | 'leakedUnits'> {
  const admitted = outcomes.filter(({ status }) => status === 200)
  const [spent, charged] = [unitsOfCallers(admitted), chargedToCallers(record)]
  const differences = spent.map((units, caller) => units - (charged[caller] ?? 0))
  return {
    limits: checkLimits(policies, record, outcomes),
    undue: record.undue((key) => limitsOf(policies, key)),
    lostUnits: sum(differences.filter((units) => units > 0)),
    leakedUnits: sum(differences.filter((units) => units < 0).map(Math.abs)),
  }
}

function unitsOfCallers(admitted: readonly Outcome[]): number[] {
  const units: number[] = []
  for (const { caller, cost } of admitted) units[caller] = (units[caller] ?? 0) + cost
  return Array.from(units, (each) => each ?? 0)
}

/** Callers come one after the other first, which tells whose key is whose. */
function chargedToCallers(record: ObjectRecord): number[] {
  const own = record.keys.filter((key) => policyOf(key) === 'caller')
  return own.map((key) => sum(record.admissions(key).map(({ cost }) => cost)))
}
