/** The calls that were sent to a resource lately; those that it refused count for nothing. */
import { findMargin } from './window.ts'

export interface SentCall {
  readonly atMs: number
  /** 0 once the server has refused it. */
  cost: number
  /** Units that were sent so far, with those of this call. */
  total: number
  isAnswered: boolean
}

/** More calls in a window are not counted one by one: such a limit is held by what is reported of it. */
const MAX_CALLS = 20_000
/** Old calls are deleted this seldom, so that it costs little. */
const CALLS_BETWEEN = 1_000
/** Assumed difference of trips to the server until answers have shown it, and its maximum: answers differ for other reasons, too. */
const FIRST_SPREAD_MS = 250
const MAX_SPREAD_MS = 500
/** Answers change what is known of trips by this share. */
const FORGOTTEN_SHARE = 0.02

export class SentCalls {
  /** The first that was sent comes first. */
  #calls: SentCall[] = []
  #added = 0
  last: SentCall | undefined
  /** When the last of those was sent whose answers reported a limit. */
  reportedAtMs = 0
  /** Units of all of them. */
  total = 0
  /** Calls that were sent within this time may arrive in any order. */
  spreadMs = FIRST_SPREAD_MS
  /** The shortest time that an answer takes, and the longest that a refusal has taken. */
  fastestMs = Number.POSITIVE_INFINITY
  slowestRefusalMs = 0

  /** @param atMs may be before that of others: what it is about was not known then */
  add(cost: number, atMs: number, keptMs: number): SentCall {
    if (++this.#added % CALLS_BETWEEN === 0) {
      this.#calls = this.#calls.slice(-MAX_CALLS).filter((old) => old.atMs > atMs - keptMs)
    }
    const index = this.#findAfter('atMs', atMs)
    const call = { atMs, cost: 0, total: this.total - this.count(atMs), isAnswered: false }
    this.#calls.splice(index, 0, call)
    this.last = this.#calls.at(-1)
    this.#charge(index, cost)
    return call
  }

  /** @param tripMs how long the answer took */
  onAnswered(tripMs: number, isRefusal: boolean): void {
    if (isRefusal) {
      this.slowestRefusalMs = Math.max(tripMs, this.slowestRefusalMs)
      return
    }
    const slowerMs = tripMs - Math.min(tripMs, this.fastestMs)
    this.fastestMs = tripMs - slowerMs * (1 - FORGOTTEN_SHARE)
    this.spreadMs = Math.min(MAX_SPREAD_MS, Math.max(slowerMs, this.spreadMs * (1 - FORGOTTEN_SHARE)))
  }

  /** The server has refused it, and does not count it. */
  onRefused(call: SentCall): void {
    this.#charge(this.#calls.lastIndexOf(call), -call.cost)
  }

  /** Units of calls sent after a time, and until another. */
  count(afterMs: number, untilMs = Number.POSITIVE_INFINITY): number {
    const first = this.#calls[this.#findAfter('atMs', afterMs)]
    if (!first || first.atMs > untilMs) return 0
    const next = this.#calls[this.#findAfter('atMs', untilMs)]
    return (next ? next.total - next.cost : this.total) - first.total + first.cost
  }

  /** Calls that were sent from a time on until another, and not refused. */
  *list(fromMs: number, untilMs: number): Generator<SentCall> {
    for (let index = this.#findAfter('atMs', fromMs, true); ; index++) {
      const call = this.#calls[index]
      if (!call || call.atMs > untilMs) return
      if (call.cost > 0) yield call
    }
  }

  /** When the calls of a window leave room for one more. */
  findRoomMs(limit: number, exactMs: number, cost: number, nowMs: number): number {
    const windowMs = exactMs + findMargin(exactMs, this.spreadMs)
    const used = this.count(nowMs - windowMs)
    const surplus = used + Math.min(cost, limit) - limit
    if (surplus <= 0) return nowMs
    const last = this.#calls[this.#findAfter('total', this.total - used + surplus, true)]
    return last ? last.atMs + windowMs : Number.POSITIVE_INFINITY
  }

  /** @param index less than 0 for a call that is kept no more */
  #charge(index: number, units: number): void {
    const call = this.#calls[index]
    if (!call) return
    call.cost += units
    this.total += units
    for (let at = index; at < this.#calls.length; at++) (this.#calls[at] as SentCall).total += units
  }

  /** The index of the first call whose time, or sum of units, is above a bound. */
  #findAfter(field: 'atMs' | 'total', bound: number, isIncluded = false): number {
    let [low, high] = [0, this.#calls.length]
    while (low < high) {
      const middle = (low + high) >> 1
      const value = (this.#calls[middle] as SentCall)[field]
      if (value > bound || (isIncluded && value === bound)) high = middle
      else low = middle + 1
    }
    return low
  }
}
