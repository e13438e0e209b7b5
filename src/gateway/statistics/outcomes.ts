/** The outcomes by which requests are counted. */
import { isEnforced, type RequestPolicy } from '../../core/model/policy.ts'
import type { ReportedLimit, Verdict } from '../../core/model/verdict.ts'
import type { Observed } from '../../http/response/exchange.ts'

/**
 * Each request has one outcome, except those to the gateway itself. They are those of verdicts, with `bad_request` (400, 405,
 * 414, 431, 508) for all that cannot be read in one way only, and `failed` (500) if the gateway itself fails.
 */
export const OUTCOMES = [
  'admitted',
  'limited',
  'deprioritized',
  'shed',
  'blocked',
  'unidentified',
  'bad_request',
  'unavailable',
  'failed',
] as const
export type Outcome = (typeof OUTCOMES)[number]

/**
 * The outcome of a request for one of its policies: the same, but `limited`, `deprioritized` and `unidentified` only if
 * this policy has refused it, else `refused_by_another`. `shadow_limited`: it would have, but for shadow mode.
 */
export const POLICY_OUTCOMES = [
  'admitted',
  'limited',
  'deprioritized',
  'shed',
  'unidentified',
  'bad_request',
  'unavailable',
  'refused_by_another',
  'shadow_limited',
] as const
export type PolicyOutcome = (typeof POLICY_OUTCOMES)[number]

export function toOutcome({ outcome }: Verdict): Exclude<Outcome, 'failed'> {
  return outcome === 'invalid_cost' || outcome === 'ambiguous_path' ? 'bad_request' : outcome
}

/** Finds the limits that have refused a request, or would have, but for shadow mode. */
export function findRefusingLimits(verdict: Verdict): readonly ReportedLimit[] {
  return 'limits' in verdict ? verdict.limits.filter(({ retryAfterMs }) => retryAfterMs > 0) : []
}

/** @param refusing the limits that `findRefusingLimits` has found */
export function toPolicyOutcome(
  verdict: Verdict,
  policy: RequestPolicy,
  refusing: readonly ReportedLimit[],
): PolicyOutcome {
  const own = refusing.filter((limit) => limit.policy === policy)
  if (!isEnforced(policy) && own.length > 0) return 'shadow_limited'
  const outcome = toOutcome(verdict)
  if (outcome === 'limited' || outcome === 'deprioritized') {
    if (own.length === 0) return 'refused_by_another'
    return own.every(({ isReserve }) => isReserve) ? 'deprioritized' : 'limited'
  }
  const isAnothers = verdict.outcome === 'unidentified' && verdict.policy !== policy
  return outcome === 'blocked' || isAnothers ? 'refused_by_another' : outcome
}

/** Finds the digest of a refused caller in each enforced policy that refused it. Empty if the limits are not why. */
export function findRefusedCallers({ verdict, trace }: Pick<Observed, 'verdict' | 'trace'>) {
  if (verdict.outcome !== 'limited' && verdict.outcome !== 'deprioritized') return []
  const refusing = new Set(findRefusingLimits(verdict).map(({ policy }) => policy))
  return trace.charges.flatMap(({ policy, digest }) =>
    isEnforced(policy) && refusing.has(policy) ? [{ policy: policy.name, digest }] : [],
  )
}
