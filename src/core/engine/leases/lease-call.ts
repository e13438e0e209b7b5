/**
 * One call for permits: of one charge, or of several that one call decides, as many of each. It serves the request that
 * makes it, those that wait for it in a shared account, and requests to come.
 */
import type { Decision, DecisionRequest } from '../../model/charge.ts'
import { StoreError } from '../../model/store.ts'
import type { LeaseAccount, RepeatedOutcome } from './lease-account.ts'
import type { LeaseClock } from './lease-clock.ts'
import { createPlan, type LeaseOrder, type LeasePlan, type LeasingCaller, type StoreView } from './lease-plan.ts'
import { findPauseMs, findRepeatMs, findRoom, findUsableMs } from './lease-size.ts'
import type { SharedCall, SharedDecision } from './shared-calls.ts'

export interface LeaseCallParts extends StoreView {
  readonly clock: LeaseClock
  readonly now: () => number
  /** Deadline of the call. */
  readonly timeoutMs: number
}

export class LeaseCall {
  readonly #callers: readonly [LeasingCaller, ...LeasingCaller[]]
  readonly #order: LeaseOrder
  readonly #parts: LeaseCallParts
  /** Where requests wait for it: if it is for several charges, that account holds no permits. */
  readonly #account: LeaseAccount
  readonly #call: SharedCall
  /** The same call in the accounts of several charges. */
  readonly #joined: readonly (readonly [LeaseAccount, SharedCall])[]
  readonly #plan: LeasePlan
  readonly #sentAtMs: number
  readonly #generation: number

  constructor(callers: readonly LeasingCaller[], account: LeaseAccount, order: LeaseOrder, parts: LeaseCallParts) {
    const { clock, now, timeoutMs, roundTripMs } = parts
    this.#callers = callers as readonly [LeasingCaller, ...LeasingCaller[]]
    this.#order = order
    this.#parts = parts
    this.#account = account
    this.#sentAtMs = now()
    this.#generation = clock.generation
    const [{ nowMs }] = this.#callers
    const untilMs = nowMs + timeoutMs
    this.#call = account.calls.begin(order.more, untilMs)
    this.#joined =
      callers.length > 1
        ? callers.map(({ account }) => [account, account.calls.begin(order.more, untilMs, false)] as const)
        : []
    this.#plan = createPlan(callers, order, this.#call.waiters, roundTripMs)
    if (account.repeated) account.repeated.untilMs = nowMs + findRepeatMs(roundTripMs)
  }

  get request(): DecisionRequest {
    const { needed, leaseMs } = this.#plan
    const permits = needed + this.#order.more
    const charges = this.#callers.map(({ charge }) => charge)
    const isLease = permits > 1 || leaseMs > 0
    return isLease ? { action: 'take-up-to', permits, leaseMs, charges } : { action: 'take', permits: 1, charges }
  }

  /** Hands out what the store has granted. */
  succeed(decision: Decision): SharedDecision {
    const { granted } = decision
    const { needed, keepMs, leaseMs } = this.#plan
    const { own } = this.#order
    const { clock, statuses } = this.#parts
    const isJoint = this.#callers.length > 1
    const isEnded = this.#generation !== clock.generation
    this.#account.repeated = granted === 0 ? this.#createRepeated(decision) : undefined
    // Those that wait for permits of several charges find them at hand.
    const used = Math.min(isJoint ? own : needed, granted)
    const leases = this.#callers.map(({ charge, account }) => {
      account.used += used
      // The store decided when the call was sent, or later.
      const expiresAtMs = this.#sentAtMs + findUsableMs(charge, statuses, leaseMs, this.#sentAtMs)
      const permits = granted - used
      const lease = { permits, expiresAtMs, chargedAtMs: decision.nowMs, generation: this.#generation }
      if (permits > 0 && !isEnded) account.add(lease)
      return lease
    })
    const result = keepMs > 0 && granted > 0 ? { ...decision, lease: leases[0] } : decision
    // Those that wait for permits of several charges find none at hand if a step back of the clock has ended them.
    this.#account.calls.share(this.#call, result, isJoint && isEnded ? 0 : granted - own, isJoint && granted > 0)
    return result
  }

  fail(error: unknown): void {
    this.#account.repeated = error instanceof StoreError ? this.#createRepeated(error) : undefined
    this.#account.calls.fail(this.#call, error)
  }

  /** @param isFailing true if the latest call has failed: requests that wait then make their own */
  end(isFailing: boolean): void {
    const { clock, now } = this.#parts
    for (const [account, call] of [...this.#joined, [this.#account, this.#call] as const]) {
      const isCurrent = account.generation === clock.generation
      account.calls.end(call, (keepMs) => (isCurrent ? account.decide(now(), keepMs) : undefined), isFailing)
    }
  }

  /** Refusals and failures of a crowded identity are repeated for a pause, or its isolates would call too often. */
  #createRepeated(outcome: RepeatedOutcome['outcome']): RepeatedOutcome | undefined {
    const [{ charge, account, terms }] = this.#callers
    const pauseMs = findPauseMs(findRoom(charge, this.#parts.statuses), account.pace, terms)
    return pauseMs > 0 ? { outcome, sentAtMs: this.#sentAtMs, untilMs: this.#parts.now() + pauseMs } : undefined
  }
}
