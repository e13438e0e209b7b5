/**
 * One decision over charges in several places, each of which takes one call: hash slots of a Redis Cluster, or databases.
 * It asks all places and, if all have room, charges them: at once if that is plenty, else one after the other. Each call
 * holds the limits of its place by itself, so none is ever exceeded. If another decision has taken the room meanwhile, what
 * was charged before is given back, as far as its algorithm can.
 *
 * Durable Objects decide together in another way (`store/durable-object/negotiation.ts`), and both are better where they
 * are. An object can keep a charge open: all reserve at once, and are told how it ended, so one round decides and nothing
 * stays charged. A script in Redis forgets what it was asked, so it must be asked first. They share the rules of
 * `algorithms/decide.ts`: what is granted, and which charges apply to a new identity.
 */
import { ALGORITHMS, holdsSlots } from '../../algorithms/algorithm-table.ts'
import {
  countGranted,
  countsNewIdentities,
  countWanted,
  detectsNewIdentities,
  findMinRemaining,
  isChargedLater,
  skipCharge,
  withoutCondition,
  withPenalty,
} from '../../algorithms/decide.ts'
import type { Decision, DecisionRequest, LimitState, StoreCharge } from '../../model/charge.ts'
import { type Store, StoreError } from '../../model/store.ts'
import { type CallContext, Deadlines, TOO_LATE } from '../../runtime/call-context.ts'
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

/** @param timeoutMs deadline of the decision @throws {StoreError} if a place gives no answer in time: it may have charged */
export async function decideInPlaces(
  request: DecisionRequest,
  places: readonly ChargePlace[],
  timeoutMs: number,
  context: CallContext | undefined,
): Promise<Decision> {
  const split = new SplitDecision(request, places, context)
  const decided = await (context?.deadlines ?? Deadlines.createForOne()).waitWithin(timeoutMs, split.decide())
  if (decided === TOO_LATE) {
    split.isOver = true
    throw new StoreError('Redis did not answer within the deadline')
  }
  for (const { charges, nowMs, times } of split.places) {
    for (const { key } of charges) times.remember(key, decided.nowMs, nowMs)
  }
  return decided
}

/** A key, or what is counted under one. */
export type Keyed = string | StoreCharge | { readonly charge: StoreCharge }

/** @returns the hash tag of a key, in its braces: the digest */
export function readTag(item: Keyed): string {
  const key = typeof item === 'string' ? item : 'key' in item ? item.key : item.charge.key
  return key.slice(Math.max(0, key.lastIndexOf('{')))
}

/** `Map.groupBy` is missing in Node 20. */
export function groupBy<Item, Group>(items: readonly Item[], find: (item: Item) => Group): Map<Group, Item[]> {
  const groups = new Map<Group, Item[]>()
  for (const item of items) {
    const name = find(item)
    const group = groups.get(name)
    if (group) group.push(item)
    else groups.set(name, [item])
  }
  return groups
}

const NONE = Number.POSITIVE_INFINITY
/** Of each limit: what others take meanwhile is rarely more. */
const SHARE_TO_SPARE = 0.5

/** A place, with its latest answers. */
interface PlaceState extends ChargePlace {
  readonly usage: Map<StoreCharge, readonly LimitState[]>
  /** By its own clock. */
  nowMs: number
}

class SplitDecision {
  readonly #request: DecisionRequest
  readonly places: readonly PlaceState[]
  readonly #context: CallContext | undefined
  /** Nothing more is sent once it is true. */
  isOver = false
  /** Index of the first charge that has detected a new identity. */
  #firstNew = NONE

  constructor(request: DecisionRequest, places: readonly ChargePlace[], context: CallContext | undefined) {
    this.#request = request
    // For the script, they too detect new identities for those behind them.
    const isLast = (charge: StoreCharge) => Number(countsNewIdentities(charge))
    this.places = places.map((place) => {
      const charges = place.charges.toSorted((a, b) => isLast(a) - isLast(b))
      return { ...place, charges, usage: new Map(), nowMs: 0 }
    })
    this.#context = context
  }

  /** @throws {StoreError} if a place gives no answer: it may have charged */
  async decide(): Promise<Decision> {
    const { action, permits, charges } = this.#request
    if (action === 'record') {
      if (charges.some(countsNewIdentities)) await this.#ask()
      await Promise.all(this.places.map((place) => this.#send(place, action, permits)))
      return this.#conclude(permits)
    }
    const granted = await this.#ask()
    if (granted > 0 && action !== 'peek') return this.#take(granted)
    if (action !== 'peek') await Promise.all(this.places.map((place) => this.#recordRefusals(place)))
    return this.#conclude(granted)
  }

  /** @returns the permits that fit everywhere */
  async #ask(): Promise<number> {
    const { permits, charges } = this.#request
    const wanted = countWanted(this.#request)
    await Promise.all(this.places.map((place) => this.#send(place, 'peek', wanted)))
    const evaluations = charges.map((charge) => {
      const fitting = this.#applies(charge) ? countFitting(charge, this.#getUsage(charge)) : permits
      return { usage: [], fitting, chargeable: fitting }
    })
    return countGranted(this.#request, evaluations)
  }

  async #take(fitting: number): Promise<Decision> {
    const firstNew = this.#firstNew
    const taken: { place: PlaceState; decision: Decision }[] = []
    let granted = fitting
    const giveBack = () => Promise.all(taken.map(({ place, decision }) => this.#giveBack(place, decision, granted)))
    try {
      for (const round of this.#listRounds(fitting)) {
        const limit = granted
        const sent = round.map(async (place) => {
          const decision = await this.#send(place, this.#request.action, limit)
          if (!decision) return
          granted = Math.min(granted, decision.granted)
          if (decision.granted > 0) taken.push({ place, decision })
        })
        // What the others have charged must be known, to be given back.
        await Promise.allSettled(sent)
        await Promise.all(sent)
        if (granted === 0) break
      }
    } catch (error) {
      granted = 0
      await giveBack()
      throw error
    }
    await giveBack()
    // Charges apply that did not when all were asked.
    if (this.#firstNew < firstNew) throw new StoreError('an identity became new while it was decided')
    // Another decision that has taken the room may give it back.
    return { ...this.#conclude(granted), ...(granted === 0 && { isProvisional: true }) }
  }

  /** Places that have room to spare are charged at once, which nobody is likely to refuse; else one after the other. */
  #listRounds(permits: number): readonly (readonly PlaceState[])[] {
    const ranked = this.places.map((place) => ({ place, rank: this.#rank(place, permits) }))
    if (ranked.every(({ rank }) => rank >= SHARE_TO_SPARE)) return [this.places]
    return ranked.sort((a, b) => a.rank - b.rank).map(({ place }) => [place])
  }

  /**
   * The place with the limit of which the smallest share will remain comes first: it is the likeliest to refuse, and nothing
   * is charged yet. New identities are counted before they become known.
   */
  #rank({ charges }: PlaceState, permits: number): number {
    const applying = charges.filter((charge) => this.#applies(charge))
    if (applying.some(countsNewIdentities)) return applying.some(detectsIdentities) ? -2 : -3
    const shares = applying.flatMap((charge) => {
      const { mode, cost, limits, burst } = charge
      const usage = mode === 'enforce' ? this.#getUsage(charge) : []
      return usage.map(({ remaining }, at) => (remaining - permits * cost) / (burst ?? limits[at]?.limit ?? 1))
    })
    return Math.min(NONE, ...shares)
  }

  /** @returns undefined if no charge of the place applies */
  async #send(place: PlaceState, action: DecisionRequest['action'], permits: number): Promise<Decision | undefined> {
    // When it asks, it does not know yet which identities are new.
    const included = action === 'peek' ? place.charges : place.charges.filter((charge) => this.#applies(charge))
    if (included.length === 0) return undefined
    const { charges } = this.#request
    const lastSkipped = action === 'record' ? -1 : charges.findLastIndex((charge) => !this.#applies(charge))
    // Others that do not apply must still not, when it is charged.
    const isProbed = (charge: StoreCharge) =>
      !place.isNext && detectsIdentities(charge) && charges.indexOf(charge) < lastSkipped
    const sent = included.flatMap((charge) => {
      return isProbed(charge) ? [charge, createProbe(charge)] : [withoutCondition(charge)]
    })
    if (this.isOver) throw new StoreError('it is too late to charge more')
    const decision = await place.store.decide({ ...this.#request, action, permits, charges: sent }, this.#context)
    const answers = decision.usage.values()
    place.nowMs = decision.nowMs
    for (const charge of included) {
      place.usage.set(charge, answers.next().value ?? [])
      const isNew = isProbed(charge) && refuses(answers.next().value)
      if (isNew) this.#firstNew = Math.min(this.#firstNew, charges.indexOf(charge))
    }
    return decision
  }

  /** Units stay charged if their algorithm cannot give them back, or in shadow mode, which refuses nobody. */
  async #giveBack(place: PlaceState, { granted: charged, nowMs }: Decision, granted: number): Promise<void> {
    const charges = place.charges.filter((charge) => !isChargedLater(charge) && this.#applies(charge))
    const differences = charges
      .filter(({ mode, algorithm }) => mode === 'enforce' && ALGORITHMS[algorithm].implementation.settle)
      .map((charge) => ({ charge, units: (granted - charged) * charge.cost }))
    const held = granted === 0 ? charges.filter(holdsSlots) : []
    try {
      if (differences.length > 0 && charged > granted) await place.store.settle(differences, nowMs)
      if (held.length > 0) await place.store.release(held)
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
    }
  }

  /** Charges with a penalty must count that they refuse, but must not charge, even if they have room again by now. */
  async #recordRefusals(place: PlaceState): Promise<void> {
    const refusing = place.charges.filter((charge) => {
      const usage = this.#getUsage(charge)
      const isCounted = charge.penalty && charge.mode === 'enforce' && usage[0]?.penaltyMs === undefined
      return isCounted && refuses(usage) && this.#applies(charge)
    })
    if (refusing.length === 0) return
    const charges = refusing.map((charge) => ({ ...withoutCondition(charge), reserved: Number.MAX_SAFE_INTEGER }))
    const { usage, nowMs } = await place.store.decide({ ...this.#request, charges }, this.#context)
    place.nowMs = nowMs
    for (const [index, charge] of refusing.entries()) {
      const penaltyMs = usage[index]?.[0]?.penaltyMs
      if (penaltyMs !== undefined) place.usage.set(charge, withPenalty(this.#getUsage(charge), penaltyMs))
    }
  }

  #conclude(granted: number): Decision {
    const usage = this.#request.charges.map((charge) =>
      this.#applies(charge) ? this.#getUsage(charge) : skipCharge(charge, this.#request).usage,
    )
    return { granted, nowMs: Math.max(...this.places.map(({ nowMs }) => nowMs)), usage }
  }

  #applies(charge: StoreCharge): boolean {
    return !countsNewIdentities(charge) || this.#request.charges.indexOf(charge) > this.#firstNew
  }

  /** If several places count a charge, the stricter one decides. */
  #getUsage(charge: StoreCharge): readonly LimitState[] {
    const answers = this.places.flatMap(({ usage }) => [usage.get(charge) ?? []]).filter(({ length }) => length > 0)
    return answers.reduce<readonly LimitState[]>(findStricter, [])
  }
}

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
