/** A call that takes longer than the shortest one by more than this has waited for others. */
const WAIT_MS = 30
const GROWTH = 1.25
const GROWTH_BY_FAILURE = 1.5
const DECAY = 0.98
const MOST = 3

/** How loaded a store is, as far as an isolate can tell by how long its calls take. */
export class Strain {
  /** How much longer leases should last because of it; 1 if there is none. */
  stretch = 1
  #shortestMs = Number.POSITIVE_INFINITY

  /** A call was answered after this long. */
  hear(elapsedMs: number): void {
    this.#shortestMs = Math.min(this.#shortestMs, elapsedMs)
    const isWaiting = elapsedMs - this.#shortestMs > WAIT_MS
    this.stretch = isWaiting ? Math.min(MOST, this.stretch * GROWTH) : Math.max(1, this.stretch * DECAY)
  }

  /** A call has failed. */
  fail(): void {
    this.stretch = Math.min(MOST, this.stretch * GROWTH_BY_FAILURE)
  }
}
