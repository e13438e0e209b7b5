/** Numbers from 0 to below 1 that look random and are the same for the same seed (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** An integer, both ends included. @param random a number from 0 to below 1 */
export function drawInteger(random: () => number, low: number, high: number): number {
  return low + Math.floor(random() * (high - low + 1))
}

/** The seed that this variable of the environment names, to replay a run; else a new one. */
export function readSeed(variable: string): number {
  return Number(process.env[variable] ?? Math.floor(Math.random() * 2 ** 32))
}
