/** The clocks that decisions go by: those of the machine, or one that a program gives in their place. */

export interface Clocks {
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
  /** The latest that it may be while `now` shows the same. Default: `now`, which is then exact. */
  readonly readLatestMs?: (() => number) | undefined
  /** A clock of the process that cannot be set, by which a step of `now` is seen. Without it, some are not. */
  readonly readSteadyMs?: (() => number) | undefined
}

/** @param now an exact clock of the program */
export function createClocks(now?: () => number): Clocks {
  return now ? { now } : { now: () => Date.now(), readLatestMs, readSteadyMs: () => performance.now() }
}

/**
 * Reads the latest that it may be while `Date.now()` shows a millisecond: dates are thus rounded up, and leave no window
 * early.
 */
export function readLatestMs(): number {
  return Date.now() + 0.999
}

/**
 * Makes a clock that is never set back, as `performance.now` is on Workers: of a step back, only the time since the last
 * reading is lost.
 * @param now milliseconds of any clock
 * @returns milliseconds since it was made
 */
export function createSteadyClock(now: () => number): () => number {
  let passedMs = 0
  let readAtMs = now()
  return () => {
    const nowMs = now()
    passedMs += Math.max(0, nowMs - readAtMs)
    readAtMs = nowMs
    return passedMs
  }
}
