/** Decisions as a limiter returns them. */
import type { DecisionSource } from '../core/engine/decision-watch.ts'
import type { EngineDecision } from '../core/engine/engine.ts'
import type { DecisionRequest } from '../core/model/charge.ts'
import { isEnforced } from '../core/model/policy.ts'
import {
  DEGRADATIONS,
  type Degradation,
  type LimitStatus,
  reportLimits,
  type SlotHold,
  toLimitStatus,
} from '../core/model/verdict.ts'
import type { CallContext } from '../core/runtime/call-context.ts'

interface DecisionOutcome {
  /** The limits of all policies, in order; while the store gives no answer, maybe shares of them. */
  readonly limits: readonly LimitStatus[]
  /**
   * Milliseconds after which the same will be granted if nobody else spends; 0 if anything was granted. For rates it is
   * exact: a millisecond less is not enough. For slots it is the latest moment, because they may be given back earlier.
   */
  readonly retryAfterMs: number
  /** When it was decided, by the store's clock: milliseconds since the Unix epoch. */
  readonly decidedAtMs: number
  /** Units charged to each policy; 0 if nothing was granted, or for a `peek`. */
  readonly charged: number
  /** The plan that was named, or the limits of the call. */
  readonly plan?: string
  /**
   * The fallback that decided while the store gave no answer: limits of this process alone, no limits, or a refusal.
   */
  readonly degraded?: Degradation
}

/** The result of a request. A refusal has charged nothing. */
export interface LimiterDecision extends DecisionOutcome {
  readonly granted: boolean
}

/** The result of a request for several permits. */
export interface PartialDecision extends DecisionOutcome {
  /** Permits granted, from 0 to the number asked for. */
  readonly granted: number
}

/** A decision as `onDecision` gets it. Neither the identity nor its digest is in it. */
export interface ObservedDecision extends DecisionOutcome, DecisionSource {
  /** `hold` takes, and so does each try of `waitFor`. */
  readonly action: Exclude<DecisionRequest['action'], 'record'>
  /** Permits requested. */
  readonly permits: number
  /** Permits granted; for a `peek`, those that would have been. */
  readonly granted: number
}

/** An unavailable store is probed about once a second. */
const UNAVAILABLE_RETRY_MS = 1_000

/** Makes the refusal for a store that takes too long. @param nowMs milliseconds since the Unix epoch */
export function refuseUnanswered(nowMs: number): LimiterDecision {
  const retryAfterMs = UNAVAILABLE_RETRY_MS
  return { granted: false, limits: [], retryAfterMs, decidedAtMs: nowMs, charged: 0, degraded: 'closed' }
}

/** @param cost units that each policy is charged if the request is granted */
export function toDecision(decision: EngineDecision, cost: number): LimiterDecision {
  const granted = decision.granted > 0
  return { granted, ...toOutcome(decision, granted ? cost : 0) }
}

/** @param charged units of each policy */
export function toOutcome(decision: EngineDecision, charged: number): DecisionOutcome {
  const { usage, charges, degraded, granted, nowMs } = decision
  const reports = reportLimits(charges, usage)
  let retryAfterMs = degraded && DEGRADATIONS[degraded].refusesAll ? UNAVAILABLE_RETRY_MS : 0
  for (const { policy, retryAfterMs: waitMs } of reports) {
    if (granted === 0 && isEnforced(policy)) retryAfterMs = Math.max(retryAfterMs, waitMs)
  }
  const plan = charges.find((charge) => charge.plan !== undefined)?.plan
  const outcome = {
    limits: reports.map(toLimitStatus),
    retryAfterMs,
    decidedAtMs: nowMs,
    charged,
    ...(plan !== undefined && { plan }),
  }
  return degraded === undefined ? outcome : { ...outcome, degraded }
}

/**
 * The result of a request for a slot. If it is granted, the slot is held and renewed until it is released, which
 * `await using` does at the end of the block.
 */
export interface Slot extends LimiterDecision, AsyncDisposable {
  /** Releases the slot: once, however often it is called. It never fails, and does nothing if no slot was granted. */
  release(): Promise<void>
}

export function holdSlot(decision: LimiterDecision, hold: SlotHold | undefined, context: CallContext): Slot {
  const renewal = hold && setInterval(() => context.waitUntil(hold.renew()), hold.renewEveryMs)
  // On Node, a slot alone does not keep a process running.
  if (typeof renewal === 'object') renewal.unref()
  let released: Promise<void> | undefined
  async function releaseOnce(): Promise<void> {
    clearInterval(renewal)
    if (!hold) return
    const work = hold.release()
    context.waitUntil(work)
    await work.catch(() => {})
  }
  const release = () => {
    released ??= releaseOnce()
    return released
  }
  return { ...decision, release, [Symbol.asyncDispose]: release }
}
