import type { Rule } from '../model/charge.ts'
import type { TierReport } from '../model/verdict.ts'
import type { Match } from '../request/policy/policy-finder.ts'

/** Charges that wait for the response: they are made only if it says that the request has failed. */
export interface Failures {
  /** @returns undefined if a response of this status is a failure to no policy */
  of(status: number): Failure | undefined
}

export interface Failure {
  /** How the tiers stand with it. */
  readonly tiers: readonly TierReport[]
  /** Charges it, whatever is left of the limits by now. To be called once. */
  charge(): Promise<void>
}

/**
 * @param tiers as they stood when the request was let through
 * @returns undefined if no policy counts failures
 */
export function failuresOf(
  asked: readonly { readonly match: Match; readonly rule: Rule }[],
  tiers: readonly TierReport[],
  charge: (rules: readonly Rule[]) => Promise<void>,
): Failures | undefined {
  const open = asked.filter(({ match }) => match.policy.counts === 'failures')
  if (open.length === 0) return undefined
  return {
    of(status) {
      const failed = open.filter(({ match }) => match.policy.failures.includes(status))
      if (failed.length === 0) return undefined
      return {
        tiers: tiers.map((tier) => {
          const cost = failed.find(({ match }) => match.policy === tier.policy)?.rule.cost ?? 0
          return { ...tier, remaining: Math.max(0, tier.remaining - cost) }
        }),
        charge: () => charge(failed.map(({ rule }) => rule)),
      }
    },
  }
}
