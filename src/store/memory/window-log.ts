import { type Algorithm, type MutableLimitState, type PenaltyState, toPeek } from '../../algorithms/algorithm.ts'
import { isTrimmed, longestWindowMs, wholeSeconds } from '../../algorithms/sliding-window.ts'
import type { Limit } from '../../model/limits.ts'

/** A ring of up to so many numbers is not made shorter. */
const MIN_SHRUNK = 64

/**
 * The log of `sliding-window` as memory keeps it. It decides as `algorithms/sliding-window.ts` does, which a property
 * test compares it with, in less time and memory.
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
  keptMs = 0
  penalty: PenaltyState | undefined = undefined
  /** Date of the latest penalty, which is an entry of no units; 0 if there was none. */
  penaltyMs = 0

  /** Writes the state of a limit into `state`. */
  measure({ limit, windowMs }: Limit, nowMs: number, wanted: number, state: MutableLimitState): void {
    const first = this.#findFirst(nowMs - windowMs)
    const isUnused = first === this.end
    const total = this.#totalBefore(this.end)
    const used = isUnused ? 0 : total - this.#totalBefore(first)
    state.remaining = Math.max(limit - used, 0)
    state.resetMs = isUnused ? windowMs : this.#dateAt(first) + windowMs - nowMs
    if (state.remaining >= wanted) return
    // Such a cost never fits, and configuration refuses it.
    if (wanted > limit) state.retryAfterMs = windowMs
    else {
      const freeing = this.#findAbove(total + wanted - limit - 1, first, 1)
      state.retryAfterMs = this.#dateAt(freeing) + windowMs - nowMs
    }
  }

  /**
   * @param dateMs end of the lease, if there is one
   * @returns a new time to live, if it gets one
   */
  charge(nowMs: number, dateMs: number, keptMs: number, units: number, penalty?: PenaltyState): number | undefined {
    const newestMs = Math.max(this.end > this.start ? this.#dateAt(this.end - 2) : 0, this.penaltyMs)
    const total = this.#totalBefore(this.end)
    this.live = this.#findFirst(nowMs - keptMs)
    const held = total - this.#totalBefore(this.live)
    // Time never goes back: if the clock did, entries stay longer. After a penalty, the date must grow.
    const entryMs = Math.max(dateMs, penalty ? newestMs + 1 : newestMs)
    if (penalty) {
      this.penaltyMs = entryMs
      this.penalty = penalty
    } else {
      this.#add(entryMs, total + units)
      if (this.penalty && this.penalty.untilMs <= nowMs) this.penalty = undefined
    }
    if (isTrimmed(held, total, units) || this.penalty) this.#trim()
    const isSame = this.keptMs === keptMs && !penalty
    if (isSame && entryMs === newestMs) return undefined
    this.keptMs = keptMs
    const epochMs = wholeSeconds(2 * keptMs) - keptMs
    const epoch = Math.floor(entryMs / epochMs)
    if (isSame && epoch === Math.floor(newestMs / epochMs)) return undefined
    return wholeSeconds(Math.max((epoch + 1) * epochMs + keptMs, this.penalty?.untilMs ?? 0) - nowMs)
  }

  #add(dateMs: number, total: number): void {
    if (this.end === this.start || dateMs !== this.#dateAt(this.end - 2)) {
      // Twice the same ring has each pair at its place, whatever the positions are.
      if (this.end - this.start === this.ring.length) this.ring = this.ring.concat(this.ring)
      this.end += 2
    }
    const at = (this.end - 2) & (this.ring.length - 1)
    this.ring[at] = dateMs
    this.ring[at + 1] = total
  }

  /** Drops what has left the longest window. */
  #trim(): void {
    if (this.live === this.start) return
    this.before = this.#totalBefore(this.live)
    this.start = this.live
    const { length } = this.ring
    if (length > MIN_SHRUNK && (this.end - this.start) * 8 <= length) this.#shrink(length / 4)
  }

  #shrink(length: number): void {
    const ring = this.ring.slice(0, length)
    for (let at = this.start; at < this.end; at++)
      ring[at & (length - 1)] = this.ring[at & (this.ring.length - 1)] as number
    this.ring = ring
  }

  #dateAt(position: number): number {
    return this.ring[position & (this.ring.length - 1)] as number
  }

  /** All units ever admitted before a position. */
  #totalBefore(position: number): number {
    return position === this.start ? this.before : (this.ring[(position - 1) & (this.ring.length - 1)] as number)
  }

  /** Finds the first position dated after `sinceMs`. */
  #findFirst(sinceMs: number): number {
    const live = this.live
    // After a step back of the clock, older entries count again.
    const isBefore = live === this.start || this.#dateAt(live - 2) <= sinceMs
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

const EMPTY = new WindowLog()

export const windowLog: Algorithm<WindowLog> = {
  peek(log = EMPTY, { limits }, nowUs, wanted) {
    const nowMs = Math.floor(nowUs / 1000)
    const usage = limits.map((limit) => {
      const state = { remaining: 0, resetMs: 0, retryAfterMs: 0 }
      log.measure(limit, nowMs, wanted, state)
      return state
    })
    return toPeek(usage, log.penalty)
  },

  commit(log = new WindowLog(), charge, nowUs, units, leaseMs = 0, penalty) {
    const dateMs = Math.ceil(nowUs / 1000) + leaseMs
    const ttlMs = log.charge(Math.floor(nowUs / 1000), dateMs, longestWindowMs(charge), units, penalty)
    return ttlMs === undefined ? { state: log } : { state: log, ttlMs }
  },
}
