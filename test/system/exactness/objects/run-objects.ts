import type { Bundle } from '../../../support/build-bundle.ts'
import { startObjectSite } from '../../../support/object-site.ts'
import { checkLimits, type LimitCheck, sum } from '../limits.ts'
import { findLimits, POLICIES, readPolicyName, stretchWindows, toPolicyTables } from '../policies.ts'
import { type Outcome, sendTraffic } from '../traffic.ts'
import { ObjectRecord } from './object-record.ts'

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
export async function runOverObjects(options: ObjectRunOptions): Promise<ObjectFindings> {
  const { bundle, requests, callers, seed, abortEvery, stretch = 1 } = options
  const policies = stretchWindows(POLICIES, stretch)
  const variables = { STORE: 'durable-object', POLICIES: toPolicyTables(policies) }
  const site = await startObjectSite({ bundle, variables, points: 4, records: true })
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
    const outcomes = await sendTraffic({ gateways: site.urls, requests, callers, policies, seed })
    isOver = true
    await reading
    record.add(await site.record())
    const limits = checkLimits(policies, record, outcomes)
    const undue = record.countUndue((key) => findLimits(policies, key))
    return { outcomes, record, aborted, limits, undue, ...compareUnits(outcomes, record) }
  } finally {
    await site.stop()
  }
}

/** Callers come one after the other first, which shows whose key is whose. */
function compareUnits(
  outcomes: readonly Outcome[],
  record: ObjectRecord,
): Pick<ObjectFindings, 'lostUnits' | 'leakedUnits'> {
  const spent = Map.groupBy(
    outcomes.filter(({ status }) => status === 200),
    ({ caller }) => caller,
  )
  const keys = record.keys.filter((key) => readPolicyName(key) === 'caller')
  const callers = Math.max(keys.length, ...[...spent.keys()].map((caller) => caller + 1))
  const differences = Array.from({ length: callers }, (_, caller) => {
    const charged = record.admissions(keys[caller] ?? '')
    return sum((spent.get(caller) ?? []).map(({ cost }) => cost)) - sum(charged.map(({ cost }) => cost))
  })
  return {
    lostUnits: sum(differences.filter((units) => units > 0)),
    leakedUnits: sum(differences.filter((units) => units < 0).map(Math.abs)),
  }
}
