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
import { countsNewIdentities, isChargedLater } from '../../algorithms/decide.ts'
import { ACTIONS, type Decision, type DecisionRequest } from '../../model/charge.ts'
import { isEnforced } from '../../model/policy.ts'
import { StoreError } from '../../model/store.ts'
import { type CallContext, Deadlines, TOO_LATE } from '../../runtime/call-context.ts'
import { type ChargePlace, type PlannedCall, SplitPlan } from './split-plan.ts'

/** @param timeoutMs deadline of the decision @throws {StoreError} if a place gives no answer in time: it may have charged */
export async function decideInPlaces(
  request: DecisionRequest,
  places: readonly ChargePlace[],
  timeoutMs: number,
  context: CallContext | undefined,
): Promise<Decision> {
  const split = new SplitDecision(request, new SplitPlan(request, places), context)
  const decided = await (context?.deadlines ?? Deadlines.createForOne()).waitWithin(timeoutMs, split.decide())
  if (decided === TOO_LATE) {
    split.isOver = true
    throw new StoreError('Redis did not answer within the deadline')
  }
  for (const { charges, nowMs, times } of split.plan.places) {
    for (const { key } of charges) times.remember(key, decided.nowMs, nowMs)
  }
  return decided
}

/** A call that has charged, and what it was granted. */
interface Taken {
  readonly call: PlannedCall
  readonly decision: Decision
}

class SplitDecision {
  readonly #request: DecisionRequest
  readonly plan: SplitPlan
  readonly #context: CallContext | undefined
  /** Nothing more is charged once it is true. */
  isOver = false

  constructor(request: DecisionRequest, plan: SplitPlan, context: CallContext | undefined) {
    this.#request = request
    this.plan = plan
    this.#context = context
  }

  /** @throws {StoreError} if a place gives no answer: it may have charged */
  async decide(): Promise<Decision> {
    const { action, permits, charges } = this.#request
    const { plan } = this
    const { mayRefuse } = ACTIONS[action]
    if (mayRefuse || charges.some(countsNewIdentities)) {
      await Promise.all(plan.planQuestions().map((call) => this.#ask(call)))
    }
    if (!mayRefuse) {
      const calls = plan.places.flatMap((place) => plan.planCharge(place, permits) ?? [])
      await Promise.all(calls.map((call) => this.#ask(call)))
      return plan.conclude(permits)
    }
    const granted = plan.countFitting()
    if (!ACTIONS[action].charges) return plan.conclude(granted)
    if (granted > 0) return this.#take(granted)
    await Promise.all(plan.planRefusals().map(async (call) => plan.noteRefusals(call, await this.#call(call))))
    return plan.conclude(granted)
  }

  async #ask(call: PlannedCall): Promise<Decision> {
    if (this.isOver) throw new StoreError('it is too late to charge more')
    const decision = await this.#call(call)
    this.plan.note(call, decision)
    return decision
  }

  #call({ place, request }: PlannedCall): Promise<Decision> {
    return place.store.decide(request, this.#context)
  }

  async #take(fitting: number): Promise<Decision> {
    const { plan } = this
    const { firstNew } = plan
    const taken: Taken[] = []
    let granted = fitting
    const giveBack = () => Promise.all(taken.map((one) => this.#giveBack(one, granted)))
    try {
      for (const round of plan.planRounds(fitting)) {
        const permits = granted
        const calls = round.flatMap((place) => plan.planCharge(place, permits) ?? [])
        const sent = calls.map(async (call) => {
          const decision = await this.#ask(call)
          granted = Math.min(granted, decision.granted)
          if (decision.granted > 0) taken.push({ call, decision })
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
    if (plan.firstNew < firstNew) throw new StoreError('an identity became new while it was decided')
    // Another decision that has taken the room may give it back.
    return { ...plan.conclude(granted), ...(granted === 0 && { isProvisional: true }) }
  }

  /** Units stay charged if their algorithm cannot give them back, or in shadow mode, which refuses nothing. */
  async #giveBack({ call, decision: { granted: charged, nowMs } }: Taken, granted: number): Promise<void> {
    const { store } = call.place
    const charges = call.charges.filter((charge) => !isChargedLater(charge))
    const differences = charges
      .filter((charge) => isEnforced(charge) && ALGORITHMS[charge.algorithm].implementation.settle)
      .map((charge) => ({ charge, units: (granted - charged) * charge.cost }))
    const held = granted === 0 ? charges.filter(holdsSlots) : []
    try {
      if (differences.length > 0 && charged > granted) await store.settle(differences, nowMs)
      if (held.length > 0) await store.release(held)
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
    }
  }
}
