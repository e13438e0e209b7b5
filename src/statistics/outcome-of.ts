import type { RequestPolicy } from '../model/policy.ts'
import type { TierReport, Verdict } from '../model/verdict.ts'
import type { Outcome, PolicyOutcome } from './outcomes.ts'

const OUTCOMES_OF: Readonly<Record<Verdict['kind'], Exclude<Outcome, 'failed'>>> = {
  admitted: 'admitted',
  limited: 'limited',
  reserved: 'reserved',
  shed: 'shed',
  blocked: 'blocked',
  unidentified: 'unidentified',
  'bad-cost': 'bad_request',
  ambiguous: 'bad_request',
  unavailable: 'unavailable',
}

export function outcomeOf({ kind }: Verdict): Exclude<Outcome, 'failed'> {
  return OUTCOMES_OF[kind]
}

const NONE: readonly TierReport[] = []

/** The tiers that have refused a request, or would have, were they not in shadow mode. */
export function refusingTiers(verdict: Verdict): readonly TierReport[] {
  if (!('tiers' in verdict)) return NONE
  const { tiers } = verdict
  // Most often there is none.
  return tiers.some(isRefusing) ? tiers.filter(isRefusing) : NONE
}

function isRefusing({ retryAfterMs }: TierReport): boolean {
  return retryAfterMs > 0
}

/**
 * What became of a request, seen by a policy that applies to it.
 * @param refusing its `refusingTiers`
 */
export function policyOutcomeOf(
  verdict: Verdict,
  policy: RequestPolicy,
  refusing: readonly TierReport[],
): PolicyOutcome {
  if (!policy.enforced && refusing.some((tier) => tier.policy === policy)) return 'shadow_limited'
  switch (verdict.kind) {
    case 'limited':
    case 'reserved': {
      let outcome: PolicyOutcome = 'refused_by_another'
      for (const tier of refusing) {
        if (tier.policy !== policy) continue
        if (!tier.isReserve) return 'limited'
        outcome = 'reserved'
      }
      return outcome
    }
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
