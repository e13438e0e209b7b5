/** The limit of a server that reports none, as its refusals show it: it falls with each, and grows slowly after it. */
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
/** The limit grows by this share, then twice that and so on, whenever so many windows were used without a refusal. */
const FIRST_STEP = 0.02
const STEP_WINDOWS = 8
const MIN_STEP_CALLS = 20

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

export class Pace {
  readonly #sent: SentCalls
  readonly #maxWindowMs: number
  /** Infinite until a call was refused. */
  #limit = Number.POSITIVE_INFINITY
  #windowMs = SECOND_MS
  #step = FIRST_STEP
  #admitted = 0

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
    if (this.#admitted < Math.max(MIN_STEP_CALLS, STEP_WINDOWS * this.#limit)) return
    this.#limit += Math.max(this.#limit * this.#step, this.#isWindow ? 1 : 0)
    this.#step = Math.min(1, 2 * this.#step)
    this.#admitted = 0
  }

  onRefused(refusal: Refusal): void {
    const limit = refusal.isRequested || this.#isWindow ? this.#findWindow(refusal) : this.#findRate(refusal)
    this.#limit = limit
    if (refusal.isRepeated) return
    this.#step = FIRST_STEP
    this.#admitted = 0
  }

  /** When a call may start. Calls of a second go evenly, and of longer windows one by one. */
  findStartMs(cost: number, nowMs: number): number {
    const { last } = this.#sent
    if (this.#limit === Number.POSITIVE_INFINITY || !last) return nowMs
    const evenMs = (this.#windowMs / this.#limit) * last.cost
    if (!this.#isWindow) return last.atMs + evenMs
    const roomMs = this.#sent.findRoomMs(this.#limit, this.#windowMs, cost, nowMs)
    return Math.max(last.atMs + Math.min(SECOND_MS, evenMs), roomMs)
  }

  #listAdmitted(fromMs: number, refused: SentCall): SentCall[] {
    return [...this.#sent.list(fromMs, refused.atMs)].filter((call) => call !== refused)
  }

  /** What was admitted, in the time from the first of these calls until the end of the pause. */
  #findWindow({ call, pauseMs, isRepeated }: Refusal): number {
    // Several calls, one in each window, and a refusal nevertheless: it is longer.
    const isTooShort = this.#isWindow && this.#limit <= call.cost && this.#admitted > call.cost && !isRepeated
    if (isTooShort) this.#setWindow(toWindow(this.#windowMs + 1, 0))
    const admitted = this.#listAdmitted(call.atMs - Math.max(pauseMs, this.#windowMs), call)
    const isLonger = !this.#isWindow || pauseMs > this.#windowMs
    // Where none was admitted before, less is known of when the window began.
    const [first] = admitted
    const seenMs = call.atMs + pauseMs - (first ?? call).atMs
    if (isLonger) this.#setWindow(toWindow(seenMs, first && MAX_ROUNDING_SHARE * seenMs))
    return Math.max(1, countUnits(admitted))
  }

  #setWindow(windowMs: number): void {
    this.#windowMs = Math.min(windowMs, this.#maxWindowMs)
  }

  #findRate({ call, resumedAtMs }: Refusal): number {
    const calls = this.#listAdmitted(call.atMs - MAX_SPAN_MS, call)
    const first = calls.at(-MIN_CALLS) ?? calls[0]
    if (!first) return Math.min(this.#limit, 1)
    const fewMs = Math.max(resumedAtMs, first.atMs)
    const fromMs = Math.min(call.atMs - SECOND_MS, fewMs)
    const units = Math.max(1, countUnits(calls.filter(({ atMs }) => atMs > fromMs)))
    const perS = (units * SECOND_MS) / (call.atMs - fromMs)
    return Math.max(MIN_LIMIT, Math.min(perS, this.#limit) * SAFE_SHARE)
  }
}

function countUnits(calls: readonly SentCall[]): number {
  return calls.reduce((sum, { cost }) => sum + cost, 0)
}
