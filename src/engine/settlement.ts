import type { Rule } from '../model/charge.ts'
import type { Store } from '../model/store.ts'
import type { Match } from '../request/policy/policy-finder.ts'

/** Charges whose real cost the upstream's response tells. */
export interface Settlement {
  /**
   * Makes up the difference between what was charged and what the headers say; a header that is missing or no integer
   * from 0 says nothing. To be called once.
   * @throws {StoreError} the estimate then stands
   */
  settle(headers: Pick<Headers, 'get'>): Promise<void>
}

/** A request that cost more than the whole capacity has used up the capacity. */
function capacityOf({ burst, tiers }: Rule): number {
  return burst ?? Math.max(...tiers.map(({ limit }) => limit))
}

/** @returns undefined if no policy waits for the actual cost */
export function settlementOf(
  charges: readonly { readonly match: Match; readonly rule: Rule }[],
  chargedAtMs: number,
  store: Pick<Store, 'settle'>,
): Settlement | undefined {
  const open = charges.filter(({ match }) => match.policy.settleHeader !== undefined)
  if (open.length === 0) return undefined
  return {
    async settle(headers) {
      const differences = open.flatMap(({ match, rule }) => {
        const text = headers.get(match.policy.settleHeader ?? '')?.trim() ?? ''
        const units = /^\d{1,10}$/.test(text) ? Math.min(Number(text), capacityOf(rule)) - rule.cost : 0
        return units === 0 ? [] : [{ rule, units }]
      })
      if (differences.length > 0) await store.settle(differences, chargedAtMs)
    },
  }
}
