const MAX_TEXT_CHARACTERS = 1_000
/** Two generations of so many bytes at most, by estimate: some 8,000 tokens of 40 characters each. */
const GENERATION_BYTES = 2 * 1024 * 1024
/** What an entry takes beside its text. */
const ENTRY_BYTES = 160

/**
 * What was made of texts that strangers send, so that it is not made anew for each request: of those that were asked for
 * last, and of none of more than 1,000 characters. When the young generation is full, it becomes the old one, and what is
 * not asked for by then is forgotten: that costs a newcomer one insertion, where an LRU list would be relinked for each.
 */
export class Remembered<T> {
  #young = new Map<string, T>()
  #old = new Map<string, T>()
  #youngBytes = 0

  get(text: string): T | undefined {
    const young = this.#young.get(text)
    if (young !== undefined) return young
    const old = this.#old.get(text)
    if (old !== undefined) this.set(text, old)
    return old
  }

  set(text: string, made: T): void {
    if (text.length > MAX_TEXT_CHARACTERS) return
    const bytes = ENTRY_BYTES + 2 * text.length
    if (this.#youngBytes + bytes > GENERATION_BYTES) {
      this.#old = this.#young
      this.#young = new Map()
      this.#youngBytes = 0
    }
    this.#young.set(text, made)
    this.#youngBytes += bytes
  }
}
