import { holdsSlots } from '../../algorithms/algorithm-table.ts'
import { countWanted, findMinRemaining } from '../../algorithms/decide.ts'
import type { Decision, DecisionRequest, LimitState, StoreCharge } from '../../model/charge.ts'
import { type Store, StoreError } from '../../model/store.ts'
import { Lru } from '../../runtime/lru.ts'
import { decorate, type StageWatch } from './stage.ts'
import { formatStatusName, hasPenalty, StatusCache } from './status-cache.ts'

const MAX_ENTRIES = 10_000
/** A counter that was reset, or a limit that was raised, takes effect after this at the latest. */
const MAX_AGE_MS = 5_000

export interface Refusal {
  readonly usage: readonly LimitState[]
  readonly nowMs: number
  /** The store decided between these two. */
  readonly sentAtMs: number
  readonly receivedAtMs: number
  readonly untilMs: number
  /** From the key's status: any sign that units were used since invalidates these times. */
  readonly usedAtReply: number
}

/**
 * Repeats refusals without a call: a refused caller is refused the same cost until its retry-after time, unless units
 * were used since. So a flood of refused requests costs no calls. A refusal is cached for the charge that refused and for
 * its cost; a cheaper request, or another policy, is still decided by the store. Refusals that count towards a penalty
 * are not cached, because the store must count them; those by a penalty are. A `peek` is always answered by the store.
 */
export function withRefusalCache(store: Store, now: () => number, watch?: StageWatch): Store {
  const cached = new Lru<Refusal>(MAX_ENTRIES)
  const statuses = new StatusCache()

  const decide: Store['decide'] = async (request, context) => {
    if (request.action === 'peek') return store.decide(request, context)
    const sentAtMs = now()
    const known = findDecision(request, sentAtMs)
    if (known) {
      watch?.onAvoided('refusalCache')
      return known
    }
    const repliesBefore = statuses.replies
    try {
      const decision = await store.decide(request, context)
      const isConclusive = statuses.update(request, decision, sentAtMs, repliesBefore)
      if (decision.granted === 0 && !decision.isProvisional) keepRefusals(request, decision, sentAtMs, isConclusive)
      return decision
    } catch (error) {
      if (!(error instanceof StoreError) || error.mayHaveRun) statuses.invalidate(request)
      throw error
    }
  }

  function findDecision(request: DecisionRequest, nowMs: number): Decision | undefined {
    if (request.action === 'record') return undefined
    const refusals = request.charges.map((charge) => find(charge, countUnits(charge, request), nowMs))
    const first = refusals.find((refusal) => refusal !== undefined)
    if (!first) return undefined
    // Another charge may refuse for longer by now.
    const isComplete = request.charges.every(
      (charge, index) => refusals[index] || hasRoom(charge, countUnits(charge, request)),
    )
    if (!isComplete) return undefined
    const usage = refusals.map((refusal) => (refusal ? ageUsage(refusal, nowMs) : []))
    return { granted: 0, nowMs: first.nowMs + nowMs - first.sentAtMs, usage }
  }

  function find(charge: StoreCharge, units: number, nowMs: number): Refusal | undefined {
    const status = canCache(charge) ? statuses.get(charge) : undefined
    // Most callers have no refusal, and building its name takes time.
    if (!status || status.refusedAtUse !== status.usedAtReply) return undefined
    const refusal = cached.get(formatRefusalName(charge, units))
    // A clock that stepped back says nothing about how much time has passed.
    if (!refusal || nowMs >= refusal.untilMs || nowMs < refusal.receivedAtMs) return undefined
    return refusal.usedAtReply === status.usedAtReply ? refusal : undefined
  }

  /** @returns true if the charge would not refuse, as far as is known; units that may be released at any time are unknown */
  function hasRoom(charge: StoreCharge, units: number): boolean {
    const { mode, needsSettlement, penalty } = charge
    if (mode === 'shadow' || (needsSettlement && !penalty) || holdsSlots(charge)) return true
    const usage = statuses.get(charge)?.usage ?? []
    // The store counts its refusals.
    if (penalty && usage.length === 0) return false
    return !hasPenalty(usage) && findMinRemaining(usage) >= units
  }

  function keepRefusals(
    request: DecisionRequest,
    decision: Decision,
    sentAtMs: number,
    isConclusive: readonly boolean[],
  ): void {
    const { nowMs, usage } = decision
    request.charges.forEach((charge, index) => {
      const limits = usage[index] ?? []
      // The limit with the longest wait: the refusal stands until it has more units.
      const decisive = limits.toSorted((a, b) => b.retryAfterMs - a.retryAfterMs)[0]
      const status = statuses.get(charge)
      if (!decisive || !isCacheable(charge, decisive) || !isConclusive[index] || !status) return
      const { usedAtReply } = status
      status.refusedAtUse = usedAtReply
      // During a penalty, more remaining units change nothing.
      const { penaltyMs = decisive.resetMs } = decisive
      const untilMs = sentAtMs + Math.min(penaltyMs, decisive.retryAfterMs, MAX_AGE_MS)
      const refusal = { usage: limits, nowMs, sentAtMs, receivedAtMs: now(), untilMs, usedAtReply }
      cached.set(formatRefusalName(charge, countUnits(charge, request)), refusal)
    })
  }

  return decorate(store, {
    decide,
    async settle(differences, chargedAtMs) {
      await store.settle(differences, chargedAtMs)
      statuses.delete(differences.map(({ charge }) => charge.key))
    },
    async delete(keys) {
      await store.delete(keys)
      statuses.delete(keys)
    },
  })
}

function canCache(charge: StoreCharge): boolean {
  const { mode, counts, penalty } = charge
  if (mode === 'shadow' || counts === 'new-identities' || holdsSlots(charge)) return false
  return penalty !== undefined || isOnlySpent(charge)
}

/** The retry-after time must hold: during a penalty it does, whatever units are given back. */
function isCacheable(charge: StoreCharge, { retryAfterMs, penaltyMs }: LimitState): boolean {
  if (!canCache(charge) || retryAfterMs === 0) return false
  if (!charge.penalty) return true
  return penaltyMs !== undefined && (penaltyMs === retryAfterMs || isOnlySpent(charge))
}

/** Settled charges may be reduced at any time, and reserved units used by higher priorities. */
function isOnlySpent({ reserved, needsSettlement }: StoreCharge): boolean {
  return reserved === 0 && !needsSettlement
}

/** Units that must remain for a request to fit, reserved ones included. */
export function countUnits({ cost, reserved }: StoreCharge, request: DecisionRequest): number {
  return cost * countWanted(request) + reserved
}

function formatRefusalName(charge: StoreCharge, units: number): string {
  return `${formatStatusName(charge)} ${units}`
}

/** The limits of an earlier refusal, as they are now. */
export function ageUsage(
  { usage, sentAtMs, receivedAtMs }: Omit<Refusal, 'nowMs' | 'untilMs' | 'usedAtReply'>,
  nowMs: number,
): LimitState[] {
  // Counted from the later timestamp, so that a caller who waits that long need not wait again.
  const aged = (ms: number) => (ms === 0 ? 0 : Math.max(1, ms - (nowMs - receivedAtMs)))
  return usage.map(({ remaining, resetMs, retryAfterMs, penaltyMs }) => ({
    remaining,
    resetMs: Math.max(0, resetMs - (nowMs - sentAtMs)),
    retryAfterMs: aged(retryAfterMs),
    ...(penaltyMs !== undefined && { penaltyMs: aged(penaltyMs) }),
  }))
}
