import { type Place, placeAt } from './place.ts'

/** Names and indexes that lead to a value, from the top of the file. */
export type Path = readonly (string | number)[]

type Table = Readonly<Record<string, unknown>>

/** The file is not what its name says. */
export class WranglerSyntaxError extends Error {
  override readonly name = 'WranglerSyntaxError'
  readonly place: Place

  constructor(message: string, place: Place) {
    super(message)
    this.place = place
  }
}

export interface Entry {
  readonly key: Place
  readonly value: Place
  /** Offset in the file of what a string holds; undefined if it is written with escapes. */
  readonly textAt: number | undefined
}

/** What a parser makes of a file. */
export interface ParsedFile {
  readonly value: Table
  /** Where each value stands, by its path as JSON. */
  readonly entries: ReadonlyMap<string, Entry>
}

/** What configures Wrangler, with the place of each value. */
export class WranglerFile {
  /** As it is to be shown. */
  readonly name: string
  readonly #text: string
  readonly #parsed: ParsedFile

  /** @param parse throws a `WranglerSyntaxError` */
  constructor(name: string, text: string, parse: (name: string, text: string) => ParsedFile) {
    this.name = name
    this.#text = text
    this.#parsed = parse(name, text)
  }

  get(...path: Path): unknown {
    let value: unknown = this.#parsed.value
    for (const key of path) value = (value as Record<string | number, unknown> | undefined | null)?.[key]
    return value
  }

  /** A table; an empty one if there is none at this path. */
  table(...path: Path): Table {
    const value = this.get(...path)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Table) : {}
  }

  /** Of the name at the end of the path, else of what is nearest above it. */
  placeOfKey(path: Path): Place | undefined {
    return this.#nearest(path)?.key
  }

  /** Of the value at the end of the path, else of what is nearest above it. */
  placeOf(path: Path): Place | undefined {
    return this.#nearest(path)?.value
  }

  /** Of a character of the string at a path; undefined if it is written with escapes. */
  placeInString(path: Path, offset: number): Place | undefined {
    const from = this.#parsed.entries.get(JSON.stringify(path))?.textAt
    return from === undefined ? undefined : placeAt(this.name, this.#text, from + offset)
  }

  #nearest(path: Path): Entry | undefined {
    for (let length = path.length; length > 0; length--) {
      const entry = this.#parsed.entries.get(JSON.stringify(path.slice(0, length)))
      if (entry) return entry
    }
    return undefined
  }
}
