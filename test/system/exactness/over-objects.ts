/** Four points of presence that share Durable Objects, which are all ended at once time and again, and tell what they did. */
import { startObjectSite } from '../../support/object-site.ts'
import { type Run, repeat } from '../kit/scenario.ts'
import { formatPercent } from '../kit/table.ts'
import { checkLimits, sum } from './limits.ts'
import { ObjectRecord } from './object-record.ts'
import { findLimits, type Policies, readPolicyName, toPolicyTables } from './policies.ts'
import type { ExactnessOptions, RecordedSite } from './scenario.ts'
import type { Outcome } from './traffic.ts'

/** Between two readings of what the objects did. */
const READ_EVERY_MS = 1_000
/** Share of requests that may be refused by reservations that were then taken back. A short run may be unlucky. */
const MAX_UNDUE = 0.001
const MIN_JUDGED = 10_000
const MIN_ADMITTED = 50

export async function startOverObjects(
  { abortEvery }: ExactnessOptions,
  policies: Policies,
  { bundle }: Run,
): Promise<RecordedSite> {
  const variables = { STORE: 'durable-object', POLICIES: toPolicyTables(policies) }
  const site = await startObjectSite({ bundle, variables, points: 4, records: true })
  const record = new ObjectRecord()
  const ending = new AbortController()
  let aborted = 0
  const reading = repeat(ending.signal, READ_EVERY_MS, async (times) => {
    record.add(await site.record())
    if (abortEvery > 0 && (times + 1) % abortEvery === 0 && !ending.signal.aborted) aborted += await site.abort()
  })
  return {
    urls: site.urls,
    async stop() {
      ending.abort()
      await reading
      await site.stop()
    },
    async read(outcomes) {
      ending.abort()
      await reading
      record.add(await site.record())
      const undue = record.countUndue((key) => findLimits(policies, key))
      const { lost, leaked } = compareUnits(outcomes, record)
      const admitted = outcomes.filter(({ status }) => status === 200).length
      const share = undue / outcomes.length
      return {
        limits: checkLimits(policies, record, outcomes),
        rows: [
          ['calls to objects', record.calls, `${(record.calls / outcomes.length).toFixed(2)} a request`],
          ['extra calls', record.extraCalls, 'to keep, undo or look up reservations'],
          ['objects ended', aborted],
          ['units lost', lost],
          ['units charged in vain', leaked],
          [
            'undue refusals',
            undue,
            `${formatPercent(share)} of the requests, by reservations that were then taken back`,
          ],
        ],
        wrong: [
          ...(lost > 0 ? [`${lost} units let requests through and are not charged`] : []),
          ...(leaked > 0 && aborted === 0 ? [`${leaked} units are charged and let nothing through`] : []),
          ...(outcomes.length >= MIN_JUDGED && share > MAX_UNDUE ? [`${undue} requests were refused unduly`] : []),
          ...(aborted === 0 ? listOddAnswers(outcomes) : []),
        ],
        missing: [
          ...(abortEvery > 0 && aborted === 0 ? ['no object was ended'] : []),
          ...(admitted <= MIN_ADMITTED ? [`${admitted} of ${outcomes.length} admitted`] : []),
        ],
      }
    },
  }
}

function listOddAnswers(outcomes: readonly Outcome[]): string[] {
  const odd = outcomes.filter(({ status }) => status !== 200 && status !== 429)
  return odd.length > 0 ? [`${odd.length} answers were neither 200 nor 429, such as ${odd[0]?.status}`] : []
}

/**
 * Units that callers were let through with, less those that stayed charged to them: above 0, some were lost. Callers come
 * one after the other first, which shows whose key is whose.
 */
function compareUnits(outcomes: readonly Outcome[], record: ObjectRecord): { lost: number; leaked: number } {
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
    lost: sum(differences.filter((units) => units > 0)),
    leaked: sum(differences.filter((units) => units < 0).map(Math.abs)),
  }
}
