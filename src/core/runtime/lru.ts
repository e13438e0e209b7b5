/**
 * A bounded map of recently used entries. When the young generation is full, it becomes the old one, and unused entries of
 * the former old one are dropped: no list in order of use is relinked at each use.
 */
export class Lru<T> {
  readonly #maxWeight: number
  readonly #weigh: (key: string) => number
  #young = new Map<string, T>()
  #old = new Map<string, T>()
  #weight = 0

  /** @param maxWeight total of both generations @param weigh weight of an entry; 1 by default */
  constructor(maxWeight: number, weigh: (key: string) => number = () => 1) {
    this.#maxWeight = maxWeight / 2
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

  #makeRoom(weight: number): void {
    if (this.#weight + weight > this.#maxWeight) {
      this.#old = this.#young
      this.#young = new Map()
      this.#weight = 0
    }
    this.#weight += weight
  }
}

const MAX_TEXT_CHARACTERS = 1_000
/** An estimate: about 16,000 tokens of 40 characters each. */
const MAX_TEXT_BYTES = 4 * 1024 * 1024
/** Memory of an entry besides its text. */
const ENTRY_BYTES = 160

/** Caches values by texts from unknown clients; texts longer than 1,000 characters are not stored. */
export class TextLru<T> extends Lru<T> {
  constructor() {
    super(MAX_TEXT_BYTES, (text) => ENTRY_BYTES + 2 * text.length)
  }

  override set(text: string, value: T): void {
    if (text.length <= MAX_TEXT_CHARACTERS) super.set(text, value)
  }
}
