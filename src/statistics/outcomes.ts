import type { Observed } from '../http/exchange.ts'
import type { RequestPolicy } from '../model/policy.ts'
import type { ReportedLimit, Verdict } from '../model/verdict.ts'

/**
 * Each request has one outcome, except those to the gateway itself.
 *
 * - `limited` (429): over a limit; `reserved` (503): what is left is for more important requests; `shed` (503): the API is
 *   overloaded; `blocked`: the operator has said so.
 * - `unidentified` (401, or as `anonymous` says): the caller lacks what a policy counts by; `bad_request` (400, 414, 431,
 *   508): it cannot be read, or not in one way only.
 * - `unavailable` (503): the store is away, and a policy is then `closed`; `failed` (500): the gateway itself has failed.
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
 * The outcome of a request, seen by one of the policies that apply to it: the same, but `limited`, `reserved` and
 * `unidentified` only if this policy has refused it, else `refused_by_another`, which may be a block. `shadow_limited`: this
 * policy, which is in shadow mode, would have refused it.
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

/** Requests without an answer of the store; those of `closed` have the outcome `unavailable`. */
export const DEGRADATIONS = ['local', 'open', 'local, open', 'closed'] as const
export type Degradation = (typeof DEGRADATIONS)[number]

export function toOutcome({ outcome }: Verdict): Exclude<Outcome, 'failed'> {
  return outcome === 'invalid_cost' || outcome === 'ambiguous_path' ? 'bad_request' : outcome
}

const NONE: readonly ReportedLimit[] = []

/** Finds the limits that have refused a request, or would have, but for shadow mode. */
export function findRefusingLimits(verdict: Verdict): readonly ReportedLimit[] {
  if (!('limits' in verdict)) return NONE
  const { limits } = verdict
  // Most often there is none.
  return limits.some(isRefusing) ? limits.filter(isRefusing) : NONE
}

function isRefusing({ retryAfterMs }: ReportedLimit): boolean {
  return retryAfterMs > 0
}

/** @param refusing the limits that `findRefusingLimits` has found */
export function toPolicyOutcome(
  verdict: Verdict,
  policy: RequestPolicy,
  refusing: readonly ReportedLimit[],
): PolicyOutcome {
  const own = refusing.filter((limit) => limit.policy === policy)
  if (policy.mode === 'shadow' && own.length > 0) return 'shadow_limited'
  switch (verdict.outcome) {
    case 'limited':
    case 'deprioritized':
      if (own.length === 0) return 'refused_by_another'
      return own.every(({ isReserve }) => isReserve) ? 'deprioritized' : 'limited'
    case 'unidentified':
      return verdict.policy === policy ? 'unidentified' : 'refused_by_another'
    case 'blocked':
      return 'refused_by_another'
    case 'invalid_cost':
    case 'ambiguous_path':
      return 'bad_request'
    default:
      return verdict.outcome
  }
}

export interface RefusedCaller {
  readonly policy: string
  readonly digest: string
}

/** Finds who was refused by enforced policies: once for each that did. Empty if the limits are not why. */
export function findRefusedCallers({ verdict, trace }: Pick<Observed, 'verdict' | 'trace'>): readonly RefusedCaller[] {
  if (verdict.outcome !== 'limited' && verdict.outcome !== 'deprioritized') return []
  return trace.charges
    .filter(
      ({ policy }) =>
        policy.mode === 'enforce' && verdict.limits.some((limit) => limit.policy === policy && isRefusing(limit)),
    )
    .map(({ policy, digest }) => ({ policy: policy.name, digest }))
}
