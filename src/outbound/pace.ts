/**
 * The pace of calls to a server that refuses without reporting limits. Calls are spaced evenly, which keeps to any
 * window; the pace grows while nothing is refused, and a refusal reduces it.
 */

/** Maximum of calls under way at first. Four that are admitted make room for one more. */
const FIRST_IN_FLIGHT = 5
const MORE_IN_FLIGHT = 0.25
/** A refusal leaves this share of a pace: a bad guess may be far off, a single refusal may mean little. */
const MAX_REST = 0.8
const MIN_REST = 0.5
/** Shares of the refused pace that one step of growth adds, below it and well beyond it. */
const INCREASE = 0.02
const FAST_INCREASE = 0.1
const WELL_BEYOND = 1.25
/** A step of growth takes as many admitted calls as a pause would have held, and this many at least. */
const MIN_STEP_CALLS = 10
/** `Retry-After` is in whole seconds: shorter pauses are no measure of a window. */
const MIN_PAUSE_MS = 1_000
/** Calls sent before such a silence have no share in a refusal. */
const SILENCE_MS = 1_000
/** A pace is deleted when nothing was refused for this long, and for ten pauses. */
const MAX_AGE_MS = 3_600_000
const MAX_AGE_PAUSES = 10

/** The time from the first call after a pause to the end of the next pause. */
interface Span {
  readonly fromMs: number
  admitted: number
  /** Undefined until a call is refused. */
  untilMs: number | undefined
}

export class Pace {
  /** Calls in a millisecond; undefined while no bound is known. */
  #perMs: number | undefined
  /** The pace at which the server last refused, or twice that once it was exceeded. */
  #refusedPerMs = 0
  #pauseMs = MIN_PAUSE_MS
  #refusedAtMs = 0
  #sentAtMs = Number.NEGATIVE_INFINITY
  #span: Span = { fromMs: Number.NEGATIVE_INFINITY, admitted: 0, untilMs: undefined }
  /** The last calls came as fast as the pace allowed. */
  #isUsed = false
  #maxInFlight = FIRST_IN_FLIGHT
  readonly #maxSpacingMs: number

  constructor(maxSpacingMs: number) {
    this.#maxSpacingMs = maxSpacingMs
  }

  get maxInFlight(): number {
    return Math.floor(this.#maxInFlight)
  }

  /** @returns milliseconds after which the next call may go; 0 if it may go now */
  waitMs(nowMs: number): number {
    const lastsMs = Math.max(MAX_AGE_MS, MAX_AGE_PAUSES * this.#pauseMs)
    if (nowMs - this.#refusedAtMs > lastsMs) this.#perMs = undefined
    // The first call after a pause does not wait.
    if (this.#perMs === undefined || this.#span.untilMs !== undefined) return 0
    return Math.max(0, this.#sentAtMs + Math.min(1 / this.#perMs, this.#maxSpacingMs) - nowMs)
  }

  onSent(nowMs: number): void {
    const silenceMs = nowMs - this.#sentAtMs
    const spacingMs = this.#perMs === undefined ? 0 : 1 / this.#perMs
    this.#isUsed = silenceMs < 2 * spacingMs
    if (this.#span.untilMs !== undefined) this.#learn(this.#span, this.#span.untilMs)
    if (this.#span.untilMs !== undefined || silenceMs > Math.max(SILENCE_MS, 2 * spacingMs)) {
      this.#span = { fromMs: nowMs, admitted: 0, untilMs: undefined }
    }
    this.#sentAtMs = nowMs
  }

  onAdmitted(sentAtMs: number): void {
    if (sentAtMs < this.#span.fromMs) return
    this.#span.admitted++
    this.#maxInFlight += MORE_IN_FLIGHT
    if (this.#perMs === undefined || !this.#isUsed || this.#span.untilMs !== undefined) return
    const share = this.#perMs > WELL_BEYOND * this.#refusedPerMs ? FAST_INCREASE : INCREASE
    this.#perMs += (share * this.#refusedPerMs) / Math.max(MIN_STEP_CALLS, this.#refusedPerMs * this.#pauseMs)
    if (this.#perMs > 2 * this.#refusedPerMs) this.#refusedPerMs = this.#perMs
  }

  /** @param pauseMs how long nothing will be sent */
  onRefused(sentAtMs: number, pauseMs: number, nowMs: number): void {
    if (sentAtMs < this.#span.fromMs) return
    this.#refusedAtMs = nowMs
    this.#pauseMs = Math.max(MIN_PAUSE_MS, pauseMs)
    this.#span.untilMs = Math.max(this.#span.untilMs ?? 0, sentAtMs + this.#pauseMs)
    this.#maxInFlight = FIRST_IN_FLIGHT
  }

  /** A server's limit from one pause to the next is what it has admitted in that time. */
  #learn({ fromMs, admitted }: Span, untilMs: number): void {
    // A server that refuses all calls shows no limit.
    if (admitted === 0) return
    const measured = admitted / (untilMs - fromMs)
    const before = this.#perMs ?? measured
    this.#perMs = Math.min(before * MAX_REST, Math.max(before * MIN_REST, measured))
    this.#refusedPerMs = this.#perMs / MAX_REST
  }
}
