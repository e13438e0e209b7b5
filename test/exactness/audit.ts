import type { Ledger } from './ledger.ts'
import type { Charge } from './redis-record.ts'
import { judgeBetween } from './refusals.ts'
import type { Outcome } from './traffic.ts'

/** What the clients' own records say, beside Redis's. */
export interface Audit {
  readonly admitted: number
  readonly refused: number
  /** Refusals that Redis knows nothing of. */
  readonly fromMemory: number
  /** Refusals for which there was room from when the request was sent until its answer came. */
  readonly undue: number
  readonly faults: readonly string[]
}

/**
 * Holds the answers that clients had against the decisions of Redis.
 * @param callers number of callers; the first decisions were those on one request of each, in order
 */
export function audit(outcomes: readonly Outcome[], ledger: Ledger, callers: number): Audit {
  const keysOf = ledger.decisions.slice(0, callers).map(({ charges }) => charges.map(({ key }) => key))
  const chargesOf = ({ caller, cost }: Outcome): Charge[] => {
    const [own = '', ...others] = keysOf[caller] ?? []
    return [{ key: own, cost }, ...others.map((key) => ({ key, cost: 1 }))]
  }
  const admitted = outcomes.filter(({ status }) => status === 200)
  const refused = outcomes.filter(({ status }) => status === 429)
  const redisRefused = ledger.decisions.filter(({ entries }) => entries.length === 0)

  const faults: string[] = []
  const others = outcomes.filter(({ status }) => status !== 200 && status !== 429)
  if (others.length > 0) faults.push(`${others.length} answers were neither 200 nor 429, such as ${others[0]?.status}`)
  const degraded = outcomes.filter((outcome) => outcome.degraded !== undefined)
  if (degraded.length > 0) faults.push(`${degraded.length} decisions were taken without Redis`)

  const answered = count(admitted.map(chargesOf))
  const charged = count(ledger.decisions.filter(({ entries }) => entries.length > 0).map(({ charges }) => charges))
  for (const what of new Set([...answered.keys(), ...charged.keys()])) {
    const [told = 0, kept = 0] = [answered.get(what), charged.get(what)]
    if (told !== kept) faults.push(`${what}: clients were let through ${told} times, Redis charged ${kept}`)
  }
  const toldRefused = count(refused.map(chargesOf))
  for (const [what, kept] of count(redisRefused.map(({ charges }) => charges))) {
    const told = toldRefused.get(what) ?? 0
    if (told < kept) faults.push(`${what}: clients were refused ${told} times, Redis refused ${kept}`)
  }

  const undue = refused.filter((outcome) => {
    return judgeBetween(ledger.demands(chargesOf(outcome)), outcome.sentMs, outcome.receivedMs) === 'undue'
  })
  return {
    admitted: admitted.length,
    refused: refused.length,
    fromMemory: refused.length - redisRefused.length,
    undue: undue.length,
    faults,
  }
}

function count(charges: readonly (readonly Charge[])[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const each of charges) {
    const what = each.map(({ key, cost }) => `${cost} of ${key}`).join(', ')
    counts.set(what, (counts.get(what) ?? 0) + 1)
  }
  return counts
}
