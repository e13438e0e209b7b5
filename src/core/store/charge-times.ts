/** Remembers when charges were made by the clock of the place that made them. */
import type { Adjustment } from '../model/store.ts'
import { Lru } from '../runtime/lru.ts'

/** Charges whose own time is remembered. */
const MAX_CHARGES = 10_000

/** Times of charges by the clock of their object or node, where that differs from their decision's. */
export class ChargeTimes {
  readonly #times = new Lru<number>(MAX_CHARGES)

  get(key: string, decidedAtMs: number): number {
    return this.#times.get(`${key} ${decidedAtMs}`) ?? decidedAtMs
  }

  /** @returns the earliest time of these charges */
  findEarliest(differences: readonly Adjustment[], decidedAtMs: number): number {
    return Math.min(...differences.map(({ charge }) => this.get(charge.key, decidedAtMs)))
  }

  remember(key: string, decidedAtMs: number, ownMs: number): void {
    if (ownMs === decidedAtMs) return
    const name = `${key} ${decidedAtMs}`
    // The earlier one gives back less.
    this.#times.set(name, Math.min(ownMs, this.#times.get(name) ?? ownMs))
  }
}
