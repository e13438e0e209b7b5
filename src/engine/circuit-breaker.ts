/** Closed: calls go through. Open: none does. Half-open: one does, and its result decides. */
export type Circuit = 'closed' | 'open' | 'half-open'

export interface CircuitBreakerOptions {
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
  /** A number from 0 to 1, so that isolates do not probe all at once. */
  readonly random: () => number
  /** An unanswered probe stops blocking others after this. */
  readonly probeTimeoutMs: number
}

/** This many failures in a row open the circuit. */
const FAILURES_IN_A_ROW = 5
/** So do failures of half of the calls in a period, if there are enough calls to judge by. */
const PERIOD_MS = 10_000
const FAILURE_SHARE = 0.5
const ENOUGH_CALLS = 20
const FIRST_PAUSE_MS = 250
const LONGEST_PAUSE_MS = 1_000
/** A pause is shortened by up to this share of it. */
const JITTER = 0.25

/**
 * Stops asking what keeps failing (the Circuit Breaker of M. Nygard, Release It!), so that not every request waits for
 * a deadline, and a store that comes back does not meet all that waited. It holds plain data only: requests of one
 * isolate share it, and on Workers none may await a promise of another.
 */
export class CircuitBreaker {
  readonly #options: CircuitBreakerOptions
  #circuit: Circuit = 'closed'
  /** Calls begun before the circuit last changed say nothing about now: this number tells them apart. */
  #generation = 0
  #failuresInARow = 0
  #period = { endsAtMs: 0, calls: 0, failures: 0 }
  #pauseMs = FIRST_PAUSE_MS
  #probeAtMs = 0

  constructor(options: CircuitBreakerOptions) {
    this.#options = options
  }

  get circuit(): Circuit {
    return this.#circuit
  }

  /**
   * Asks whether a call may be made.
   * @returns undefined if not; else a function to be told, once, whether the call succeeded
   */
  begin(): ((isSuccess: boolean) => void) | undefined {
    const nowMs = this.#options.now()
    if (this.#circuit !== 'closed') {
      if (nowMs < this.#probeAtMs) return undefined
      this.#change('half-open')
      this.#probeAtMs = nowMs + this.#options.probeTimeoutMs
    }
    const generation = this.#generation
    return (isSuccess) => {
      if (generation !== this.#generation) return
      if (this.#circuit === 'half-open') this.#endProbe(isSuccess)
      else this.#count(isSuccess)
    }
  }

  #endProbe(isSuccess: boolean): void {
    if (isSuccess) {
      this.#failuresInARow = 0
      this.#period.endsAtMs = 0
      this.#change('closed')
    } else this.#open(Math.min(this.#pauseMs * 2, LONGEST_PAUSE_MS))
  }

  #count(isSuccess: boolean): void {
    const nowMs = this.#options.now()
    if (nowMs >= this.#period.endsAtMs) this.#period = { endsAtMs: nowMs + PERIOD_MS, calls: 0, failures: 0 }
    const period = this.#period
    period.calls++
    if (isSuccess) {
      this.#failuresInARow = 0
      return
    }
    period.failures++
    this.#failuresInARow++
    const isRate = period.calls >= ENOUGH_CALLS && period.failures >= period.calls * FAILURE_SHARE
    if (this.#failuresInARow >= FAILURES_IN_A_ROW || isRate) this.#open(FIRST_PAUSE_MS)
  }

  #open(pauseMs: number): void {
    this.#pauseMs = pauseMs
    this.#probeAtMs = this.#options.now() + pauseMs * (1 - JITTER * this.#options.random())
    this.#change('open')
  }

  #change(circuit: Circuit): void {
    this.#circuit = circuit
    this.#generation++
  }
}
