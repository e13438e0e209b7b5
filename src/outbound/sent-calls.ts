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
  #total = 0
  #added = 0
  #fastestMs = Number.POSITIVE_INFINITY
  #spreadMs = FIRST_SPREAD_MS
  #slowestRefusalMs = 0

  /** Calls that were sent within this time may arrive in any order. */
  get spreadMs(): number {
    return this.#spreadMs
  }

  get total(): number {
    return this.#total
  }

  get last(): SentCall | undefined {
    return this.#calls.at(-1)
  }

  /** @param atMs may be before that of others: what it is about was not known then */
  add(cost: number, atMs: number, keptMs: number): SentCall {
    if (++this.#added % CALLS_BETWEEN === 0) {
      this.#calls = this.#calls.slice(-MAX_CALLS).filter((old) => old.atMs > atMs - keptMs)
    }
    const index = this.#findIndex((call) => call.atMs > atMs)
    const call = { atMs, cost, total: this.#total - this.#countFrom(index), isAnswered: false }
    this.#calls.splice(index, 0, call)
    this.#addTo(index, cost)
    return call
  }

  /** The longest time that a refusal has taken. */
  get slowestRefusalMs(): number {
    return this.#slowestRefusalMs
  }

  /** The shortest time that an answer takes. */
  get fastestMs(): number {
    return this.#fastestMs
  }

  /** @param tripMs how long the answer took */
  onAnswered(tripMs: number, isRefusal: boolean): void {
    if (isRefusal) {
      this.#slowestRefusalMs = Math.max(tripMs, this.#slowestRefusalMs)
      return
    }
    const slowerMs = tripMs - Math.min(tripMs, this.#fastestMs)
    this.#fastestMs = tripMs - slowerMs * (1 - FORGOTTEN_SHARE)
    this.#spreadMs = Math.min(MAX_SPREAD_MS, Math.max(slowerMs, this.#spreadMs * (1 - FORGOTTEN_SHARE)))
  }

  /** The server has refused it, and does not count it. */
  onRefused(call: SentCall): void {
    const index = this.#calls.lastIndexOf(call)
    if (index >= 0) this.#addTo(index, -call.cost)
    call.cost = 0
  }

  /** Units of calls sent after a time, and until another. */
  count(afterMs: number, untilMs = Number.POSITIVE_INFINITY): number {
    const until =
      untilMs === Number.POSITIVE_INFINITY ? 0 : this.#countFrom(this.#findIndex(({ atMs }) => atMs > untilMs))
    return this.#countFrom(this.#findIndex(({ atMs }) => atMs > afterMs)) - until
  }

  /** Calls that were sent from a time on until another, and not refused. */
  *list(fromMs: number, untilMs: number): Generator<SentCall> {
    for (let index = this.#findIndex(({ atMs }) => atMs >= fromMs); ; index++) {
      const call = this.#calls[index]
      if (!call || call.atMs > untilMs) return
      if (call.cost > 0) yield call
    }
  }

  /** When so many units had been sent. */
  findTimeMs(total: number): number {
    return this.#calls[this.#findIndex((call) => call.total >= total)]?.atMs ?? Number.POSITIVE_INFINITY
  }

  /** When the calls of a window leave room for one more. */
  findRoomMs(limit: number, exactMs: number, cost: number, nowMs: number): number {
    const windowMs = exactMs + findMargin(exactMs, this.#spreadMs)
    const used = this.count(nowMs - windowMs)
    const surplus = used + Math.min(cost, limit) - limit
    return surplus <= 0 ? nowMs : this.findTimeMs(this.#total - used + surplus) + windowMs
  }

  #addTo(index: number, units: number): void {
    this.#total += units
    for (const call of this.#calls.slice(index)) call.total += units
  }

  #countFrom(index: number): number {
    const first = this.#calls[index]
    return first ? this.#total - first.total + first.cost : 0
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
