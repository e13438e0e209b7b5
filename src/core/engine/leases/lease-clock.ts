/** The clock by which leases end. When it has stepped back, it is not known when they do, so it ends them all. */
import type { Clocks } from '../../runtime/clocks.ts'

/** A clock of whole milliseconds, read with one that has parts of them, seems to move by up to this. */
const MAX_ROUNDING_MS = 1

/**
 * On Workers, a request whose timer is late reads when that was due (workerd, `io-channels.h`), on the steady clock, too:
 * up to so much less than others have read is no step back, and it is their time that counts.
 */
const MAX_LATE_MS = 20

export class LeaseClock {
  readonly #now: () => number
  readonly #readSteadyMs: () => number
  #latestMs = 0
  #latestSteadyMs = 0
  /** The clock has been ahead of the steady one by at least this since it last stepped back. */
  #leastAheadMs = Number.NEGATIVE_INFINITY
  #generation = 0

  constructor({ now, readSteadyMs = () => 0 }: Pick<Clocks, 'now' | 'readSteadyMs'>) {
    this.#now = now
    this.#readSteadyMs = readSteadyMs
  }

  /** Leases of an earlier generation have ended, also those that are on their way. */
  get generation(): number {
    return this.#generation
  }

  endLeases(): void {
    this.#generation++
  }

  /** @returns the latest time that was read since the last step back */
  read(): number {
    // The process may be held up between two readings: the clock is ahead by at most the first difference, and at least
    // the second.
    const beforeMs = this.#readSteadyMs()
    const nowMs = this.#now()
    const afterMs = this.#readSteadyMs()
    const lateMs = afterMs < this.#latestSteadyMs ? MAX_LATE_MS : 0
    if (nowMs < this.#latestMs - lateMs || nowMs - beforeMs < this.#leastAheadMs - MAX_ROUNDING_MS) {
      this.endLeases()
      this.#leastAheadMs = Number.NEGATIVE_INFINITY
      this.#latestMs = nowMs
      this.#latestSteadyMs = afterMs
    }
    this.#leastAheadMs = Math.max(this.#leastAheadMs, nowMs - afterMs)
    this.#latestMs = Math.max(this.#latestMs, nowMs)
    this.#latestSteadyMs = Math.max(this.#latestSteadyMs, afterMs)
    return this.#latestMs
  }
}
