/** The calls that were sent to a resource lately. */
import { findMargin } from './window.ts'

export interface SentCall {
  readonly atMs: number
  readonly cost: number
  /** Units that were sent so far, with those of this call. */
  readonly total: number
  isAnswered: boolean
  isRefused: boolean
}

/** More calls in a window are not counted one by one: such a limit is held by what is reported of it. */
const MAX_CALLS = 20_000
/** Old calls are deleted this seldom, so that it costs little. */
const CALLS_BETWEEN = 1_000

export class SentCalls {
  /** In the order of `total`. */
  #calls: SentCall[] = []
  #total = 0

  get total(): number {
    return this.#total
  }

  get last(): SentCall | undefined {
    return this.#calls.at(-1)
  }

  add(cost: number, atMs: number, keptMs: number): SentCall {
    this.#total += cost
    const call = { atMs, cost, total: this.#total, isAnswered: false, isRefused: false }
    if (this.#calls.push(call) % CALLS_BETWEEN === 0) {
      this.#calls = this.#calls.slice(-MAX_CALLS).filter((old) => old.atMs > atMs - keptMs)
    }
    return call
  }

  /** Units of calls sent after a time. */
  countSince(ms: number): number {
    const first = this.#calls[this.#findIndex((call) => call.atMs > ms)]
    return first ? this.#total - first.total + first.cost : 0
  }

  /** Units of calls without an answer that were sent from a time on, until so many units were sent. */
  countUnanswered(fromMs: number, total: number): number {
    let units = 0
    for (const call of this.#listFrom(fromMs)) {
      if (call.total > total) break
      if (!call.isAnswered) units += call.cost
    }
    return units
  }

  /** Admitted calls that were sent between two times, the first of which counts. */
  *listAdmitted(fromMs: number, untilMs: number): Generator<SentCall> {
    for (const call of this.#listFrom(fromMs)) {
      if (call.atMs > untilMs) return
      if (!call.isRefused) yield call
    }
  }

  /** When so many units had been sent. */
  findTimeMs(total: number): number {
    return this.#calls[this.#findIndex((call) => call.total >= total)]?.atMs ?? Number.POSITIVE_INFINITY
  }

  /** When the calls of a window leave room for one more. */
  findRoomMs(limit: number, exactMs: number, cost: number, nowMs: number): number {
    const windowMs = exactMs + findMargin(exactMs)
    const used = this.countSince(nowMs - windowMs)
    const surplus = used + Math.min(cost, limit) - limit
    return surplus <= 0 ? nowMs : this.findTimeMs(this.#total - used + surplus) + windowMs
  }

  *#listFrom(ms: number): Generator<SentCall> {
    for (let index = this.#findIndex((call) => call.atMs >= ms); index < this.#calls.length; index++) {
      yield this.#calls[index] as SentCall
    }
  }

  /** The first call for which a condition is true that stays true. */
  #findIndex(isAfter: (call: SentCall) => boolean): number {
    let [low, high] = [0, this.#calls.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (isAfter(this.#calls[middle] as SentCall)) high = middle
      else low = middle + 1
    }
    return low
  }
}
