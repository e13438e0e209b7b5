import type { Observed } from '../http/exchange.ts'
import type { RequestPolicy } from '../model/policy.ts'
import type { ReportedLimit, Verdict } from '../model/verdict.ts'

/**
 * Each request has one outcome, except those to the gateway itself.
 *
 * - `limited` (429): over a limit; `reserved` (503): what is left is for more important requests; `shed` (503): the API is
 *   overloaded; `blocked`: the operator has said so.
 * - `unidentified` (401, or as `missing` says): the caller lacks what a policy counts by; `bad_request` (400, 414, 431,
 *   508): it cannot be read, or not in one way only.
 * - `unavailable` (503): the store is away, and a policy is then `closed`; `failed` (500): the gateway itself has failed.
 */
export const OUTCOMES = [
  'admitted',
  'limited',
  'reserved',
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
  'reserved',
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

export function toOutcome({ kind }: Verdict): Exclude<Outcome, 'failed'> {
  return kind === 'bad-cost' || kind === 'ambiguous' ? 'bad_request' : kind
}

const NONE: readonly ReportedLimit[] = []

/** Finds the limits that have refused a request, or would have, but for shadow mode. */
export function findRefusingTiers(verdict: Verdict): readonly ReportedLimit[] {
  if (!('tiers' in verdict)) return NONE
  const { tiers } = verdict
  // Most often there is none.
  return tiers.some(isRefusing) ? tiers.filter(isRefusing) : NONE
}

function isRefusing({ retryAfterMs }: ReportedLimit): boolean {
  return retryAfterMs > 0
}

/** @param refusing the tiers that `findRefusingTiers` has found */
export function toPolicyOutcome(
  verdict: Verdict,
  policy: RequestPolicy,
  refusing: readonly ReportedLimit[],
): PolicyOutcome {
  const own = refusing.filter((tier) => tier.policy === policy)
  if (!policy.enforced && own.length > 0) return 'shadow_limited'
  switch (verdict.kind) {
    case 'limited':
    case 'reserved':
      if (own.length === 0) return 'refused_by_another'
      return own.every(({ isReserve }) => isReserve) ? 'reserved' : 'limited'
    case 'unidentified':
      return verdict.policy === policy ? 'unidentified' : 'refused_by_another'
    case 'blocked':
      return 'refused_by_another'
    case 'bad-cost':
    case 'ambiguous':
      return 'bad_request'
    default:
      return verdict.kind
  }
}

export interface RefusedCaller {
  readonly policy: string
  readonly digest: string
}

/** Finds who was refused by enforced policies: once for each that did. Empty if the limits are not why. */
export function findRefusedCallers({ verdict, trace }: Pick<Observed, 'verdict' | 'trace'>): readonly RefusedCaller[] {
  if (verdict.kind !== 'limited' && verdict.kind !== 'reserved') return []
  return trace.charges
    .filter(({ policy }) => policy.enforced && verdict.tiers.some((tier) => tier.policy === policy && isRefusing(tier)))
    .map(({ policy, digest }) => ({ policy: policy.name, digest }))
}
