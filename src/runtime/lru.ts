/**
 * A bounded map of what was used lately. When the young generation is full, it becomes the old one, and entries of the
 * former old one that nobody used since are forgotten. A new entry costs one insertion, where a list in order of last
 * use would be relinked at each use.
 */
export class Generations<T> {
  readonly #most: number
  readonly #weigh: (key: string) => number
  #young = new Map<string, T>()
  #old = new Map<string, T>()
  #weight = 0

  /**
   * @param most what all entries may weigh together, in both generations
   * @param weigh what one weighs; 1 if left out, so that `most` is their number
   */
  constructor(most: number, weigh: (key: string) => number = () => 1) {
    this.#most = most / 2
    this.#weigh = weigh
  }

  get(key: string): T | undefined {
    const young = this.#young.get(key)
    if (young !== undefined) return young
    const old = this.#old.get(key)
    if (old !== undefined) this.set(key, old)
    return old
  }

  set(key: string, value: T): void {
    if (!this.#young.has(key)) this.#makeRoom(this.#weigh(key))
    this.#young.set(key, value)
  }

  clear(): void {
    this.#young.clear()
    this.#old.clear()
    this.#weight = 0
  }

  #makeRoom(weight: number): void {
    if (this.#weight + weight > this.#most) {
      this.#old = this.#young
      this.#young = new Map()
      this.#weight = 0
    }
    this.#weight += weight
  }
}
