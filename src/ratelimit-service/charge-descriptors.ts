/** Charges the descriptors of a request: all of them or none, or each by itself. The second step of a decision. */

import type { Engine, EngineDecision } from '../core/engine/engine.ts'
import type { Charge } from '../core/model/charge.ts'
import { isEnforced } from '../core/model/policy.ts'
import { DEGRADATIONS, type Degradation, type ReportedLimit, reportLimits } from '../core/model/verdict.ts'
import type { CallContext } from '../core/runtime/call-context.ts'
import type { Config } from '../http/config/load-config.ts'
import type { CountingPolicy } from '../http/response/rate-limit-headers.ts'
import { findMaxCost } from '../library/policies.ts'
import type { CountedDescriptor, MatchedRequest } from './match-descriptors.ts'
import { MAX_UINT32 } from './messages.ts'
import type { DescriptorLimit } from './rate-limits.ts'

export interface ChargerOptions {
  readonly engine: Engine
  readonly config: Pick<Config, 'onStoreError'>
  readonly now: () => number
  /** Charges each descriptor as far as it can be, whatever the others are, as the reference server does. */
  readonly isEachAlone: boolean
}

interface JudgedDescriptor {
  readonly rateLimit: Pick<DescriptorLimit, 'isShadow' | 'isQuota'>
  /** Not all hits have fit. */
  readonly isFull: boolean
}

/** Outcome of a descriptor. */
export interface DescriptorOutcome extends JudgedDescriptor {
  /** How many of its hits fit. They are charged, unless all or none are, and another descriptor refuses. */
  readonly fitting: number
  readonly limits: readonly ReportedLimit<CountingPolicy>[]
}

/** Outcomes of all descriptors that are counted, in order, then of those that were refused without a count. */
export interface ChargedRequest {
  readonly outcomes: readonly DescriptorOutcome[]
  readonly degraded: Degradation | undefined
  readonly charges: readonly Charge<CountingPolicy>[]
}

type DescriptorCharge = Charge<CountingPolicy>
type PolicyDecision = EngineDecision<DescriptorCharge>

/** A plain limit refuses by itself, quotas only together. */
export function isOverLimit(descriptors: readonly JudgedDescriptor[]): boolean {
  const isOver = ({ rateLimit, isFull }: JudgedDescriptor) => isFull && !rateLimit.isShadow
  const quotas = descriptors.filter(({ rateLimit }) => rateLimit.isQuota)
  const isPlainOver = descriptors.some((each) => !each.rateLimit.isQuota && isOver(each))
  return isPlainOver || (quotas.length > 0 && quotas.every(isOver))
}

export class DescriptorCharger {
  readonly #options: ChargerOptions

  constructor(options: ChargerOptions) {
    this.#options = options
  }

  async charge({ counted, refused }: MatchedRequest, context: CallContext): Promise<ChargedRequest> {
    await this.#reduceCounts(counted)
    const withoutCount = refused.map(({ rateLimit }) => ({ rateLimit, isFull: true, fitting: 0, limits: [] }))
    const decided = await (this.#options.isEachAlone
      ? this.#decideEach(counted, context)
      : this.#decideTogether(counted, withoutCount, context))
    return { ...decided, outcomes: [...decided.outcomes, ...withoutCount] }
  }

  /**
   * Descriptors that are counted under one key are charged as one, by the strictest limit among them, and each is judged
   * by its own. What asks, what can never fit, and what is not the strictest is looked at before; so are quotas beside
   * other limits, which must not be charged if all quotas are full.
   */
  async #decideTogether(
    counted: readonly CountedDescriptor[],
    withoutCount: readonly DescriptorOutcome[],
    context: CallContext,
  ): Promise<ChargedRequest> {
    const hitsByKey = new Map<string, number>()
    for (const { charge, hits } of counted) {
      hitsByKey.set(charge.key, (hitsByKey.get(charge.key) ?? 0) + Math.max(0, hits))
    }
    const payers = new Map<string, CountedDescriptor>()
    const all = counted.map((each) => {
      const cost = hitsByKey.get(each.charge.key) ?? 0
      const fits = each.hits > 0 && cost <= findMaxCost([each.policy])
      const costed = { ...each, fits, charge: fits ? { ...each.charge, cost } : each.charge }
      const other = payers.get(each.charge.key)
      if (fits && (!other || isStricter(each, other))) payers.set(each.charge.key, costed)
      return costed
    })
    type Costed = (typeof all)[number]
    const isPaid = ({ fits, charge }: Costed) => {
      const payer = payers.get(charge.key)
      return fits && payer !== undefined && nameOf(payer.charge) === nameOf(charge)
    }
    const hasOthers = [...payers.values()].some(({ rateLimit }) => !rateLimit.isQuota)
    const isSeen = (each: Costed) => !isPaid(each) || (hasOthers && each.rateLimit.isQuota)

    const seen = await this.#ask('peek', all.filter(isSeen), context)
    const isFullIn = (answers: DescriptorAnswers, { hits, fits, charge }: Costed) =>
      hits >= 0 && ((hits > 0 && !fits) || answers.isFull(charge))
    const judged = all.map((each) => ({ ...each, isFull: isSeen(each) && isFullIn(seen, each) }))
    const isOver = isOverLimit([...judged, ...withoutCount])
    const paid = await this.#ask(isOver ? 'peek' : 'take', [...payers.values()], context)

    const findLimits = (each: Costed) => {
      if (isPaid(each)) return paid.find(each.charge)
      const limits = seen.find(each.charge)
      const payer = payers.get(each.charge.key)?.charge
      const isCharged = payer && !isOver && paid.isGranted && !paid.isFull(payer)
      return isCharged ? subtractPaid(limits, payer.cost, paid.find(payer)) : limits
    }
    const outcomes = all.map((each): DescriptorOutcome => {
      const isFull = isFullIn(isPaid(each) ? paid : seen, each)
      return { rateLimit: each.rateLimit, isFull, fitting: isFull ? 0 : each.hits, limits: findLimits(each) }
    })
    return { outcomes, degraded: paid.degraded ?? seen.degraded, charges: [...paid.charges, ...seen.charges] }
  }

  /** Charges each descriptor as far as its hits fit; those that do not make it be over its limit. */
  async #decideEach(counted: readonly CountedDescriptor[], context: CallContext): Promise<ChargedRequest> {
    const decisions = await Promise.all(
      counted.map(({ charge, hits }) => {
        // In shadow mode, hits would be granted that do not fit.
        const charges = [{ ...charge, mode: 'enforce' as const }]
        return hits > 0
          ? this.#options.engine.decide(charges, context, { action: 'take-up-to', permits: Math.min(hits, MAX_UINT32) })
          : this.#options.engine.decide(charges, context, { action: 'peek', permits: 1 })
      }),
    )
    const outcomes = counted.map(({ rateLimit, hits }, at): DescriptorOutcome => {
      const decision = decisions[at] as PolicyDecision
      const { granted: fitting } = decision
      const isFull = hits >= 0 && fitting < Math.max(1, hits)
      return { rateLimit, isFull, fitting, limits: reportLimits(decision.charges, decision.usage) }
    })
    const charges = decisions.flatMap((decision) => decision.charges)
    return { outcomes, degraded: decisions.find(({ degraded }) => degraded)?.degraded, charges }
  }

  /** A key may be in a call once, so charges that share one are asked in several calls. */
  async #ask(action: 'take' | 'peek', descriptors: readonly CountedDescriptor[], context: CallContext) {
    const calls: DescriptorCharge[][] = []
    const callsByKey = new Map<string, number>()
    for (const charge of new Map(descriptors.map((each) => [nameOf(each.charge), each.charge])).values()) {
      const at = callsByKey.get(charge.key) ?? 0
      callsByKey.set(charge.key, at + 1)
      const call = calls[at] ?? []
      call.push(charge)
      calls[at] = call
    }
    const decisions = await Promise.all(
      calls.map((call) => this.#options.engine.decide(call, context, { action, permits: 1 })),
    )
    return readDecisions(decisions, DEGRADATIONS[this.#options.config.onStoreError].refusesAll)
  }

  async #reduceCounts(counted: readonly CountedDescriptor[]): Promise<void> {
    const given = counted.filter(({ hits }) => hits < 0)
    if (given.length === 0) return
    const units = given.map(({ charge, hits }) => ({ charge: { ...charge, cost: -hits }, units: hits }))
    await this.#options.engine.findStore(false).settle(units, this.#options.now())
  }
}

type DescriptorAnswers = ReturnType<typeof readDecisions>

function readDecisions(decisions: readonly PolicyDecision[], isClosed: boolean) {
  const limitsByName = new Map<string, readonly ReportedLimit<CountingPolicy>[]>()
  for (const { charges, usage } of decisions) {
    for (const [at, charge] of charges.entries()) {
      limitsByName.set(nameOf(charge), reportLimits([charge], [usage[at] ?? []]))
    }
  }
  const find = (charge: DescriptorCharge) => limitsByName.get(nameOf(charge)) ?? []
  const degraded = decisions.find((decision) => decision.degraded)?.degraded
  return {
    find,
    isFull: (charge: DescriptorCharge) =>
      (degraded !== undefined && isClosed) || find(charge).some(({ retryAfterMs }) => retryAfterMs > 0),
    isGranted: decisions.every(({ granted }) => granted > 0),
    degraded,
    charges: decisions.flatMap(({ charges }) => charges),
  }
}

/** Charges with the same name are one. While the store is unavailable, limits are shares, and the names are the same. */
function nameOf({ key, mode, plan, cost }: DescriptorCharge): string {
  return `${key} ${mode} ${plan} ${cost}`
}

function isStricter({ charge, policy }: CountedDescriptor, other: CountedDescriptor): boolean {
  if (charge.mode !== other.charge.mode) return isEnforced(charge)
  return findMaxCost([policy]) < findMaxCost([other.policy])
}

/** Takes off what another limit of the same key was charged. @param paid those of the other limit after the charge */
function subtractPaid(
  limits: readonly ReportedLimit<CountingPolicy>[],
  units: number,
  paid: readonly ReportedLimit<CountingPolicy>[],
): readonly ReportedLimit<CountingPolicy>[] {
  return limits.map((limit, at) => ({
    ...limit,
    remaining: Math.max(0, limit.remaining - units),
    resetMs: paid[at]?.resetMs ?? limit.resetMs,
  }))
}
