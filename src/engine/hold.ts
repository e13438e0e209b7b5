import { ALGORITHMS } from '../algorithms/algorithm-table.ts'
import type { Rule } from '../model/charge.ts'
import type { Store } from '../model/store.ts'

/** Slots of `concurrency` rules that an admitted request holds. */
export interface Hold {
  /** Milliseconds after which the slots free themselves unless renewed; that of the shortest. */
  readonly deadlineMs: number
  /** @throws {StoreError} the slots then free themselves at their deadline */
  release(): Promise<void>
  /** Moves the deadline to a full term from now. @throws {StoreError} */
  renew(): Promise<void>
}

/** @returns undefined if none of the rules has slots */
export function holdOf(rules: readonly Rule[], store: Store): Hold | undefined {
  const held = withSlots(rules)
  if (held.length === 0) return undefined
  return {
    deadlineMs: Math.min(...held.flatMap(({ tiers }) => tiers.map(({ windowMs }) => windowMs))),
    release: () => store.release(held),
    renew: () => store.renew(held),
  }
}

export function withSlots(rules: readonly Rule[]): readonly Rule[] {
  return rules.filter(({ algorithm }) => ALGORITHMS[algorithm].holdsSlots)
}
