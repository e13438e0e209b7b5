/** Same as `lua/decide.lua`: evaluates all charges of a request, then commits all or none. */
import { ACTIONS, type Decision, type DecisionRequest, type LimitState, type StoreCharge } from '../model/charge.ts'
import { COUNTS } from '../model/limits.ts'
import { isEnforced } from '../model/policy.ts'
import type { MutableLimitState, PenaltyState } from './algorithm.ts'
import { ALGORITHMS } from './algorithm-table.ts'

/** State by key; expired states are not returned. */
export interface States {
  read(key: string): unknown
  /** @param ttlMs if omitted, the time to live stays */
  write(key: string, state: unknown, ttlMs?: number): void
}

/** A charge, evaluated before any is charged. */
export interface Evaluation {
  readonly usage: readonly MutableLimitState[]
  /** Permits that fit, also for a charge in shadow mode. */
  readonly fitting: number
  /** Permits that may be charged; 0 if the charge does not apply. */
  readonly chargeable: number
  /** A new penalty state to store, even though nothing is charged. */
  readonly changed?: PenaltyState
}

/** @param nowUs microseconds since the Unix epoch, an integer */
export function decide(request: DecisionRequest, nowUs: number, states: States): Decision {
  const { action, leaseMs = 0, charges } = request
  let hasNewIdentity = false
  const known: unknown[] = []
  const evaluations: Evaluation[] = []
  for (const charge of charges) {
    if (countsNewIdentities(charge) && !hasNewIdentity) {
      known.push(undefined)
      evaluations.push(skipCharge(charge, request))
      continue
    }
    const state = states.read(charge.key)
    hasNewIdentity ||= state === undefined && detectsNewIdentities(charge)
    const evaluation = evaluateCharge(charge, request, state, nowUs)
    if (evaluation.changed) {
      const commit = ALGORITHMS[charge.algorithm].implementation.commit(state, charge, nowUs, 0, 0, evaluation.changed)
      states.write(charge.key, commit.state, commit.ttlMs)
    }
    known.push(state)
    evaluations.push(evaluation)
  }
  const granted = countGranted(request, evaluations)
  if (granted > 0 && ACTIONS[action].charges) {
    for (let index = 0; index < charges.length; index++) {
      const charge = charges[index] as StoreCharge
      const { usage, chargeable } = evaluations[index] as Evaluation
      // A charge in shadow mode that would have refused stays unchanged, like an enforced one.
      if (granted > chargeable) continue
      const units = granted * charge.cost
      const { implementation } = ALGORITHMS[charge.algorithm]
      const { state, ttlMs, forfeited = 0 } = implementation.commit(known[index], charge, nowUs, units, leaseMs)
      states.write(charge.key, state, ttlMs)
      subtract(usage, units + forfeited)
    }
  }
  return { granted, nowMs: Math.floor(nowUs / 1000), usage: evaluations.map(({ usage }) => usage) }
}

export function evaluateCharge(
  charge: StoreCharge,
  request: Pick<DecisionRequest, 'action' | 'permits'>,
  state: unknown,
  nowUs: number,
): Evaluation {
  const { permits } = request
  const { charges, mayRefuse } = ACTIONS[request.action]
  const { cost, reserved } = charge
  const wanted = cost * countWanted(request)
  const { implementation } = ALGORITHMS[charge.algorithm]
  const { usage, penalty } = implementation.peek(state, charge, nowUs, wanted + reserved)
  const available = findMinRemaining(usage)
  // A refusal due to reserved units does not count. What one charge refuses is refused, so it can be counted at once.
  const isRefusal = charges && mayRefuse && available < wanted
  const { penaltyMs, changed } = penalize(charge, penalty, isRefusal, Math.floor(nowUs / 1000))
  const free = penaltyMs > 0 ? 0 : available - reserved
  const fitting = mayRefuse ? Math.max(0, Math.floor(free / cost)) : permits
  const isCharged = !mayRefuse || !isChargedLater(charge)
  const states = penaltyMs > 0 ? withPenalty(usage, penaltyMs) : usage
  const evaluation = { usage: states, fitting, chargeable: isCharged ? fitting : 0 }
  return changed ? { ...evaluation, changed } : evaluation
}

/** Units that remain of all limits; infinite if none is known. */
export function findMinRemaining(usage: readonly LimitState[]): number {
  let min = Number.POSITIVE_INFINITY
  for (const { remaining } of usage) min = Math.min(min, remaining)
  return min
}

/** True while a penalty refuses everything, whatever remains. */
export function hasPenalty(usage: readonly LimitState[]): boolean {
  return usage.some(({ penaltyMs }) => penaltyMs !== undefined)
}

/** Evaluates a charge that does not apply: nothing is used. */
export function skipCharge({ limits }: StoreCharge, { permits }: Pick<DecisionRequest, 'permits'>): Evaluation {
  const usage = limits.map(({ limit, windowMs }) => ({ remaining: limit, resetMs: windowMs, retryAfterMs: 0 }))
  return { usage, fitting: permits, chargeable: 0 }
}

/** @returns true for the limits of a charge that did not apply, as it counts new identities and there was none */
export function wasSkipped(charge: StoreCharge, usage: readonly LimitState[]): boolean {
  return countsNewIdentities(charge) && isUnused(charge, usage)
}

/** @returns true if all units of these limits remain */
export function isUnused({ limits }: StoreCharge, usage: readonly LimitState[]): boolean {
  return usage.every(({ remaining }, at) => remaining === limits[at]?.limit)
}

export function countGranted(
  { action, permits, charges }: DecisionRequest,
  evaluations: readonly Evaluation[],
): number {
  let granted = permits
  for (let index = 0; index < charges.length; index++) {
    if (isEnforced(charges[index] as StoreCharge))
      granted = Math.min(granted, (evaluations[index] as Evaluation).fitting)
  }
  return ACTIONS[action].grantsPart || granted === permits ? granted : 0
}

/** Permits without which nothing is granted. */
export function countWanted({ action, permits }: Pick<DecisionRequest, 'action' | 'permits'>): number {
  return ACTIONS[action].grantsPart ? 1 : permits
}

export function countsNewIdentities(charge: Pick<StoreCharge, 'counts'> | undefined): boolean {
  return COUNTS[charge?.counts ?? 'requests'].needsNewIdentity
}

/** A charge that counts failures may refuse, but nothing has failed yet. */
export function isChargedLater({ counts = 'requests' }: Pick<StoreCharge, 'counts'>): boolean {
  return COUNTS[counts].isChargedLater
}

/** Makes a charge unconditional, where not all is known that its condition depends on. */
export function withoutCondition(charge: StoreCharge): StoreCharge {
  return countsNewIdentities(charge) ? { ...charge, counts: 'requests' } : charge
}

/** If true, a missing state means a new identity. */
export function detectsNewIdentities(charge: StoreCharge): boolean {
  return !isChargedLater(charge) && ALGORITHMS[charge.algorithm].detectsNewIdentities === true
}

export function subtract(usage: readonly MutableLimitState[], units: number): void {
  for (const limit of usage) limit.remaining = Math.max(0, limit.remaining - units)
}

const FREE = { penaltyMs: 0 }

/**
 * Same as `lua/penalize.lua`. A refusal during a penalty does not extend it.
 * @param isRefusal true if the charge refuses by its limits, and the refusal counts
 * @returns the rest of the penalty, 0 without one; and a new state to store
 */
function penalize(
  charge: StoreCharge,
  known: PenaltyState | undefined,
  isRefusal: boolean,
  nowMs: number,
): { readonly penaltyMs: number; readonly changed?: PenaltyState } {
  const { penalty, limits } = charge
  if (!penalty || !isEnforced(charge)) return FREE
  const running = known && known.untilMs > nowMs ? known : undefined
  if (running?.refusals === 0) return { penaltyMs: running.untilMs - nowMs }
  if (!isRefusal) return FREE
  const refusals = (running?.refusals ?? 0) + 1
  const { durationMs, after } = penalty
  if (refusals >= after) return { penaltyMs: durationMs, changed: { refusals: 0, untilMs: nowMs + durationMs } }
  const untilMs = running?.untilMs ?? nowMs + Math.max(...limits.map(({ windowMs }) => windowMs))
  return { penaltyMs: 0, changed: { refusals, untilMs } }
}

/** Extends the retry-after times of limits by a penalty. */
export function withPenalty(usage: readonly LimitState[], penaltyMs: number): MutableLimitState[] {
  return usage.map((limit) => ({ ...limit, retryAfterMs: Math.max(limit.retryAfterMs, penaltyMs), penaltyMs }))
}
