import type { Verdict } from '../model/verdict.ts'

/** How one tier of a policy stands after a decision. */
export interface RateLimitTier {
  /** `<policy>-<window>`, e.g. `default-1m`; for `concurrency`, the policy's own. */
  readonly name: string
  readonly limit: number
  /** Length of the window in milliseconds; for `concurrency`, the deadline of a slot. */
  readonly windowMs: number
  /** Units left. */
  readonly remaining: number
  /** Milliseconds until more than these can be used. */
  readonly resetMs: number
  /** Milliseconds until the request fits; 0 if it does now. */
  readonly retryAfterMs: number
  /** Milliseconds until the policy no longer blocks the caller; left out if it does not. */
  readonly blockedMs?: number
}

/** What was decided about a request. */
export interface RateLimit {
  /**
   * `admitted`; `limited` by a tier; `reserved`: what is left is for more important requests; `shed`: the application
   * is overloaded; `unidentified`: it lacks what it is counted by; `bad-cost`: it names an invalid cost; `ambiguous`:
   * its path can be read in several ways; `unavailable`: the store gives no answer, and limits are then `closed`.
   */
  readonly kind: Verdict['kind']
  /** Of all policies that apply; none if there is none, or if it was not asked. */
  readonly tiers: readonly RateLimitTier[]
  /** For a refused request: milliseconds after which the same request will be admitted if nobody else spends. */
  readonly retryAfterMs?: number
  /** How it was decided while the store gives no answer. */
  readonly degraded?: Verdict['degraded']
}

/** A request that no policy applies to. */
export const UNLIMITED: RateLimit = { kind: 'admitted', tiers: [] }

export function toRateLimit(verdict: Verdict): RateLimit {
  const { kind, degraded } = verdict
  return {
    kind,
    tiers: 'tiers' in verdict ? verdict.tiers : [],
    ...('retryAfterMs' in verdict && { retryAfterMs: verdict.retryAfterMs }),
    ...(degraded !== undefined && { degraded }),
  }
}
