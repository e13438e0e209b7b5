/** No script shall hold up the server for longer. */
export const LONGEST_SCRIPT_US = 5_000
/** After it, a script begins no more keys: what is left goes into another one. */
export const SCRIPT_BUDGET_US = 2_000
/** What a batch is made for. */
const TARGET_US = 500

export const MOST_KEYS = 1_000
const LEAST_KEYS = 10
const FIRST_BATCH = 100
/** Where the server's clock stands still in a script: 2.5 ms if a key takes 10 µs, some five times what Redis needs. */
const BATCH_WITHOUT_CLOCK = 250
/** Of a new figure, in the running mean. */
const WEIGHT = 0.2
/** By which a bound that was lowered is raised with each script that stays within its budget. */
const RELAX = 1.02

/** An answer is slow if it takes so much longer than the quickest one, by both measures. */
const SLOW_FACTOR = 4
const SLOW_BY_MS = 50
/** One slow answer is the network's, or our own; so many in a row are the server's. */
const SLOW_IN_A_ROW = 3

/** How many keys at once, and whether to wait: by how long the server takes. */
export class Pace {
  readonly #most: number
  #bound: number
  #batch: number
  #usPerKey: number | undefined
  #quickestMs = Number.POSITIVE_INFINITY
  #slowInARow = 0

  /** @param most keys of one SCAN and of one batch */
  constructor(most: number = MOST_KEYS) {
    this.#most = most
    this.#bound = most
    this.#batch = Math.min(FIRST_BATCH, most)
  }

  /** COUNT of the next SCAN. */
  get count(): number {
    return this.#most
  }

  /** Keys of the next script. */
  get batch(): number {
    return Math.max(Math.min(this.#batch, Math.floor(this.#bound)), Math.min(LEAST_KEYS, this.#most))
  }

  /** A script has looked at so many keys, in so many µs of the server if it tells that. */
  ran(keys: number, us: number | undefined): void {
    if (us === undefined) {
      this.#batch = Math.min(BATCH_WITHOUT_CLOCK, this.#most)
      return
    }
    const usPerKey = us / keys
    this.#usPerKey = this.#usPerKey === undefined ? usPerKey : this.#usPerKey + WEIGHT * (usPerKey - this.#usPerKey)
    this.#batch = Math.min(Math.floor(TARGET_US / this.#usPerKey), 2 * this.#batch, this.#most)
    if (us > LONGEST_SCRIPT_US) this.tookTooLong()
    else if (us <= SCRIPT_BUDGET_US) this.#bound = Math.min(this.#bound * RELAX, this.#most)
  }

  /** The server says that one of our commands has taken longer than any may. */
  tookTooLong(): void {
    this.#bound = Math.max(this.batch / 2, LEAST_KEYS)
  }

  /** The server has answered something small. */
  answered(ms: number): void {
    this.#quickestMs = Math.min(this.#quickestMs, ms)
    this.#slowInARow = this.#isSlow(ms) ? this.#slowInARow + 1 : 0
  }

  /** Whether the server has become slow, so that it is better left alone for a while. */
  get isSlow(): boolean {
    return this.#slowInARow >= SLOW_IN_A_ROW
  }

  #isSlow(ms: number): boolean {
    return ms > this.#quickestMs * SLOW_FACTOR && ms > this.#quickestMs + SLOW_BY_MS
  }
}
