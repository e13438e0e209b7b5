import type { Ledger } from './ledger.ts'
import { readPolicyName } from './policies.ts'
import type { Charge } from './redis-record.ts'
import { judgeBetween } from './refusals.ts'
import type { Outcome } from './traffic.ts'

/** What the clients' own records say, next to Redis's. */
export interface Audit {
  readonly admitted: number
  readonly refused: number
  /** Calls to Redis that decided something. */
  readonly calls: number
  /** Refusals for which there was room from when the request was sent until its answer came. */
  readonly undue: number
  readonly faults: readonly string[]
}

/**
 * Compares the answers that clients had with the decisions of Redis. The order in which callers first came shows whose
 * key is whose.
 * @param isLeased permits may have been taken in advance: none may be spent that was not charged, or no longer counts
 */
export function audit(outcomes: readonly Outcome[], ledger: Ledger, isLeased: boolean): Audit {
  const keys = listKeysByCaller(ledger)
  const toCharges = ({ caller, cost }: Outcome): Charge[] => {
    const [own = '', ...others] = keys[caller] ?? []
    return [{ key: own, cost }, ...others.map((key) => ({ key, cost: 1 }))]
  }
  const admitted = outcomes.filter(({ status }) => status === 200)
  const refused = outcomes.filter(({ status }) => status === 429)
  const faults = isLeased
    ? findOverspent(admitted, toCharges, ledger)
    : findDifferences(admitted.map(toCharges), refused.map(toCharges), ledger)

  const others = outcomes.filter(({ status }) => status !== 200 && status !== 429)
  if (others.length > 0) faults.push(`${others.length} answers were neither 200 nor 429, such as ${others[0]?.status}`)
  const degraded = outcomes.filter((outcome) => outcome.degraded !== undefined)
  if (degraded.length > 0) faults.push(`${degraded.length} decisions were taken without Redis`)

  const isUndue = (outcome: Outcome) =>
    judgeBetween(ledger.demands(toCharges(outcome)), outcome.sentMs, outcome.decidedByMs) === 'undue'
  return {
    admitted: admitted.length,
    refused: refused.length,
    calls: ledger.decisions.length,
    undue: refused.filter(isUndue).length,
    faults,
  }
}

function listKeysByCaller(ledger: Ledger): readonly (readonly string[])[] {
  const keys = new Map<string, readonly string[]>()
  for (const { charges } of ledger.decisions) {
    const [own, ...others] = charges.map(({ key }) => key)
    if (own !== undefined && !keys.has(own)) keys.set(own, [own, ...others])
  }
  return [...keys.values()]
}

/** Answers that are not what Redis decided. */
function findDifferences(admitted: readonly Charge[][], refused: readonly Charge[][], ledger: Ledger): string[] {
  const faults: string[] = []
  const [grants, refusals] = [true, false].map((isGrant) =>
    countAlike(ledger.decisions.filter(({ entries }) => entries.length > 0 === isGrant).map(({ charges }) => charges)),
  ) as [Map<string, number>, Map<string, number>]
  const answered = countAlike(admitted)
  for (const what of new Set([...answered.keys(), ...grants.keys()])) {
    const [seen = 0, kept = 0] = [answered.get(what), grants.get(what)]
    if (seen !== kept) faults.push(`${what}: clients were let through ${seen} times, Redis charged ${kept}`)
  }
  const seenRefused = countAlike(refused)
  for (const [what, kept] of refusals) {
    const seen = seenRefused.get(what) ?? 0
    if (seen < kept) faults.push(`${what}: clients were refused ${seen} times, Redis refused ${kept}`)
  }
  return faults
}

/**
 * Keys under which more was spent than charged. What a request spends must count at least until it was sent: of all that
 * was sent from some moment on, as much must be dated there or later.
 */
function findOverspent(
  admitted: readonly Outcome[],
  toCharges: (outcome: Outcome) => readonly Charge[],
  ledger: Ledger,
): string[] {
  const spent = new Map<string, number>()
  const faults = new Map<string, string>()
  for (const outcome of admitted.toSorted((a, b) => b.sentMs - a.sentMs)) {
    for (const { key, cost } of toCharges(outcome)) {
      const since = (spent.get(key) ?? 0) + cost
      spent.set(key, since)
      const charged = ledger.charged(key, outcome.sentMs)
      if (since <= charged) continue
      faults.set(
        key,
        `${readPolicyName(key)} ${key}: ${since} units were spent since ${outcome.sentMs}, and ${charged} charged`,
      )
    }
  }
  return [...faults.values()]
}

function countAlike(charges: readonly (readonly Charge[])[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const each of charges) {
    const what = each.map(({ key, cost }) => `${cost} of ${key}`).join(', ')
    counts.set(what, (counts.get(what) ?? 0) + 1)
  }
  return counts
}
