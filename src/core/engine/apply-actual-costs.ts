/** Corrects charges to what they have really cost. */
import { ALGORITHMS } from '../algorithms/algorithm-table.ts'
import { isChargedLater } from '../algorithms/decide.ts'
import type { StoreCharge } from '../model/charge.ts'
import type { Adjustment } from '../model/store.ts'
import type { CallContext } from '../runtime/call-context.ts'
import type { Engine, EngineDecision } from './engine.ts'

/**
 * Charges now what was charged too little, however few units remain, and gives back what was charged too much, except to
 * a log, which cannot be rewritten. No call charges more than the largest limit, or the bucket.
 * @param decision when it charged them, by the clock of its store, and which store
 * @throws {StoreError} it is then unknown if they were corrected
 */
export async function applyActualCosts(
  engine: Pick<Engine, 'record'>,
  differences: readonly Adjustment[],
  { nowMs, chargedIn }: Pick<EngineDecision, 'nowMs' | 'chargedIn'>,
  context: CallContext,
): Promise<void> {
  const [settled, more]: [Adjustment[], StoreCharge[]] = [[], []]
  for (const { charge, units: wanted } of differences) {
    const isLater = isChargedLater(charge)
    const capacity = charge.burst ?? Math.max(...charge.limits.map(({ limit }) => limit))
    const units = Math.min(wanted, isLater ? capacity : capacity - charge.cost)
    const canSettle = ALGORITHMS[charge.algorithm].implementation.settle !== undefined && !isLater
    // The window of the charge may be over: what it lacks counts from now on.
    if (units > 0) more.push({ ...charge, cost: units })
    else if (canSettle && units < 0) settled.push({ charge, units })
  }
  await Promise.all([
    settled.length > 0 && chargedIn.settle(settled, nowMs),
    more.length > 0 && engine.record(more, chargedIn, context),
  ])
}
