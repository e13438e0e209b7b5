/**
 * An exact log of admissions that answers in logarithmic time. Each entry holds all units ever admitted up to it, so
 * the usage of any window is the difference of two entries, however many lie between them. Entries are in a ring of
 * numbers, found by doubling steps from where the longest window began last.
 */
import type { Limit } from '../model/limits.ts'
import type { MutableLimitState, PenaltyState } from './algorithm.ts'

/** A ring of up to so many numbers is not made shorter. */
const MIN_SHRUNK = 64

/**
 * An exact log of admissions, read as prefix sums. It has one entry for all admissions of the same millisecond, because
 * windows do not distinguish them: so it never has more entries than its longest window has milliseconds.
 */
export class WindowLog {
  /**
   * Pairs of numbers, oldest first: the date of an entry, and all units ever admitted up to it. Positions only grow; the
   * place of a position is its remainder by the length, a power of two.
   */
  ring = [0.5, 0.5]
  /** Positions of the oldest pair, and after the newest. */
  start = 0
  end = 0
  /** The first position inside the longest window at the last charge. Searches begin here. */
  live = 0
  /** All units ever admitted before the oldest pair. */
  before = 0
  /** The longest window at the last charge. */
  keptMs = 0
  penalty: PenaltyState | undefined = undefined
  /** Date of the latest entry that records refusals, which has no units; 0 if there was none. */
  penaltyMs = 0
  keepsAll = false

  get size(): number {
    return (this.end - this.start) / 2
  }

  /** All units ever admitted. */
  get total(): number {
    return this.#readTotal(this.end)
  }

  /** Date of the oldest entry; infinite if there is none. */
  get oldestMs(): number {
    return this.end > this.start ? this.#readDate(this.start) : Number.POSITIVE_INFINITY
  }

  /** Date of the newest entry, or of a recorded refusal after it; 0 if there is none. */
  get newestMs(): number {
    return Math.max(this.end > this.start ? this.#readDate(this.end - 2) : 0, this.penaltyMs)
  }

  measure({ limit, windowMs }: Limit, nowMs: number, wanted: number, state: MutableLimitState): void {
    const first = this.#findFirst(nowMs - windowMs)
    const isUnused = first === this.end
    const total = this.#readTotal(this.end)
    const used = isUnused ? 0 : total - this.#readTotal(first)
    const remaining = Math.max(limit - used, 0)
    state.remaining = remaining
    // If more is used than the limit, which may have been lowered, the first entry to leave frees no unit.
    const freeing = used > limit ? this.#findAbove(total - limit, first, 1) : first
    state.resetMs = isUnused ? windowMs : this.#readDate(freeing) + windowMs - nowMs
    if (remaining >= wanted) return
    // Such a cost never fits, and configuration refuses it.
    if (wanted > limit) state.retryAfterMs = windowMs
    else {
      // Once the entry with this running total has left the window, enough units are free.
      const last = this.#findAbove(total + wanted - limit - 1, freeing, 1)
      state.retryAfterMs = this.#readDate(last) + windowMs - nowMs
    }
  }

  /**
   * @param dateMs end of the lease, if there is one
   * @returns a new time to live, if it gets one
   */
  charge(nowMs: number, dateMs: number, keptMs: number, units: number, penalty?: PenaltyState): number | undefined {
    const newestMs = this.newestMs
    const total = this.#readTotal(this.end)
    this.live = this.#findFirst(nowMs - keptMs)
    const held = total - this.#readTotal(this.live)
    // Time never goes back: if the clock did, entries stay longer. For a recorded refusal, the date must grow.
    const entryMs = Math.max(dateMs, penalty ? newestMs + 1 : newestMs)
    if (penalty) {
      this.penaltyMs = entryMs
      this.penalty = penalty
    } else {
      this.add(entryMs, units)
      if (this.penalty && this.penalty.untilMs <= nowMs) this.penalty = undefined
    }
    if (isTrimmed(held, total, units) || this.penalty) this.#dropLeft()
    const isSame = this.keptMs === keptMs && !penalty
    if (isSame && entryMs === newestMs) return undefined
    this.keptMs = keptMs
    const epochMs = roundUpToSeconds(2 * keptMs) - keptMs
    const epoch = Math.floor(entryMs / epochMs)
    if (isSame && epoch === Math.floor(newestMs / epochMs)) return undefined
    return roundUpToSeconds(Math.max((epoch + 1) * epochMs + keptMs, this.penalty?.untilMs ?? 0) - nowMs)
  }

  /** Adds an entry, or its units to the newest one if that has its date. @param dateMs not before that of the newest */
  add(dateMs: number, units: number): void {
    const total = this.#readTotal(this.end) + units
    if (this.end === this.start || dateMs !== this.#readDate(this.end - 2)) {
      if (this.end - this.start === this.ring.length) this.#grow()
      this.end += 2
    }
    this.#write(this.end - 2, dateMs, total)
  }

  /**
   * Removes units from the entry of a date, as if they had never been admitted.
   * @returns what is left of the entry; undefined if there is none
   */
  remove(dateMs: number, units: number): number | undefined {
    const found = this.#findAbove(dateMs - 1, this.start, 0)
    if (found === this.end || this.#readDate(found) !== dateMs) return undefined
    const left = this.#readTotal(found + 2) - this.#readTotal(found) - units
    const gone = left === 0 ? 2 : 0
    this.end -= gone
    for (let at = found; at < this.end; at += 2) {
      this.#write(at, this.#readDate(at + gone), this.#readTotal(at + gone + 2) - units)
    }
    if (this.live > found) this.live -= gone
    return left
  }

  /** Drops entries dated `sinceMs` or earlier. */
  dropUntil(sinceMs: number): void {
    this.live = this.#findFirst(sinceMs)
    this.#dropLeft()
  }

  dropAllBut(newest: number): void {
    this.live = Math.max(this.start, this.end - 2 * newest)
    this.#dropLeft()
  }

  /** Drops what has left the longest window. */
  #dropLeft(): void {
    if (this.live === this.start || this.keepsAll) return
    this.before = this.#readTotal(this.live)
    this.start = this.live
    const { length } = this.ring
    if (length > MIN_SHRUNK && (this.end - this.start) * 8 <= length) this.#shrink(length / 4)
  }

  /** Makes room for twice as many pairs, and for eight at first: to collect smaller rings takes longer than to fill them. */
  #grow(): void {
    // Twice the same ring has each pair where it belongs, for any positions.
    const twice = this.ring.concat(this.ring)
    this.ring = twice.length > 4 ? twice : twice.concat(twice, twice, twice)
  }

  #shrink(length: number): void {
    const ring = this.ring.slice(0, length)
    for (let at = this.start; at < this.end; at++)
      ring[at & (length - 1)] = this.ring[at & (this.ring.length - 1)] as number
    this.ring = ring
  }

  #write(position: number, dateMs: number, total: number): void {
    const at = position & (this.ring.length - 1)
    this.ring[at] = dateMs
    this.ring[at + 1] = total
  }

  #readDate(position: number): number {
    return this.ring[position & (this.ring.length - 1)] as number
  }

  /** All units ever admitted before a position. */
  #readTotal(position: number): number {
    return position === this.start ? this.before : (this.ring[(position - 1) & (this.ring.length - 1)] as number)
  }

  /** Finds the first position dated after `sinceMs`. */
  #findFirst(sinceMs: number): number {
    const live = this.live
    // After a step back of the clock, older entries count again.
    const isBefore = live === this.start || this.#readDate(live - 2) <= sinceMs
    return this.#findAbove(sinceMs, isBefore ? live : this.start, 0)
  }

  /** Finds the first position, from one on, whose date (0) or total (1) is above a bound: usually one of the next. */
  #findAbove(bound: number, from: number, which: 0 | 1): number {
    const ring = this.ring
    const mask = ring.length - 1
    let low = from
    let high = from
    for (let step = 2; high < this.end && (ring[(high & mask) + which] as number) <= bound; step *= 2) {
      low = high + 2
      high += step
    }
    high = Math.min(high, this.end)
    while (low < high) {
      const middle = low + (((high - low) >>> 2) << 1)
      if ((ring[(middle & mask) + which] as number) > bound) high = middle
      else low = middle + 2
    }
    return low
  }
}

/**
 * Old entries are dropped when the total of units passes a multiple of 64, or of 8 if the longest window holds fewer
 * than 64: this says whether it does.
 */
function isTrimmed(held: number, total: number, units: number): boolean {
  const together = held < 64 ? 8 : 64
  // The remainder by a power of two, which is slow to divide by once totals are no small integers.
  return (total & (together - 1)) + units >= together
}

/** `EXPIRE` takes whole seconds. */
export function roundUpToSeconds(ms: number): number {
  return Math.ceil(ms / 1000) * 1000
}
