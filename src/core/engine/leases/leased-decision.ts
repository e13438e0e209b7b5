/**
 * One decision over several charges, some of which are leased. A charge whose lease has a permit takes it, if it lasts for
 * longer than the decision may take. A hot one without a permit gets it by a call that its requests share, unless the store
 * decides all at once. The others are then decided in the store, by one call, which takes permits of all of them if it can.
 *
 * It charges all or nothing: if anything refuses, permits go back to their leases, and if it is unknown what the store did,
 * they count as used.
 */
import { ALGORITHMS } from '../../algorithms/algorithm-table.ts'
import { countsNewIdentities } from '../../algorithms/decide.ts'
import type { Decision, DecisionRequest, StoreCharge } from '../../model/charge.ts'
import { StoreError } from '../../model/store.ts'
import type { CallContext } from '../../runtime/call-context.ts'
import type { LeasingCaller } from './lease-plan.ts'
import type { Leasing } from './leasing.ts'
import type { Lease } from './shared-calls.ts'

export class LeasedDecision {
  readonly #leasing: Leasing
  readonly #request: DecisionRequest
  readonly #context: CallContext
  /** The callers of all charges that can be leased. */
  readonly #callers: ReadonlyMap<StoreCharge, LeasingCaller>
  readonly #permits = new Map<StoreCharge, Lease>()
  /** True if all of its charges can be leased. */
  readonly #isLeased: boolean
  /** A call of another request has brought its permits. */
  #hasWaited = false

  constructor(leasing: Leasing, request: DecisionRequest, callers: readonly LeasingCaller[], context: CallContext) {
    this.#leasing = leasing
    this.#request = request
    this.#context = context
    this.#callers = new Map(callers.map((caller) => [caller.charge, caller]))
    this.#isLeased = callers.length === request.charges.length
  }

  /** @throws {StoreError} it may have charged */
  async decide(): Promise<Decision> {
    this.#takeAtHand()
    const others = this.#listOthers()
    // Known refusals come first, so that a flood uses no permits.
    const known = this.#leasing.store.refusals.find({ ...this.#request, charges: others })
    if (known) return this.#refuse(known, others)
    return (await this.#obtain(others)) ?? this.#decideOthers()
  }

  #takeAtHand(): void {
    const callers = this.#listCallers(this.#listOthers())
    const isAtHand = ({ account, nowMs }: LeasingCaller) => account.countLeft(nowMs) > 0
    const isComplete = callers.length + this.#permits.size === this.#request.charges.length && callers.every(isAtHand)
    for (const { charge, account, nowMs } of callers) {
      const lease = account.take(nowMs, isComplete ? nowMs : nowMs + this.#leasing.timeoutMs)
      if (lease) this.#permits.set(charge, lease)
    }
  }

  #listOthers(): readonly StoreCharge[] {
    return this.#request.charges.filter((charge) => !this.#permits.has(charge))
  }

  /** Obtains permits of hot charges, all at once. @returns a decision if one is refused */
  async #obtain(others: readonly StoreCharge[]): Promise<Decision | undefined> {
    const { store } = this.#leasing
    // Whether an identity is new shows only where its charge is decided together with those of new ones.
    if (!store.isSplit?.(others) || others.some(countsNewIdentities)) return undefined
    const hot = others
      .flatMap((charge) => this.#callers.get(charge) ?? [])
      .filter(({ charge, keepMs }) => keepMs > 0 && this.#leasing.isHot(charge))
    const refused = new Map<StoreCharge, Decision>()
    const obtain = async (caller: LeasingCaller) => {
      const { lease, ...decision } = await this.#leasing.obtain(caller)
      if (lease) this.#permits.set(caller.charge, lease)
      else refused.set(caller.charge, decision)
    }
    await Promise.all(hot.map(obtain))
    const [first] = refused.values()
    if (!first) return undefined
    // Another charge may refuse for longer, or count the refusal.
    const isComplete = others.every(
      (charge) => refused.has(charge) || this.#permits.has(charge) || store.refusals.hasRoom(charge, this.#request),
    )
    const rest = this.#listOthers()
    const decision = { ...first, usage: rest.map((charge) => refused.get(charge)?.usage[0] ?? []) }
    const refusal = this.#refuse(decision, rest)
    return isComplete ? refusal : this.#leasing.ask(this.#request, this.#context)
  }

  async #decideOthers(): Promise<Decision> {
    const leasing = this.#leasing
    const others = this.#listOthers()
    if (others.length === 0) return this.#admit({ granted: 1, nowMs: 0, usage: [] }, others)
    const callers = this.#listCallers(others)
    const [only] = others.length === 1 ? callers : []
    const isJoint = !only && this.#isLeased && !leasing.store.isSplit?.(others)
    const keepMs = Math.min(...callers.map((caller) => caller.keepMs))
    const joint = isJoint ? leasing.findCallAccount(callers) : undefined
    const waiting = joint && keepMs > 0 && !this.#hasWaited ? leasing.wait(callers, keepMs, joint) : undefined
    const shared = waiting && (await waiting)
    if (shared?.granted === 0) return this.#refuse(shared, others)
    if (shared) {
      this.#hasWaited = true
      this.#takeAtHand()
      return this.#decideOthers()
    }
    const decision = await (only
      ? leasing.decideFor(only)
      : joint
        ? leasing.decideJointly(this.#listCallers(others), joint)
        : leasing.ask({ ...this.#request, charges: others }, this.#context))
    if (decision.granted === 0) return this.#refuse(decision, others)
    if (!only && !isJoint) for (const { account } of callers) account.used++
    if (!only && decision.granted === 1) this.#takeMore(this.#listCallers(others))
    return this.#admit({ ...decision, granted: 1 }, others)
  }

  /** Takes permits of charges that the store has decided. Where one call decides all, another one is made for hot ones. */
  #takeMore(callers: readonly LeasingCaller[]): void {
    const { store } = this.#leasing
    const isSplit = store.isSplit?.(this.#request.charges)
    // Permits that do not last while others are decided serve only where all charges have one.
    const used = callers.filter(({ charge, keepMs }) => {
      return keepMs > 0 ? isSplit || this.#leasing.isHot(charge) : isSplit && this.#isLeased
    })
    this.#leasing.takeMore(used)
  }

  #refuse(decision: Decision, others: readonly StoreCharge[]): Decision {
    for (const [charge, lease] of this.#permits) this.#leasing.giveBack(this.#getCaller(charge), lease)
    return this.#complete(decision, others, false)
  }

  #admit(decision: Decision, others: readonly StoreCharge[]): Decision {
    const permits = [...this.#permits]
    if (!permits.every(([, lease]) => this.#leasing.isCurrent(lease))) {
      throw new StoreError('a permit expired while other charges were decided')
    }
    const chargedAtMs = permits.map(([, lease]) => lease.chargedAtMs)
    const nowMs = others.length > 0 ? decision.nowMs : Math.max(...chargedAtMs)
    for (const [{ key, algorithm }, lease] of permits) {
      if (ALGORITHMS[algorithm].implementation.settle) this.#leasing.times.remember(key, nowMs, lease.chargedAtMs)
    }
    return this.#complete({ ...decision, nowMs }, others, true)
  }

  /** Adds the limits of charges that have permits. @param areUsed whether these are used */
  #complete(decision: Decision, others: readonly StoreCharge[], areUsed: boolean): Decision {
    if (areUsed) this.#leasing.use(this.#listCallers([...this.#permits.keys()]), this.#hasWaited)
    const usage = this.#request.charges.map((charge) => {
      const at = others.indexOf(charge)
      return at < 0 ? this.#leasing.describe(this.#getCaller(charge)) : (decision.usage[at] ?? [])
    })
    return { ...decision, usage }
  }

  #listCallers(charges: readonly StoreCharge[]): LeasingCaller[] {
    return charges.flatMap((charge) => (this.#callers.has(charge) ? this.#getCaller(charge) : []))
  }

  /** The caller of a charge that can be leased, as of now. */
  #getCaller(charge: StoreCharge): LeasingCaller {
    return this.#leasing.refresh(this.#callers.get(charge) as LeasingCaller)
  }
}
