/** Decisions about requests, as applications get them. */
import type { DecisionSource, DecisionWatch } from '../../core/engine/decision-watch.ts'
import { type Admitted, type LimitStatus, toLimitStatus, type Verdict } from '../../core/model/verdict.ts'
import type { Exchange } from './received-request.ts'
import type { RequestLimiter } from './request-limiter.ts'

/** The decision about a request. */
export interface RateLimit {
  /**
   * `admitted`; `limited` by a limit; `deprioritized`: the remaining units are reserved for higher priorities; `shed`: the
   * application is overloaded; `unidentified`: it lacks what a policy counts by; `invalid_cost`: it costs more than any may, or names no cost;
   * `ambiguous_path`: its path can be read in several ways; `unavailable`: the store gives no answer, and the fallback is
   * `closed`.
   */
  readonly outcome: Verdict['outcome']
  /** Status of the limits of all policies that apply; empty if none applies, or none was evaluated. */
  readonly limits: readonly LimitStatus[]
  /** Milliseconds after which a refused request will be admitted if nothing else is charged. */
  readonly retryAfterMs?: number
  /** The fallback that decided while the store gives no answer. */
  readonly degraded?: Verdict['degraded']
}

/** A decision as `onDecision` gets it. Neither the identity nor its digest is in it. */
export interface ObservedRequest extends RateLimit, DecisionSource {}

export const UNLIMITED: RateLimit = { outcome: 'admitted', limits: [] }

/** A request whose client went while it was delayed. It has been counted, holds nothing, and is not to be handled. */
export const GONE: Admitted = { outcome: 'admitted', limits: [] }

export function toRateLimit(verdict: Verdict): RateLimit {
  const { outcome, degraded } = verdict
  return {
    outcome,
    limits: 'limits' in verdict ? verdict.limits.map(toLimitStatus) : [],
    ...('retryAfterMs' in verdict && { retryAfterMs: verdict.retryAfterMs }),
    ...(degraded !== undefined && { degraded }),
  }
}

/** Calls `onDecision` after each decision. */
export function withWatch(
  limiter: Pick<RequestLimiter, 'decide'>,
  watch: DecisionWatch,
  onDecision: (decision: ObservedRequest, exchange: Exchange) => void,
): Pick<RequestLimiter, 'decide'> {
  return {
    async decide(exchange, options) {
      const describe = watch.start()
      const trace = options?.trace ?? { matches: [], charges: [] }
      const verdict = await limiter.decide(exchange, { ...options, trace })
      onDecision({ ...toRateLimit(verdict), ...describe(trace.charges, verdict.degraded) }, exchange)
      return verdict
    },
  }
}
