import { type AST, getStaticTOMLValue, ParseError, parseTOML } from 'toml-eslint-parser'
import { type Place, placeAt } from './place.ts'

/** Names and indexes that lead to a value, from the top of the file. */
export type Path = readonly (string | number)[]

type Table = Readonly<Record<string, unknown>>

/** The file is not TOML. */
export class TomlError extends Error {
  override readonly name = 'TomlError'
  readonly place: Place

  constructor(message: string, place: Place) {
    super(message)
    this.place = place
  }
}

interface Entry {
  readonly key: Place
  readonly value: Place
  /** Offset in the file of what a string holds; undefined if it is written with escapes. */
  readonly textAt: number | undefined
}

/** `wrangler.toml`, with the place of each value. */
export class WranglerToml {
  /** As it is to be shown. */
  readonly file: string
  readonly #text: string
  readonly #value: Table
  readonly #entries = new Map<string, Entry>()

  /** @throws {TomlError} */
  constructor(file: string, text: string) {
    this.file = file
    this.#text = text
    try {
      const program = parseTOML(text)
      this.#value = getStaticTOMLValue(program) as Table
      for (const node of program.body[0].body) this.#add(node)
    } catch (error) {
      if (!(error instanceof ParseError)) throw error
      throw new TomlError(error.message, { file, line: error.lineNumber, column: error.column + 1 })
    }
  }

  get(...path: Path): unknown {
    let value: unknown = this.#value
    for (const key of path) value = (value as Record<string | number, unknown> | undefined)?.[key]
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
    const from = this.#entries.get(JSON.stringify(path))?.textAt
    return from === undefined ? undefined : placeAt(this.file, this.#text, from + offset)
  }

  #nearest(path: Path): Entry | undefined {
    for (let length = path.length; length > 0; length--) {
      const entry = this.#entries.get(JSON.stringify(path.slice(0, length)))
      if (entry) return entry
    }
    return undefined
  }

  #add(node: AST.TOMLKeyValue | AST.TOMLTable): void {
    if (node.type === 'TOMLKeyValue') this.#addPair([], node)
    else {
      for (let length = 1; length < node.resolvedKey.length; length++) {
        const above = node.resolvedKey.slice(0, length)
        if (!this.#entries.has(JSON.stringify(above))) this.#addNode(above, node.key, node.key)
      }
      this.#addNode(node.resolvedKey, node.key, node.key)
      for (const pair of node.body) this.#addPair(node.resolvedKey, pair)
    }
  }

  #addPair(parent: Path, { key, value }: AST.TOMLKeyValue): void {
    const path = [...parent, ...key.keys.map((part) => (part.type === 'TOMLBare' ? part.name : part.value))]
    this.#addValue(path, key, value)
  }

  #addValue(path: Path, key: AST.TOMLNode, value: AST.TOMLContentNode): void {
    this.#addNode(path, key, value)
    if (value.type === 'TOMLInlineTable') for (const pair of value.body) this.#addPair(path, pair)
    if (value.type === 'TOMLArray') {
      for (const [index, element] of value.elements.entries()) this.#addValue([...path, index], element, element)
    }
  }

  #addNode(path: Path, key: AST.TOMLNode, value: AST.TOMLNode): void {
    const source = this.#text.slice(...value.range)
    const isString = value.type === 'TOMLValue' && value.kind === 'string'
    const at = isString ? source.indexOf(value.value) : -1
    this.#entries.set(JSON.stringify(path), {
      key: this.#place(key),
      value: this.#place(value),
      textAt: at < 0 ? undefined : value.range[0] + at,
    })
  }

  #place({ loc: { start } }: AST.TOMLNode): Place {
    return { file: this.file, line: start.line, column: start.column + 1 }
  }
}
