import { Generations } from '../runtime/lru.ts'

const MAX_TEXT_CHARACTERS = 1_000
/** An estimate: about 16,000 tokens of 40 characters each. */
const MAX_BYTES = 4 * 1024 * 1024
/** What an entry takes besides its text. */
const ENTRY_BYTES = 160

/**
 * Remembers what was made of texts that strangers send, so that it is not made again for each request: of the texts
 * used last, and of none longer than 1,000 characters.
 */
export class Remembered<T> {
  readonly #entries = new Generations<T>(MAX_BYTES, (text) => ENTRY_BYTES + 2 * text.length)

  get(text: string): T | undefined {
    return this.#entries.get(text)
  }

  set(text: string, made: T): void {
    if (text.length <= MAX_TEXT_CHARACTERS) this.#entries.set(text, made)
  }
}
