/**
 * Repeats refusals without a call to the store, so that a flood of refused requests costs next to nothing.
 *
 * Most refusals are certain: only time gives units back, so the same request is refused until its retry-after time, unless
 * units are used or returned before. Others may end at any time: a slot is released, a charge settled, or an identity
 * that was new becomes known. The store decides three of those a second, and the last one is repeated until the second
 * ends. The same holds for a fourth cost in a second.
 *
 * Two refusals are never repeated: one that counts towards a penalty, because the store must count it, and one of an
 * identity that may be known to the store: one that comes again is looked up.
 */
import { holdsSlots } from '../../algorithms/algorithm-table.ts'
import {
  countsNewIdentities,
  countWanted,
  detectsNewIdentities,
  findMinRemaining,
  hasPenalty,
} from '../../algorithms/decide.ts'
import type { Decision, DecisionRequest, LimitState, StoreCharge } from '../../model/charge.ts'
import { type Store, StoreError } from '../../model/store.ts'
import type { CallContext } from '../../runtime/call-context.ts'
import { ageUsage, findLongestRetryMs, findStandingMs } from './refusal-memory.ts'
import { SeenIdentities } from './seen-identities.ts'
import { decideSome, decorate, type StageWatch } from './stage.ts'
import type { StatusCache } from './status-cache.ts'

/** The refusals to repeat: only those that are certain, or also those that may end at any time. */
export type RepeatedRefusals = 'none' | 'certain' | 'all'

export interface RefusalCacheOptions {
  readonly statuses: StatusCache
  readonly repeats: RepeatedRefusals
  readonly now: () => number
  readonly watch?: StageWatch | undefined
}

/** Refusals by one key that the store decides in a second, before others are answered by what is known of them. */
const MAX_CALLS = 3

/** Remembers what the store replies, and repeats refusals. A `peek` is always answered by the store. */
export function withRefusalCache(store: Store, options: RefusalCacheOptions): Store {
  const { statuses } = options
  const cache = new RefusalCache(store, options)
  return decorate(store, {
    decide: (request, context) => cache.decide(request, context),
    async release(charges) {
      await store.release(charges)
      statuses.delete(charges.map(({ key }) => key))
    },
    async revoke(releases) {
      await store.revoke(releases)
      statuses.delete(releases.map(({ charge }) => charge.key))
    },
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

class RefusalCache {
  readonly #store: Store
  readonly #options: RefusalCacheOptions
  readonly #identities = new SeenIdentities()

  constructor(store: Store, options: RefusalCacheOptions) {
    this.#store = store
    this.#options = options
  }

  async decide(request: DecisionRequest, context: CallContext | undefined): Promise<Decision> {
    const { repeats, now, watch } = this.#options
    const { action } = request
    if (action === 'peek') return this.#store.decide(request, context)
    if (repeats !== 'none' && action !== 'record') {
      const known = this.#findDecision(request, now())
      if (known) {
        watch?.onAvoided('refusalCache')
        return known
      }
    }
    const isPeeked = repeats === 'all' && action === 'take' && this.#isLikelyNew(request)
    return (isPeeked && (await this.#peekNewIdentity(request, context))) || this.#ask(request, context)
  }

  async #ask(request: DecisionRequest, context: CallContext | undefined): Promise<Decision> {
    const { statuses, now } = this.#options
    const sentAtMs = now()
    const repliesBefore = statuses.replies
    try {
      const decision = await this.#store.decide(request, context)
      const isConclusive = statuses.update(request, decision, sentAtMs, repliesBefore)
      if (decision.granted === 0) this.#noteRefusals(request, decision, sentAtMs, isConclusive)
      else this.#identities.noteAdmitted(request.charges)
      return decision
    } catch (error) {
      if (!(error instanceof StoreError) || error.mayHaveRun) statuses.invalidate(request)
      throw error
    }
  }

  /**
   * Finds out whether an identity is known. With Durable Objects, a charge would have to be reverted.
   * @returns undefined if it may be admitted, or if a refusal is to be counted
   */
  async #peekNewIdentity(request: DecisionRequest, context: CallContext | undefined): Promise<Decision | undefined> {
    const { statuses, now } = this.#options
    const sentAtMs = now()
    const repliesBefore = statuses.replies
    const isPeeked = (charge: StoreCharge) => countsNewIdentities(charge) || this.#identities.mayBeNew(charge)
    const seen = await decideSome(this.#store, { ...request, action: 'peek' }, isPeeked, context)
    const isCounted = request.charges.some((charge, index) => mustCount(charge, seen.usage[index] ?? []))
    if (seen.granted > 0 || isCounted) return undefined
    this.#noteRefusals(request, seen, sentAtMs, statuses.update(request, seen, sentAtMs, repliesBefore))
    return seen
  }

  #findDecision(request: DecisionRequest, nowMs: number): Decision | undefined {
    const { charges } = request
    const found = charges.map((charge, index) => this.#findRefusal(charge, index, request, nowMs))
    const first = found.find((one) => one !== undefined)?.refusal
    if (!first) return undefined
    const isRefusedAsNew = charges.some((charge, index) => found[index] && countsNewIdentities(charge))
    // Another charge may refuse for longer by now, or count the refusal. Of a new identity, nothing is used.
    const isComplete = charges.every(
      (charge, index) =>
        found[index] || (isRefusedAsNew && this.#identities.mayBeNew(charge)) || this.#hasRoom(charge, request),
    )
    if (!isComplete) return undefined
    const usage = found.map((one) => (one ? ageUsage(one.refusal, nowMs, one.maxWaitMs) : []))
    return { granted: 0, nowMs: first.nowMs + nowMs - first.sentAtMs, usage }
  }

  #findRefusal(charge: StoreCharge, index: number, request: DecisionRequest, nowMs: number) {
    const { statuses, repeats } = this.#options
    // Most callers have no refusal.
    const memory = charge.mode === 'enforce' ? statuses.get(charge)?.refusals : undefined
    if (!memory) return undefined
    const units = countUnits(charge, request)
    const certain = memory.findCertain(units, nowMs)
    if (certain) return { refusal: certain }
    const calls = memory.countCalls(nowMs)
    if (repeats !== 'all' || calls < MAX_CALLS) return undefined
    const detecting = countsNewIdentities(charge) ? listDetecting(request, index) : undefined
    if (detecting && !this.#identities.areRefused(detecting, calls, nowMs)) return undefined
    const refusal = memory.findClosest(units, nowMs)
    // An identity that was not looked up will be when it comes again.
    const isGuess = detecting && !detecting.some(({ key }) => this.#identities.isNew(key, nowMs))
    return refusal && { refusal, ...(isGuess && { maxWaitMs: memory.spanEndMs - nowMs }) }
  }

  /** @returns true if the charge would not refuse, as far as is known; units that may be released at any time are unknown */
  #hasRoom(charge: StoreCharge, request: DecisionRequest): boolean {
    if (charge.mode === 'shadow') return true
    // The store counts refusals that lead to a penalty, so it must be known that this one is none.
    if (!charge.penalty && (charge.needsSettlement || mayEndAnyTime(charge))) return true
    const { usage = [], isDoubtful = false } = this.#options.statuses.get(charge) ?? {}
    if (usage.length === 0) return !charge.penalty
    return !isDoubtful && !hasPenalty(usage) && findMinRemaining(usage) >= countUnits(charge, request)
  }

  /** @returns true if too many new identities were refused lately, and this one is not known here */
  #isLikelyNew(request: DecisionRequest): boolean {
    const { statuses, now } = this.#options
    return request.charges.some((charge, index) => {
      if (!countsNewIdentities(charge) || charge.mode === 'shadow') return false
      const refusal = statuses.get(charge)?.refusals?.findClosest(countUnits(charge, request), now())
      return refusal && listDetecting(request, index).some((one) => this.#identities.mayBeNew(one))
    })
  }

  #noteRefusals(
    request: DecisionRequest,
    { usage, nowMs, isProvisional }: Decision,
    sentAtMs: number,
    isConclusive: readonly boolean[],
  ): void {
    if (isProvisional) return
    const { statuses, now } = this.#options
    const receivedAtMs = now()
    for (const [index, charge] of request.charges.entries()) {
      const limits = usage[index] ?? []
      if (charge.mode === 'shadow' || findLongestRetryMs(limits) === 0) continue
      if (!isConclusive[index] || mustCount(charge, limits)) continue
      const mayEndEarly = !isEndedByTimeOnly(charge, limits)
      const untilMs = sentAtMs + findStandingMs(limits, mayEndEarly)
      const units = countUnits(charge, request)
      statuses.ensure(charge).addRefusal({ usage: limits, units, nowMs, sentAtMs, receivedAtMs, untilMs, mayEndEarly })
      if (!countsNewIdentities(charge)) continue
      for (const one of listDetecting(request, index)) {
        if (isUnused(one, usage[request.charges.indexOf(one)] ?? [])) this.#identities.noteNew(one.key, sentAtMs)
      }
    }
  }
}

/** The charges by which one that counts new identities finds out whether there is one. */
function listDetecting({ charges }: Pick<DecisionRequest, 'charges'>, index: number): readonly StoreCharge[] {
  return charges.slice(0, index).filter(detectsNewIdentities)
}

function isUnused({ limits }: StoreCharge, usage: readonly LimitState[]): boolean {
  return usage.length > 0 && usage.every(({ remaining }, at) => remaining === limits[at]?.limit)
}

/** Slots are released, and new identities become known, at times that the limits do not say. */
function mayEndAnyTime(charge: StoreCharge): boolean {
  return countsNewIdentities(charge) || holdsSlots(charge)
}

/** @returns true for a refusal that nothing ends before its retry-after time; during a penalty, returned units do not */
function isEndedByTimeOnly(charge: StoreCharge, limits: readonly LimitState[]): boolean {
  if (mayEndAnyTime(charge)) return false
  const [limit] = limits
  return !charge.needsSettlement || (limit?.penaltyMs !== undefined && limit.penaltyMs === findLongestRetryMs(limits))
}

function mayPenalize({ mode, penalty }: StoreCharge): boolean {
  return mode === 'enforce' && penalty !== undefined
}

/** Refusals that lead to a penalty are counted by the store, each of them. */
function mustCount(charge: StoreCharge, limits: readonly LimitState[]): boolean {
  return mayPenalize(charge) && findLongestRetryMs(limits) > 0 && !hasPenalty(limits)
}

/** Units that must remain for a request to fit, reserved ones included. */
function countUnits({ cost, reserved }: StoreCharge, request: DecisionRequest): number {
  return cost * countWanted(request) + reserved
}
