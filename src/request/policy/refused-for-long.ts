import { ALGORITHMS } from '../../algorithms/algorithm-table.ts'
import type { RequestPolicy } from '../../model/policy.ts'

/**
 * Whether each refusal by a policy holds for as long as it says, whatever is asked of it. Slots, reserved units and what
 * is settled may become free at any moment; each cost, and each new identity, is refused by itself.
 */
export function isRefusedForLong({ algorithm, counts, cost, reserved, settleHeader }: RequestPolicy): boolean {
  const isAlike = counts === 'requests' && cost.kind === 'fixed' && !settleHeader
  return isAlike && !reserved.sheddable && !ALGORITHMS[algorithm].holdsSlots
}
