/**
 * Decides a request: matches its descriptors, charges them, reports. It is OVER_LIMIT if a descriptor is over a limit that
 * is no quota, or if it has quotas and all of them are full; what is in shadow mode is never over.
 */

import type { DecisionWatch } from '../core/engine/decision-watch.ts'
import { isEnforced } from '../core/model/policy.ts'
import { DEGRADATIONS, toLimitStatus } from '../core/model/verdict.ts'
import type { CallContext } from '../core/runtime/call-context.ts'
import type { Config } from '../http/config/load-config.ts'
import type { ObservedRequest } from '../http/request/rate-limit.ts'
import { type ChargerOptions, DescriptorCharger, isOverLimit } from './charge-descriptors.ts'
import { createMatcher, type MatcherOptions } from './match-descriptors.ts'
import type { RateLimitRequest, RateLimitResponse } from './messages.ts'
import type { Domains } from './rate-limits.ts'
import { createReport, type ReportOptions } from './report-descriptors.ts'

export interface RequestDeciderOptions extends MatcherOptions, ChargerOptions, ReportOptions {
  readonly config: Pick<Config, 'keyPrefix' | 'identitySecret' | 'headerFormat' | 'onStoreError' | 'isShadow'>
  readonly watch: RequestWatch | undefined
}

/** Tells a function of each decision about a request, as the middleware does. */
interface RequestWatch extends DecisionWatch {
  onDecision(decision: ObservedRequest): void
}

export function createRequestDecider(options: RequestDeciderOptions) {
  const { config, watch } = options
  const match = createMatcher(options)
  const charger = new DescriptorCharger(options)
  const report = createReport(options)

  /** @throws {RequestError} */
  return async function decideRequest(
    request: RateLimitRequest,
    domains: Domains,
    context: CallContext,
  ): Promise<RateLimitResponse> {
    const findSource = watch?.start()
    const matched = match(request, domains)
    const { outcomes, degraded: answeredBy, charges } = await charger.charge(matched, context)
    const isOver = isOverLimit(outcomes) && !config.isShadow
    // A quota refuses nothing by itself, so that the engine takes a request of quotas alone for one to let pass.
    const degraded =
      answeredBy && isOver && DEGRADATIONS[config.onStoreError].refusesAll ? config.onStoreError : answeredBy
    const { statuses, limits, headers } = report(matched, outcomes, degraded)
    const source = findSource?.(charges, degraded)
    if (source) {
      const waitsMs = limits.map(({ policy, retryAfterMs }) => (isEnforced(policy) ? retryAfterMs : 0))
      const retryAfterMs = Math.max(0, ...waitsMs)
      const costs: Record<string, number> = {}
      for (const { policy, hits } of matched.counted) costs[policy.name] = (costs[policy.name] ?? 0) + hits
      watch?.onDecision({
        outcome: !isOver ? 'admitted' : degraded && DEGRADATIONS[degraded].refusesAll ? 'unavailable' : 'limited',
        limits: limits.map(toLimitStatus),
        ...(isOver && retryAfterMs > 0 && { retryAfterMs }),
        ...(degraded && { degraded }),
        ...source,
        costs,
      })
    }
    return {
      overallCode: isOver ? 'OVER_LIMIT' : 'OK',
      statuses,
      responseHeadersToAdd: [...headers].map(([key, value]) => ({ key, value })),
    }
  }
}
