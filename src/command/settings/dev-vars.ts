import { parse } from 'dotenv'
import { type Place, placeAt } from './place.ts'

/** `.dev.vars`, as Wrangler reads it. */
export class DevVars {
  readonly file: string
  readonly values: Readonly<Record<string, string>>
  readonly #text: string

  constructor(file: string, text: string) {
    this.file = file
    this.values = parse(text)
    this.#text = text
  }

  /** Where a variable is set, the last time if there are several. */
  placeOf(name: string): Place | undefined {
    const last = [...this.#text.matchAll(new RegExp(`^[ \\t]*(?:export[ \\t]+)?${name}(?![\\w.-])`, 'gm'))].at(-1)
    return last && placeAt(this.file, this.#text, last.index + last[0].length - name.length)
  }
}
