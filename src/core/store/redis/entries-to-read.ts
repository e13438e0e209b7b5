/** Guesses how much of a stream the next decision needs to read. */
import type { Decision, DecisionRequest, StoreCharge } from '../../model/charge.ts'
import { Lru } from '../../runtime/lru.ts'
import { MAX_ENTRIES_TO_READ } from './script.ts'

const MAX_KEYS = 10_000
/**
 * Remembers how many entries the next decision on a stream needs to read at once to find the windows that hold few. Where
 * they turn out to be too few, the script sends one command more for a limit.
 */
export class EntriesToRead {
  readonly #counts = new Lru<number>(MAX_KEYS)

  readonly find = ({ key }: StoreCharge): number | undefined => this.#counts.get(key)

  update({ charges, permits }: DecisionRequest, { usage }: Decision): void {
    for (const [index, { key, algorithm, limits, cost }] of charges.entries()) {
      if (algorithm !== 'sliding-window') continue
      // Others are assumed to charge entries as large as this one.
      const units = cost * permits
      let entries = 1
      for (const [at, { limit }] of limits.entries()) {
        const held = Math.ceil((limit - (usage[index]?.[at]?.remaining ?? limit)) / units)
        // The windows of limits that hold many are looked up; but one may leave until then. Two may be added elsewhere,
        // and the one before a window shows where it begins.
        if (held <= MAX_ENTRIES_TO_READ + 1)
          entries = Math.max(entries, Math.min(held + 2, Math.floor(limit / units)) + 1)
      }
      entries = Math.min(MAX_ENTRIES_TO_READ, entries)
      if (this.#counts.get(key) !== entries) this.#counts.set(key, entries)
    }
  }
}
