/** Remembers when charges were made by the clock of the place that made them. */
import { Lru } from '../runtime/lru.ts'

/** Charges whose own time is remembered. */
const MAX_CHARGES = 10_000

/** Times of charges by the clock of their object or node, where that differs from their decision's. */
export class ChargeTimes {
  readonly #times = new Lru<number>(MAX_CHARGES)

  get(key: string, decidedAtMs: number): number {
    return this.#times.get(`${key} ${decidedAtMs}`) ?? decidedAtMs
  }

  remember(key: string, decidedAtMs: number, ownMs: number): void {
    if (ownMs === decidedAtMs) return
    const name = `${key} ${decidedAtMs}`
    // The earlier one gives back less.
    this.#times.set(name, Math.min(ownMs, this.#times.get(name) ?? ownMs))
  }
}
