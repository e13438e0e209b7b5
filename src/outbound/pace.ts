/**
 * The limit of a server that reports none, as its refusals show it. One refusal may be chance: what it showed doubles as
 * fast as so many calls succeed. The more refusals agree, the slower it grows.
 */
import type { SentCall, SentCalls } from './sent-calls.ts'
import { toWindow } from './window.ts'

/** Without a time to wait, the limit is one of calls a second; few calls are counted over a longer time. */
const SECOND_MS = 1_000
const MIN_CALLS = 10
const MAX_SPAN_MS = 20_000
/** More of what was seen of a short window cannot be rounding: 2 s would be taken for 1 s. */
const MAX_ROUNDING_SHARE = 0.49
/** Share of the calls a second that the server admitted. */
const SAFE_SHARE = 0.95
const MIN_LIMIT = 0.01
/** A limit that this many more refusals have shown grows by 1/16, after 16 windows. */
const MAX_AGREEING = 4
/** A limit that is this much higher than the last has nothing to do with it. */
const MAX_AGREEING_SHARE = 1.5

interface Refusal {
  readonly call: SentCall
  readonly pauseMs: number
  /** The server has asked for the pause, and it is longer than the rounding of seconds. */
  readonly isRequested: boolean
  /** Others were sent before, and refused together with this one. */
  readonly isRepeated: boolean
  /** When the last pause was over. */
  readonly resumedAtMs: number
}

interface Shown {
  readonly limit: number
  /** Refusals before it that have shown much the same: the limit grows by a share of 1/2 to the power of it. */
  readonly agreeing: number
}

export class Pace {
  readonly #sent: SentCalls
  readonly #maxWindowMs: number
  /** Infinite until a call was refused. */
  #limit = Number.POSITIVE_INFINITY
  #windowMs = SECOND_MS
  /** Limits that the last two refusals have shown. */
  #shown: Shown = { limit: 0, agreeing: 0 }
  #previous: Shown = this.#shown
  /** How often it has grown since the last one. */
  #grown = 0
  /** Units since the last refusal, or since the limit has grown by less than twice. */
  #admitted = 0
  #changedAtMs = 0

  /** @param maxWindowMs a longer window would hold calls up for longer than any pause may last */
  constructor(sent: SentCalls, maxWindowMs: number) {
    this.#sent = sent
    this.#maxWindowMs = maxWindowMs
  }

  get #isWindow(): boolean {
    return this.#windowMs > SECOND_MS
  }

  onAdmitted(cost: number): void {
    this.#admitted += cost
  }

  onRefused(refusal: Refusal, nowMs: number): void {
    this.#limit =
      refusal.isRequested || this.#isWindow ? this.#findWindow(refusal, nowMs) : this.#findRate(refusal, nowMs)
    if (!refusal.isRepeated) {
      this.#previous = this.#shown
      this.#grown = 0
      this.#admitted = 0
      this.#changedAtMs = nowMs
    }
    const { limit, agreeing } = this.#previous
    const isAgreeing = this.#limit <= MAX_AGREEING_SHARE * limit
    this.#shown = { limit: this.#limit, agreeing: isAgreeing ? Math.min(MAX_AGREEING, agreeing + 1) : 0 }
  }

  /** When a call may start. Calls of a second go evenly, and of longer windows one by one. */
  findStartMs(cost: number, nowMs: number): number {
    const { last } = this.#sent
    if (this.#limit === Number.POSITIVE_INFINITY || !last) return nowMs
    const growsAtMs = this.#grow(nowMs)
    const evenMs = (this.#windowMs / this.#limit) * last.cost
    if (!this.#isWindow) return last.atMs + evenMs
    const roomMs = this.#sent.findRoomMs(this.#limit, this.#windowMs, cost, nowMs)
    return Math.max(last.atMs + Math.min(SECOND_MS, evenMs), Math.min(roomMs, growsAtMs))
  }

  /** @returns when it grows next, if no more calls are needed for that */
  #grow(nowMs: number): number {
    for (;;) {
      const slowness = 2 ** Math.max(0, this.#shown.agreeing - this.#grown / 2)
      if (this.#admitted < this.#limit * slowness) return Number.POSITIVE_INFINITY
      // Calls that were sent since it has changed may still be refused.
      const growsAtMs = this.#changedAtMs + this.#sent.slowestRefusalMs
      if (nowMs < growsAtMs) return growsAtMs
      this.#limit += this.#limit / slowness
      this.#grown++
      this.#changedAtMs = nowMs
      if (slowness > 1) this.#admitted = 0
    }
  }

  /** Finds the window: the time from the first of the calls that were admitted until the end of the pause. */
  #findWindow({ call, pauseMs }: Refusal, nowMs: number): number {
    // A call that has no answer yet was admitted if refusals do not take as long.
    const admitted = [...this.#sent.list(call.atMs - Math.max(pauseMs, this.#windowMs), call.atMs)].filter(
      ({ isAnswered, atMs }) => isAnswered || nowMs - atMs > this.#sent.slowestRefusalMs,
    )
    // Where none was admitted before, less is known of when the window began.
    const [first] = admitted
    const seenMs = call.atMs + pauseMs - (first ?? call).atMs
    if (!this.#isWindow || pauseMs > this.#windowMs) {
      this.#windowMs = Math.min(toWindow(seenMs, first && MAX_ROUNDING_SHARE * seenMs), this.#maxWindowMs)
    }
    return Math.max(1, countUnits(admitted))
  }

  #findRate({ call, resumedAtMs }: Refusal, nowMs: number): number {
    // What was sent later may still be refused.
    const untilMs = Math.min(call.atMs, nowMs - this.#sent.slowestRefusalMs)
    const calls = [...this.#sent.list(untilMs - MAX_SPAN_MS, untilMs)]
    const first = calls.at(-MIN_CALLS) ?? calls[0]
    if (!first) return Math.min(this.#limit, 1)
    const fromMs = Math.min(untilMs - SECOND_MS, Math.max(resumedAtMs, first.atMs))
    const units = Math.max(1, countUnits(calls.filter(({ atMs }) => atMs > fromMs)))
    const perS = (units * SECOND_MS) / (untilMs - fromMs)
    return Math.max(MIN_LIMIT, Math.min(perS * SAFE_SHARE, this.#limit))
  }
}

function countUnits(calls: readonly SentCall[]): number {
  return calls.reduce((sum, { cost }) => sum + cost, 0)
}
