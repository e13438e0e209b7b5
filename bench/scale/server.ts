/** A server in virtual time, with a queue. */

/**
 * A call that finds more work than this before it gets an error. Assumed: neither Upstash nor Cloudflare says how long a
 * call may wait. If it were longer than an engine waits, a server with too much to do would decide next to nothing in time.
 */
const LONGEST_QUEUE_MS = 250
/** The rate of calls and the time of each are averaged over this. */
const RATE_MS = 1_000

/** Serves one call after the other, as Redis and a Durable Object do. */
export class Server {
  readonly #others: number
  readonly #random: () => number
  #freeAtMs = 0
  #seenAtMs = 0
  /** Calls in a millisecond, and how long one takes: of those that are simulated. */
  #perMs = 0
  #serviceMs = 0

  /**
   * @param others calls that are not simulated come between those that are: so many for each, at random moments, each as
   *   long as those take on average
   */
  constructor(others: number, random: () => number) {
    this.#others = others
    this.#random = random
  }

  /**
   * A call arrives. Calls arrive in the order of time.
   * @param serve what is done when it is its turn, and how long that takes
   * @returns whether it gets a turn
   */
  arrive(nowMs: number, serve: (startMs: number) => number): boolean {
    this.#letOthersIn(nowMs)
    this.#perMs = this.#perMs * Math.exp((this.#seenAtMs - nowMs) / RATE_MS) + 1 / RATE_MS
    this.#seenAtMs = nowMs
    const startMs = this.#turnAt(nowMs)
    if (startMs === undefined) return false
    const serviceMs = serve(startMs)
    this.#freeAtMs = startMs + serviceMs
    this.#serviceMs += (serviceMs - this.#serviceMs) * (this.#serviceMs === 0 ? 1 : 0.01)
    return true
  }

  #turnAt(nowMs: number): number | undefined {
    const startMs = Math.max(nowMs, this.#freeAtMs)
    return startMs - nowMs > LONGEST_QUEUE_MS ? undefined : startMs
  }

  #letOthersIn(nowMs: number): void {
    const perMs = this.#perMs * this.#others
    if (perMs === 0) return
    // They know nothing of each other.
    const drawGapMs = () => -Math.log(1 - this.#random()) / perMs
    for (let ms = this.#seenAtMs + drawGapMs(); ms < nowMs; ms += drawGapMs()) {
      const startMs = this.#turnAt(ms)
      if (startMs !== undefined) this.#freeAtMs = startMs + this.#serviceMs
    }
  }
}
