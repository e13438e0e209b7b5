/** The kinds of limits that servers have, in virtual time. */

export interface LimitModel {
  readonly limit: number
  /** Milliseconds in which so many units come back; 0 if they come back when a call ends. */
  readonly windowMs: number
  /** The first time from `nowMs` on at which a call of this cost is admitted. */
  findFreeMs(nowMs: number, cost: number): number
  /** Counts a call at `nowMs`, and lets it go `endMs`. */
  take(nowMs: number, cost: number, endMs: number): void
  countRemaining(nowMs: number): number
  /** Milliseconds until the limit is full again, or until its window ends. */
  findResetMs(nowMs: number): number
}

/** A window that begins at multiples of its length, or with the first call after the one before it. */
export class FixedWindow implements LimitModel {
  readonly limit: number
  readonly windowMs: number
  readonly #offsetMs: number | undefined
  #startMs = Number.NEGATIVE_INFINITY
  #used = 0

  /** @param offsetMs where windows begin; undefined: with the first call */
  constructor(limit: number, windowMs: number, offsetMs?: number) {
    this.limit = limit
    this.windowMs = windowMs
    this.#offsetMs = offsetMs
  }

  findFreeMs(nowMs: number, cost: number): number {
    return this.#countUsed(nowMs) + cost <= this.limit ? nowMs : this.#startMs + this.windowMs
  }

  take(nowMs: number, cost: number): void {
    const used = this.#countUsed(nowMs)
    if (nowMs >= this.#startMs + this.windowMs) {
      const offsetMs = this.#offsetMs
      this.#startMs =
        offsetMs === undefined ? nowMs : Math.floor((nowMs - offsetMs) / this.windowMs) * this.windowMs + offsetMs
    }
    this.#used = used + cost
  }

  countRemaining(nowMs: number): number {
    return this.limit - this.#countUsed(nowMs)
  }

  findResetMs(nowMs: number): number {
    return Math.max(0, this.#startMs + this.windowMs - nowMs)
  }

  #countUsed(nowMs: number): number {
    return nowMs < this.#startMs + this.windowMs ? this.#used : 0
  }
}

/** At most so many in any window. */
export class SlidingWindow implements LimitModel {
  readonly limit: number
  readonly windowMs: number
  #times: number[] = []

  constructor(limit: number, windowMs: number) {
    this.limit = limit
    this.windowMs = windowMs
  }

  findFreeMs(nowMs: number, cost: number): number {
    this.#prune(nowMs)
    const surplus = this.#times.length + cost - this.limit
    return surplus <= 0 ? nowMs : (this.#times[surplus - 1] ?? nowMs) + this.windowMs
  }

  take(nowMs: number, cost: number): void {
    for (let unit = 0; unit < cost; unit++) this.#times.push(nowMs)
  }

  countRemaining(nowMs: number): number {
    this.#prune(nowMs)
    return this.limit - this.#times.length
  }

  findResetMs(nowMs: number): number {
    this.#prune(nowMs)
    return (this.#times[0] ?? nowMs - this.windowMs) + this.windowMs - nowMs
  }

  #prune(nowMs: number): void {
    const fresh = this.#times.findIndex((ms) => ms > nowMs - this.windowMs)
    this.#times = fresh < 0 ? [] : this.#times.slice(fresh)
  }
}

/** A bucket that is refilled all the time. */
export class Bucket implements LimitModel {
  readonly limit: number
  readonly windowMs: number
  readonly perS: number
  #units: number
  #atMs = 0

  constructor(limit: number, perS: number) {
    this.limit = limit
    this.perS = perS
    this.windowMs = (limit / perS) * 1_000
    this.#units = limit
  }

  findFreeMs(nowMs: number, cost: number): number {
    return nowMs + Math.max(0, ((cost - this.#count(nowMs)) / this.perS) * 1_000)
  }

  take(nowMs: number, cost: number): void {
    this.#units = this.#count(nowMs) - cost
    this.#atMs = nowMs
  }

  countRemaining(nowMs: number): number {
    return this.#count(nowMs)
  }

  findResetMs(nowMs: number): number {
    return ((this.limit - this.#count(nowMs)) / this.perS) * 1_000
  }

  #count(nowMs: number): number {
    // Without the last digits, a unit would be whole a fraction of a nanosecond too late.
    return Math.min(this.limit, this.#units + ((nowMs - this.#atMs) / 1_000) * this.perS + 1e-6)
  }
}

/** At most so many calls at once. */
export class Concurrency implements LimitModel {
  readonly limit: number
  readonly windowMs = 0
  #ends: number[] = []

  constructor(limit: number) {
    this.limit = limit
  }

  findFreeMs(nowMs: number): number {
    this.#ends = this.#ends.filter((ms) => ms > nowMs)
    if (this.#ends.length < this.limit) return nowMs
    return this.#ends.toSorted((a, b) => a - b)[this.#ends.length - this.limit] ?? nowMs
  }

  take(_nowMs: number, _cost: number, endMs: number): void {
    this.#ends.push(endMs)
  }

  countRemaining(nowMs: number): number {
    return this.limit - this.#ends.filter((ms) => ms > nowMs).length
  }

  findResetMs(): number {
    return 0
  }
}
