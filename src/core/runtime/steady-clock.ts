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
