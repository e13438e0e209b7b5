import { type LRU, lru } from 'tiny-lru'

const MAX_ENTRIES = 1_000
const MAX_TEXT_CHARACTERS = 1_000

/**
 * What was made of texts that strangers send, so that it is not made anew for each request: of the 1,000 that were asked
 * for last, and of none of more than 1,000 characters, so that it stays small.
 */
export class Remembered<T> {
  readonly #entries: LRU<T> = lru(MAX_ENTRIES)

  get(text: string): T | undefined {
    return this.#entries.get(text)
  }

  set(text: string, made: T): void {
    if (text.length <= MAX_TEXT_CHARACTERS) this.#entries.set(text, made)
  }
}
