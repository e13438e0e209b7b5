/**
 * Repeats refusals without a call to the store, so that a flood of refused requests costs next to nothing.
 *
 * Most refusals are certain: only time gives units back, so the same request is refused until its retry-after time, unless
 * units are used or returned before. `early-refusals.ts` knows of the others.
 *
 * A refusal that counts towards a penalty is never repeated, because the store must count it.
 */

import { holdsSlots } from '../../algorithms/algorithm-table.ts'
import { countsNewIdentities, findMinRemaining, hasPenalty } from '../../algorithms/decide.ts'
import { ACTIONS, type Decision, type DecisionRequest, type LimitState, type StoreCharge } from '../../model/charge.ts'
import { isEnforced } from '../../model/policy.ts'
import { type Store, StoreError } from '../../model/store.ts'
import type { CallContext } from '../../runtime/call-context.ts'
import { decorate, type StageWatch } from '../stages/stage.ts'
import type { CreateEarlyRefusals, EarlyRefusals, RepeatedRefusal } from './early-refusals.ts'
import { ageUsage, countUnits, findLongestRetryMs, findStandingMs } from './refusal-memory.ts'
import type { StatusCache } from './status-cache.ts'

/** The refusals to repeat: only those that are certain, or with `createEarlyRefusals` also those that may end early. */
export type RepeatedRefusals = 'none' | 'certain' | CreateEarlyRefusals

export interface RefusalCacheOptions {
  readonly statuses: StatusCache
  readonly repeats: RepeatedRefusals
  readonly now: () => number
  readonly watch?: StageWatch | undefined
}

/** A store, with what is known of its refusals. */
export interface RefusalCachingStore extends Store {
  readonly refusals: Pick<RefusalCache, 'find' | 'hasRoom'>
}

/** Remembers what the store replies, and repeats refusals. A `peek` is always answered by the store. */
export function withRefusalCache(store: Store, options: RefusalCacheOptions): RefusalCachingStore {
  const { statuses } = options
  const refusals = new RefusalCache(store, options)
  return decorate<Pick<RefusalCachingStore, 'refusals'>>(store, {
    refusals,
    decide: (request, context) => refusals.decide(request, context),
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
  readonly #early: EarlyRefusals | undefined

  constructor(store: Store, options: RefusalCacheOptions) {
    const { repeats, statuses, now } = options
    this.#store = store
    this.#options = options
    this.#early = typeof repeats === 'function' ? repeats(statuses, now) : undefined
  }

  async decide(request: DecisionRequest, context: CallContext | undefined): Promise<Decision> {
    const { action } = request
    if (!ACTIONS[action].charges) return this.#store.decide(request, context)
    const known = ACTIONS[action].mayRefuse ? this.find(request) : undefined
    if (known) return known
    const refused = this.#early?.isLikelyNew(request) ? await this.#refuseNewIdentity(request, context) : undefined
    return refused ?? this.#ask(request, context)
  }

  async #ask(request: DecisionRequest, context: CallContext | undefined): Promise<Decision> {
    const { statuses, now } = this.#options
    const sentAtMs = now()
    const repliesBefore = statuses.replies
    try {
      const decision = await this.#store.decide(request, context)
      const isConclusive = statuses.update(request, decision, sentAtMs, repliesBefore)
      if (decision.granted === 0) this.#noteRefusals(request, decision, sentAtMs, isConclusive)
      else this.#early?.noteAdmitted(request.charges)
      return decision
    } catch (error) {
      if (!(error instanceof StoreError) || error.mayHaveRun) statuses.invalidate(request)
      throw error
    }
  }

  /** @returns undefined if the identity may be admitted, or if a refusal is to be counted */
  async #refuseNewIdentity(request: DecisionRequest, context: CallContext | undefined): Promise<Decision | undefined> {
    const { statuses, now } = this.#options
    const sentAtMs = now()
    const repliesBefore = statuses.replies
    const seen = await this.#early?.peek(this.#store, request, context)
    const isCounted = request.charges.some((charge, index) => mustCount(charge, seen?.usage[index] ?? []))
    if (!seen || seen.granted > 0 || isCounted) return undefined
    this.#noteRefusals(request, seen, sentAtMs, statuses.update(request, seen, sentAtMs, repliesBefore))
    return seen
  }

  /** @returns a refusal that is repeated without a call; undefined if none is known */
  find(request: DecisionRequest): Decision | undefined {
    const { repeats, now, watch } = this.#options
    if (repeats === 'none') return undefined
    const { charges } = request
    const nowMs = now()
    const found = charges.map((_, at) => this.#findRefusal(request, at, nowMs))
    const first = found.find((one) => one !== undefined)?.refusal
    if (!first) return undefined
    const isRefusedAsNew = charges.some((charge, index) => found[index] && countsNewIdentities(charge))
    // Another charge may refuse for longer by now, or count the refusal. Of a new identity, nothing is used.
    const isComplete = charges.every(
      (charge, index) =>
        found[index] || (isRefusedAsNew && this.#early?.mayBeNew(charge)) || this.hasRoom(charge, request),
    )
    if (!isComplete) return undefined
    watch?.onAvoided('refusalCache', charges)
    const usage = found.map((one) => (one ? ageUsage(one.refusal, nowMs, one.maxWaitMs) : []))
    return { granted: 0, nowMs: first.nowMs + nowMs - first.sentAtMs, usage }
  }

  #findRefusal(request: DecisionRequest, at: number, nowMs: number): RepeatedRefusal | undefined {
    const charge = request.charges[at] as StoreCharge
    // Most callers have no refusal.
    const memory = isEnforced(charge) ? this.#options.statuses.get(charge)?.refusals : undefined
    const refusal = memory?.findCertain(countUnits(charge, request), nowMs)
    return refusal ? { refusal } : memory && this.#early?.find(request, at, nowMs)
  }

  /** @returns true if the charge would not refuse, as far as is known; units that may be released at any time are unknown */
  hasRoom(charge: StoreCharge, request: DecisionRequest): boolean {
    if (!isEnforced(charge)) return true
    // The store counts refusals that lead to a penalty, so it must be known that this one is none.
    if (!charge.penalty && (charge.needsSettlement || mayEndAnyTime(charge))) return true
    const { usage = [], isDoubtful = false } = this.#options.statuses.get(charge) ?? {}
    if (usage.length === 0) return !charge.penalty
    return !isDoubtful && !hasPenalty(usage) && findMinRemaining(usage) >= countUnits(charge, request)
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
      if (!isEnforced(charge) || findLongestRetryMs(limits) === 0) continue
      if (!isConclusive[index] || mustCount(charge, limits)) continue
      const mayEndEarly = !isEndedByTimeOnly(charge, limits)
      const untilMs = sentAtMs + findStandingMs(limits, mayEndEarly)
      const units = countUnits(charge, request)
      statuses.ensure(charge).addRefusal({ usage: limits, units, nowMs, sentAtMs, receivedAtMs, untilMs, mayEndEarly })
      this.#early?.noteRefused(request, index, usage, sentAtMs)
    }
  }
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

/** Refusals that lead to a penalty are counted by the store, each of them. */
function mustCount(charge: StoreCharge, limits: readonly LimitState[]): boolean {
  return isEnforced(charge) && charge.penalty !== undefined && findLongestRetryMs(limits) > 0 && !hasPenalty(limits)
}
