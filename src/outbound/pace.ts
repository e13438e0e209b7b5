/**
 * How fast calls go to a server that refuses without telling its limits. Calls are spaced evenly, which keeps any
 * window; the pace grows while nothing is refused, and a refusal cuts it back.
 */

/** Calls that may be under way at first. Four that are admitted make room for one more. */
const FIRST_IN_FLIGHT = 5
const MORE_IN_FLIGHT = 0.25

/** A refusal leaves this share of a pace, at most and at least: a bad guess may be far off, a bad moment says little. */
const MAX_REST = 0.8
const MIN_REST = 0.5

/** Shares of the refused pace that are added in one step, below it and well beyond it. */
const INCREASE = 0.02
const FAST_INCREASE = 0.1
const WELL_BEYOND = 1.25

/** A step of growth takes as many admitted calls as a pause would have held, and this many at least. */
const MIN_STEP_CALLS = 10

/** `Retry-After` is in whole seconds: shorter pauses say nothing about a window. */
const MIN_PAUSE_MS = 1_000

/** Calls sent before so long a silence say nothing about a refusal. */
const SILENCE_MS = 1_000

/** A pace is forgotten when nothing was refused for this long, and for ten pauses. */
const FORGOTTEN_AFTER_MS = 3_600_000
const FORGOTTEN_AFTER_PAUSES = 10

/** Calls from the first one after a pause to the end of the next pause. */
interface Span {
  readonly fromMs: number
  admitted: number
  /** Undefined until a call is refused. */
  untilMs: number | undefined
}

export class Pace {
  /** Calls in a millisecond; undefined while nothing is known that bounds them. */
  #perMs: number | undefined
  /** The pace at which the server last refused, or twice that where it was exceeded. */
  #refusedPerMs = 0
  #pauseMs = MIN_PAUSE_MS
  #refusedAtMs = 0
  #sentAtMs = Number.NEGATIVE_INFINITY
  #span: Span = { fromMs: Number.NEGATIVE_INFINITY, admitted: 0, untilMs: undefined }
  /** Calls came as fast as the pace allowed. */
  #isUsed = false
  #maxInFlight = FIRST_IN_FLIGHT
  readonly #maxSpacingMs: number

  constructor(maxSpacingMs: number) {
    this.#maxSpacingMs = maxSpacingMs
  }

  /** Calls that may be under way at once. */
  get maxInFlight(): number {
    return Math.floor(this.#maxInFlight)
  }

  /** @returns milliseconds after which the next call may go; 0 if it may go now */
  waitMs(nowMs: number): number {
    const lastsMs = Math.max(FORGOTTEN_AFTER_MS, FORGOTTEN_AFTER_PAUSES * this.#pauseMs)
    if (nowMs - this.#refusedAtMs > lastsMs) this.#perMs = undefined
    // The first call after a pause.
    if (this.#perMs === undefined || this.#span.untilMs !== undefined) return 0
    return Math.max(0, this.#sentAtMs + Math.min(1 / this.#perMs, this.#maxSpacingMs) - nowMs)
  }

  sent(nowMs: number): void {
    const silenceMs = nowMs - this.#sentAtMs
    const spacingMs = this.#perMs === undefined ? 0 : 1 / this.#perMs
    this.#isUsed = silenceMs < 2 * spacingMs
    if (this.#span.untilMs !== undefined) this.#learn(this.#span, this.#span.untilMs)
    if (this.#span.untilMs !== undefined || silenceMs > Math.max(SILENCE_MS, 2 * spacingMs)) {
      this.#span = { fromMs: nowMs, admitted: 0, untilMs: undefined }
    }
    this.#sentAtMs = nowMs
  }

  admitted(sentAtMs: number): void {
    if (sentAtMs < this.#span.fromMs) return
    this.#span.admitted++
    this.#maxInFlight += MORE_IN_FLIGHT
    if (this.#perMs === undefined || !this.#isUsed || this.#span.untilMs !== undefined) return
    const share = this.#perMs > WELL_BEYOND * this.#refusedPerMs ? FAST_INCREASE : INCREASE
    this.#perMs += (share * this.#refusedPerMs) / Math.max(MIN_STEP_CALLS, this.#refusedPerMs * this.#pauseMs)
    if (this.#perMs > 2 * this.#refusedPerMs) this.#refusedPerMs = this.#perMs
  }

  /** @param pauseMs how long nothing will be sent */
  refused(sentAtMs: number, pauseMs: number, nowMs: number): void {
    if (sentAtMs < this.#span.fromMs) return
    this.#refusedAtMs = nowMs
    this.#pauseMs = Math.max(MIN_PAUSE_MS, pauseMs)
    this.#span.untilMs = Math.max(this.#span.untilMs ?? 0, sentAtMs + this.#pauseMs)
    this.#maxInFlight = FIRST_IN_FLIGHT
  }

  /** A server allows from one pause to the next as much as it has admitted in that time. */
  #learn({ fromMs, admitted }: Span, untilMs: number): void {
    // It refuses all calls: that says nothing about how many it allows.
    if (admitted === 0) return
    const measured = admitted / (untilMs - fromMs)
    const before = this.#perMs
    this.#perMs =
      before === undefined ? measured * MAX_REST : Math.min(before * MAX_REST, Math.max(before * MIN_REST, measured))
    this.#refusedPerMs = this.#perMs / MAX_REST
  }
}
