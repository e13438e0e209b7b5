/** Decides what an object answers to a reservation while others may give back what they have reserved, and when. */
import {
  countWanted,
  detectsNewIdentities,
  type Evaluation,
  evaluateCharge,
  hasPenalty,
} from '../../algorithms/decide.ts'
import { ACTIONS } from '../../model/charge.ts'
import { isEnforced } from '../../model/policy.ts'
import type { Ledger } from './ledger.ts'
import type { Open } from './machine-state.ts'
import type { ObjectVote, PreparedCharge } from './objects.ts'
import { KEEPERS } from './stored-state.ts'

/**
 * No more than this wait for each unit that may be given back. Later ones are refused at once: they would get it only if
 * all of these were refused elsewhere. A flood thus waits for nothing.
 */
const MAX_WAITING_PER_UNIT = 8
/** All that wait are decided again whenever one decision ends … */
const MAX_WAITING = 200
/** … each by looking at every open charge: in all so many looks. */
const MAX_LOOKS = 20_000

/** @returns the vote if nothing is charged, and the permits to charge */
export function evaluateVote(reservation: PreparedCharge, ledger: Ledger) {
  const { action, permits, charge, shared } = reservation
  const { known, nowMs } = ledger
  const returnable = countUnits(ledger.state.open.values())
  const { usage, fitting, chargeable, changed } = evaluateWithin(returnable, reservation, ledger)
  const isNew = detectsNewIdentities(charge) && (known === undefined || holdsOnlyNew(charge.algorithm, ledger))
  // A penalty refuses whatever is given back.
  const isProvisional = returnable > 0 && !hasPenalty(usage)
  // A shadow charge alone does not limit a grant.
  const { charges, grantsPart } = ACTIONS[action]
  const mayBePart = grantsPart && (isEnforced(charge) || shared !== undefined)
  const isCharged = charges && (mayBePart || chargeable >= permits)
  const vote = { usage, fitting, chargeable, charged: 0, forfeited: 0, nowMs, isNew, isProvisional, isVoid: false }
  return { vote, changed, permits: isCharged ? Math.min(permits, chargeable) : 0 }
}

/**
 * Two decisions may wait for each other, each at the object of one charge: the one with the higher number gives in
 * first, and the other gets what that one had.
 * @param waiting reservations that wait already, maybe this one
 * @returns milliseconds for which a refusal is worth holding back; 0 if no open charge that may be given back helps
 */
export function findPatienceMs(
  reservation: PreparedCharge,
  vote: ObjectVote,
  waiting: ReadonlySet<PreparedCharge>,
  ledger: Ledger,
): number {
  const { action, charge, shared, patienceMs = 0 } = reservation
  const { open: opens } = ledger.state
  const wanted = countWanted(reservation)
  if (!ACTIONS[action].charges || !isEnforced(charge) || vote.fitting >= wanted || !vote.isProvisional) return 0
  let [returnable, longestMs] = [0, 0]
  for (const [id, open] of opens) {
    // Older ones are those of isolates that have died, or whose messages were lost.
    const leftMs = (shared && id < shared.id ? patienceMs / 2 : patienceMs) - ledger.findAgeMs(open)
    if (leftMs <= 0) continue
    returnable += open.permits * open.cost
    longestMs = Math.max(longestMs, leftMs)
  }
  const wantedUnits = wanted * charge.cost + charge.reserved
  if (vote.usage.some(({ remaining }) => remaining + returnable < wantedUnits)) return 0
  if (waiting.has(reservation)) return longestMs
  let waitingUnits = 0
  for (const other of waiting) waitingUnits += countWanted(other) * other.charge.cost
  const isFull = waiting.size >= Math.min(MAX_WAITING, MAX_LOOKS / opens.size)
  return isFull || waitingUnits >= MAX_WAITING_PER_UNIT * returnable ? 0 : longestMs
}

/** A refusal leads to no penalty if it is only due to units that may be given back. @param returnable those units */
function evaluateWithin(returnable: number, reservation: PreparedCharge, { known, nowUs }: Ledger): Evaluation {
  const { charge } = reservation
  const evaluation = evaluateCharge(charge, reservation, known, nowUs)
  const wanted = charge.cost * countWanted(reservation)
  if (!evaluation.changed || evaluation.usage.some(({ remaining }) => remaining + returnable < wanted))
    return evaluation
  const { penalty: _, ...withoutPenalty } = charge
  return evaluateCharge(withoutPenalty, reservation, known, nowUs)
}

/** All that is charged is reserved for new identities, which may still be refused elsewhere. */
function holdsOnlyNew(algorithm: Open['charge']['algorithm'], { known, state }: Ledger): boolean {
  const units = countUnits(state.open.values(), true)
  return units > 0 && units === KEEPERS[algorithm].countUnits?.(known)
}

function countUnits(opens: Iterable<Open>, mustBeNew = false): number {
  let units = 0
  for (const { permits, cost, isNew } of opens) if (isNew || !mustBeNew) units += permits * cost
  return units
}
