import type { Ledger } from './ledger.ts'
import { policyOf } from './policies.ts'
import type { Charge } from './redis-record.ts'
import { judgeBetween } from './refusals.ts'
import type { Outcome } from './traffic.ts'

/** What the clients' own records say, beside Redis's. */
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
 * Holds the answers that clients had against the decisions of Redis. Which keys are whose is told by the order in which
 * callers first came.
 * @param isLeased permits may have been taken in advance: none may be spent that was not charged, or no longer counts
 */
export function audit(outcomes: readonly Outcome[], ledger: Ledger, isLeased: boolean): Audit {
  const keysOf = keysByCaller(ledger)
  const chargesOf = ({ caller, cost }: Outcome): Charge[] => {
    const [own = '', ...others] = keysOf[caller] ?? []
    return [{ key: own, cost }, ...others.map((key) => ({ key, cost: 1 }))]
  }
  const admitted = outcomes.filter(({ status }) => status === 200)
  const refused = outcomes.filter(({ status }) => status === 429)
  const faults = isLeased
    ? overspent(admitted, chargesOf, ledger)
    : differences(admitted.map(chargesOf), refused.map(chargesOf), ledger)

  const others = outcomes.filter(({ status }) => status !== 200 && status !== 429)
  if (others.length > 0) faults.push(`${others.length} answers were neither 200 nor 429, such as ${others[0]?.status}`)
  const degraded = outcomes.filter((outcome) => outcome.degraded !== undefined)
  if (degraded.length > 0) faults.push(`${degraded.length} decisions were taken without Redis`)

  const isUndue = (outcome: Outcome) =>
    judgeBetween(ledger.demands(chargesOf(outcome)), outcome.sentMs, outcome.decidedByMs) === 'undue'
  return {
    admitted: admitted.length,
    refused: refused.length,
    calls: ledger.decisions.length,
    undue: refused.filter(isUndue).length,
    faults,
  }
}

function keysByCaller(ledger: Ledger): readonly (readonly string[])[] {
  const keys = new Map<string, readonly string[]>()
  for (const { charges } of ledger.decisions) {
    const [own, ...others] = charges.map(({ key }) => key)
    if (own !== undefined && !keys.has(own)) keys.set(own, [own, ...others])
  }
  return [...keys.values()]
}

/** What clients were told, and not what Redis decided. */
function differences(admitted: readonly Charge[][], refused: readonly Charge[][], ledger: Ledger): string[] {
  const faults: string[] = []
  const [grants, refusals] = [true, false].map((isGrant) =>
    count(ledger.decisions.filter(({ entries }) => entries.length > 0 === isGrant).map(({ charges }) => charges)),
  ) as [Map<string, number>, Map<string, number>]
  const answered = count(admitted)
  for (const what of new Set([...answered.keys(), ...grants.keys()])) {
    const [told = 0, kept = 0] = [answered.get(what), grants.get(what)]
    if (told !== kept) faults.push(`${what}: clients were let through ${told} times, Redis charged ${kept}`)
  }
  const toldRefused = count(refused)
  for (const [what, kept] of refusals) {
    const told = toldRefused.get(what) ?? 0
    if (told < kept) faults.push(`${what}: clients were refused ${told} times, Redis refused ${kept}`)
  }
  return faults
}

/**
 * Keys under which more was spent than charged. What a request spends must count at least until it was sent: of all that
 * was sent from some moment on, as much must be dated there or later.
 */
function overspent(
  admitted: readonly Outcome[],
  chargesOf: (outcome: Outcome) => readonly Charge[],
  ledger: Ledger,
): string[] {
  const spent = new Map<string, number>()
  const faults = new Map<string, string>()
  for (const outcome of admitted.toSorted((a, b) => b.sentMs - a.sentMs)) {
    for (const { key, cost } of chargesOf(outcome)) {
      const since = (spent.get(key) ?? 0) + cost
      spent.set(key, since)
      const charged = ledger.charged(key, outcome.sentMs)
      if (since <= charged) continue
      faults.set(
        key,
        `${policyOf(key)} ${key}: ${since} units were spent since ${outcome.sentMs}, and ${charged} charged`,
      )
    }
  }
  return [...faults.values()]
}

function count(charges: readonly (readonly Charge[])[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const each of charges) {
    const what = each.map(({ key, cost }) => `${cost} of ${key}`).join(', ')
    counts.set(what, (counts.get(what) ?? 0) + 1)
  }
  return counts
}
