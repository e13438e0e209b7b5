/** Draws the world in which a client calls a server: what was used before, how calls travel, and who else is there. */

export interface World {
  /** How long the server works on an admitted call. */
  readonly answerMs: number
  /** A refusal takes so long to come. */
  readonly refusalMs: number
  /** In place of 429, where the server says how long to wait. */
  readonly refusalStatus?: number
  /** Each way to the server takes up to this much longer than the shortest. */
  readonly jitterMs: number
  /** The `Date` of a response is so old, and cut to whole seconds. */
  readonly dateAgeMs: number
  /** Of each limit, used in the window that lasts at the start; how much of that window had passed. */
  readonly usedShare: number
  readonly passedShare: number
  /** All processes start again after this share of the time. */
  readonly restartShare?: number
  readonly processes: number
  /** Of each limit, what another user of the key takes. */
  readonly otherShare: number
}

/** Nothing was used before, and nobody else is there. */
export const CALM: World = {
  answerMs: 50,
  refusalMs: 0,
  jitterMs: 10,
  dateAgeMs: 0,
  usedShare: 0,
  passedShare: 0,
  processes: 1,
  otherShare: 0,
}

const STATUSES = [undefined, undefined, 413, 418, 420, 430, 500, 502, 504, 509, 529]

/** @param isShared another process shares the limits, or another user of the key, or both */
export function drawWorld(random: () => number, isShared: boolean): World {
  const pick = <T>(values: readonly T[]) => values[Math.floor(random() * values.length)] as T
  const refusalStatus = pick(STATUSES)
  const isRestarted = random() < 0.5
  const restartShare = 0.2 + 0.6 * random()
  const processes = pick([1, 2])
  const otherShare = 0.4 * random()
  return {
    answerMs: pick([50, 2_000, 10_000]),
    refusalMs: pick([0, 0, 1_000, 3_000, 6_000]),
    ...(refusalStatus !== undefined && { refusalStatus }),
    jitterMs: pick([0, 100, 300, 500]),
    dateAgeMs: 1_000 * random(),
    usedShare: pick([0, random(), 1]),
    passedShare: random(),
    ...(isRestarted && { restartShare }),
    processes: isShared ? processes : 1,
    otherShare: isShared ? (processes === 1 ? 0.1 + otherShare : pick([0, otherShare])) : 0,
  }
}

/** Mulberry32. */
export function createRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
