/**
 * Plans the calls of one decision over charges in several places, and keeps what these have answered: no I/O. What a call
 * sends follows from the answers before it, because charges of new identities apply only once one has been detected.
 */

import {
  countGranted,
  countsNewIdentities,
  countWanted,
  detectsNewIdentities,
  findMinRemaining,
  skipCharge,
  withoutCondition,
  withPenalty,
} from '../../algorithms/decide.ts'
import { ACTIONS, type Decision, type DecisionRequest, type LimitState, type StoreCharge } from '../../model/charge.ts'
import { isEnforced } from '../../model/policy.ts'
import type { Store } from '../../model/store.ts'
import type { ChargeTimes } from '../../store/charge-times.ts'

/** Charges that one call decides, and where it goes. */
export interface ChargePlace {
  readonly store: Pick<Store, 'decide' | 'settle' | 'release'>
  readonly charges: readonly StoreCharge[]
  /** It is about to replace another place, which counts the same charges: an identity that is new here may be known there. */
  readonly isNext?: boolean
  /** Is told when the place made its charges. */
  readonly times: ChargeTimes
}

/** A place, with its latest answers. */
export interface AnsweringPlace extends ChargePlace {
  readonly usage: Map<StoreCharge, readonly LimitState[]>
  /** Its own clock showed this when it answered. */
  nowMs: number
}

/** A call to one place. */
export interface PlannedCall {
  readonly place: AnsweringPlace
  readonly request: DecisionRequest
  /** The charges that it decides. Those that are probed have a second entry in its request, behind their own. */
  readonly charges: readonly StoreCharge[]
  readonly probed: ReadonlySet<StoreCharge>
}

/** No charge has detected a new identity. */
const NONE = Number.POSITIVE_INFINITY
/** This share of each limit is spared: others rarely take more between two calls. */
const SHARE_TO_SPARE = 0.5

export class SplitPlan {
  readonly places: readonly AnsweringPlace[]
  readonly #request: DecisionRequest
  /** Index of the first charge that has detected a new identity. */
  #firstNew = NONE

  constructor(request: DecisionRequest, places: readonly ChargePlace[]) {
    this.#request = request
    // For the script, they too detect new identities for those behind them.
    const isLast = (charge: StoreCharge) => Number(countsNewIdentities(charge))
    this.places = places.map((place) => {
      const charges = place.charges.toSorted((a, b) => isLast(a) - isLast(b))
      return { ...place, charges, usage: new Map(), nowMs: 0 }
    })
  }

  get firstNew(): number {
    return this.#firstNew
  }

  /** Asks all places: it is not known yet which identities are new, so all charges are included. */
  planQuestions(): PlannedCall[] {
    const wanted = countWanted(this.#request)
    return this.places.map((place) => this.#plan(place, place.charges, 'peek', wanted))
  }

  /** @returns places that are charged at once, one round after the other */
  planRounds(permits: number): (readonly AnsweringPlace[])[] {
    const ranked = this.places.map((place) => ({ place, ...this.#rank(place, permits) }))
    // No place is likely to refuse where there is room to spare.
    if (ranked.every(({ order, share }) => order === LAST && share >= SHARE_TO_SPARE)) return [this.places]
    return ranked.sort((a, b) => a.order - b.order || a.share - b.share).map(({ place }) => [place])
  }

  /** Charges what applies by now. @returns undefined if nothing does */
  planCharge(place: AnsweringPlace, permits: number): PlannedCall | undefined {
    const charges = place.charges.filter((charge) => this.applies(charge))
    return charges.length > 0 ? this.#plan(place, charges, this.#request.action, permits) : undefined
  }

  /** Charges with a penalty must count that they refuse, but must not charge, even if they have room again by now. */
  planRefusals(): PlannedCall[] {
    return this.places.flatMap((place) => {
      const charges = place.charges.filter((charge) => {
        const usage = this.#getUsage(charge)
        const isCounted = charge.penalty && isEnforced(charge) && usage[0]?.penaltyMs === undefined
        return isCounted && refuses(usage) && this.applies(charge)
      })
      if (charges.length === 0) return []
      const sent = charges.map((charge) => ({ ...withoutCondition(charge), reserved: Number.MAX_SAFE_INTEGER }))
      return [{ place, request: { ...this.#request, charges: sent }, charges, probed: new Set() }]
    })
  }

  note({ place, charges, probed }: PlannedCall, { nowMs, usage }: Decision): void {
    const answers = usage.values()
    place.nowMs = nowMs
    for (const charge of charges) {
      place.usage.set(charge, answers.next().value ?? [])
      const isNew = probed.has(charge) && refuses(answers.next().value)
      if (isNew) this.#firstNew = Math.min(this.#firstNew, this.#request.charges.indexOf(charge))
    }
  }

  /** Notes only which refusals have led to a penalty: the limits are those by which they were refused. */
  noteRefusals({ place, charges }: PlannedCall, { nowMs, usage }: Decision): void {
    place.nowMs = nowMs
    for (const [index, charge] of charges.entries()) {
      const penaltyMs = usage[index]?.[0]?.penaltyMs
      if (penaltyMs !== undefined) place.usage.set(charge, withPenalty(this.#getUsage(charge), penaltyMs))
    }
  }

  /** @returns the permits that fit everywhere */
  countFitting(): number {
    const { permits, charges } = this.#request
    const evaluations = charges.map((charge) => {
      const fitting = this.applies(charge) ? countFitting(charge, this.#getUsage(charge)) : permits
      return { usage: [], fitting, chargeable: fitting }
    })
    return countGranted(this.#request, evaluations)
  }

  conclude(granted: number): Decision {
    const usage = this.#request.charges.map((charge) =>
      this.applies(charge) ? this.#getUsage(charge) : skipCharge(charge, this.#request).usage,
    )
    return { granted, nowMs: Math.max(...this.places.map(({ nowMs }) => nowMs)), usage }
  }

  applies(charge: StoreCharge): boolean {
    return !countsNewIdentities(charge) || this.#request.charges.indexOf(charge) > this.#firstNew
  }

  #plan(
    place: AnsweringPlace,
    charges: readonly StoreCharge[],
    action: DecisionRequest['action'],
    permits: number,
  ): PlannedCall {
    const all = this.#request.charges
    const lastSkipped = !ACTIONS[action].mayRefuse ? -1 : all.findLastIndex((charge) => !this.applies(charge))
    // Others that do not apply must still not, when it is charged.
    const isProbed = (charge: StoreCharge) =>
      !place.isNext && detectsIdentities(charge) && all.indexOf(charge) < lastSkipped
    const probed = new Set(charges.filter(isProbed))
    const sent = charges.flatMap((charge) =>
      probed.has(charge) ? [charge, createProbe(charge)] : [withoutCondition(charge)],
    )
    return { place, request: { ...this.#request, action, permits, charges: sent }, charges, probed }
  }

  /**
   * New identities are counted before they become known. Then the place with the limit of which the smallest share will
   * remain comes first: it is the likeliest to refuse, and nothing is charged yet.
   */
  #rank(place: AnsweringPlace, permits: number): { readonly order: number; readonly share: number } {
    const charges = place.charges.filter((charge) => this.applies(charge))
    const shares = charges.flatMap((charge) => {
      const { cost, limits, burst } = charge
      const usage = isEnforced(charge) ? this.#getUsage(charge) : []
      return usage.map(({ remaining }, at) => (remaining - permits * cost) / (burst ?? limits[at]?.limit ?? 1))
    })
    const order = !charges.some(countsNewIdentities) ? LAST : charges.some(detectsIdentities) ? SECOND : FIRST
    return { order, share: Math.min(NONE, ...shares) }
  }

  /** If several places count a charge, the stricter one decides. */
  #getUsage(charge: StoreCharge): readonly LimitState[] {
    const answers = this.places.flatMap(({ usage }) => [usage.get(charge) ?? []]).filter(({ length }) => length > 0)
    return answers.reduce<readonly LimitState[]>(findStricter, [])
  }
}

/** Places that count new identities; those that also detect them, which makes them known; and all others. */
const [FIRST, SECOND, LAST] = [0, 1, 2]

function findStricter(before: readonly LimitState[], other: readonly LimitState[]): readonly LimitState[] {
  return other.map((limit, at) => {
    const known = before[at]
    if (!known) return limit
    const penaltyMs = Math.max(limit.penaltyMs ?? 0, known.penaltyMs ?? 0)
    return {
      ...(limit.remaining < known.remaining ? limit : known),
      retryAfterMs: Math.max(limit.retryAfterMs, known.retryAfterMs),
      ...(penaltyMs > 0 && { penaltyMs }),
    }
  })
}

function detectsIdentities(charge: StoreCharge): boolean {
  return !countsNewIdentities(charge) && detectsNewIdentities(charge)
}

/** Refuses if the charge before it has detected a new identity. It costs too much to be charged. */
function createProbe({ key, algorithm, limits }: StoreCharge): StoreCharge {
  const cost = (limits[0]?.limit ?? 0) + 1
  return { key, algorithm, limits, cost, mode: 'enforce', reserved: 0, counts: 'new-identities' }
}

function countFitting({ cost, reserved }: StoreCharge, usage: readonly LimitState[]): number {
  if (usage[0]?.penaltyMs !== undefined) return 0
  return Math.max(0, Math.floor((findMinRemaining(usage) - reserved) / cost))
}

function refuses(usage: readonly LimitState[] | undefined): boolean {
  return usage?.some(({ retryAfterMs }) => retryAfterMs > 0) === true
}
