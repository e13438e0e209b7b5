/** Reads Wrangler's file, in TOML or JSON, with the positions of its settings. */
import { getNodeValue, type Node, type ParseError, parseTree, printParseErrorCode } from 'jsonc-parser'
import { type AST, getStaticTOMLValue, parseTOML, ParseError as TomlError } from 'toml-eslint-parser'
import { CommandError } from '../command-error.ts'

/** A position in a file; lines and columns count from 1. */
export interface Position {
  readonly file: string
  readonly line: number
  readonly column: number
}

export function locateOffset(file: string, text: string, offset: number): Position {
  const before = text.slice(0, offset).split('\n')
  return { file, line: before.length, column: (before.at(-1) ?? '').length + 1 }
}

/** Names and indexes that lead to a value, from the top of the file. */
export type Path = readonly (string | number)[]

/** The name of an entry, its value, or a character of a string by its offset, unless the string has escapes. */
export type Part = 'name' | 'value' | number

type FileTable = Readonly<Record<string, unknown>>

/** Offsets in a file. */
interface FileEntry {
  readonly key: number
  readonly value: number
  /** Offset of the content of a string; undefined if it is written with escapes. */
  readonly content?: number | undefined
}

/** A file of TOML or JSON, such as Wrangler's, with the position of each value, also within JSON in a string. */
export class WranglerFile {
  readonly name: string
  readonly #text: string
  readonly #value: unknown
  /** Keys are paths, as JSON. */
  readonly #entries = new Map<string, FileEntry>()

  /** @param name for messages @param isJson TOML if not @throws {CommandError} with the position of a mistake */
  constructor(name: string, text: string, isJson: boolean) {
    this.name = name
    this.#text = text
    this.#value = isJson ? this.#parseJson() : this.#parseToml()
  }

  get(...path: Path): unknown {
    let value = this.#value
    for (const key of path) value = (value as Record<string | number, unknown> | undefined | null)?.[key]
    return value
  }

  /** @returns an empty table if there is none at this path */
  getTable(...path: Path): FileTable {
    const value = this.get(...path)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as FileTable) : {}
  }

  /** Locates a part of the entry at the end of the path, else of the nearest one above it; else the file. */
  locate(path: Path, part: Part = 'value'): Position | string {
    const entry = path
      .map((_, index) => this.#entries.get(JSON.stringify(path.slice(0, path.length - index))))
      .find((each) => each !== undefined)
    if (!entry) return this.name
    const { key, value, content } = entry
    const offset = typeof part === 'number' && part > 0 && content !== undefined ? content + part : value
    return locateOffset(this.name, this.#text, part === 'name' ? key : offset)
  }

  /** Both wrangler.json and wrangler.jsonc may have comments, and commas at the end. */
  #parseJson(): unknown {
    const errors: ParseError[] = []
    const tree = parseTree(this.#text, errors, { allowTrailingComma: true })
    const [error] = errors
    if (error) throw createError(locateOffset(this.name, this.#text, error.offset), formatJsonError(error))
    if (tree?.type !== 'object' && tree?.type !== 'array') {
      throw createError(locateOffset(this.name, this.#text, tree?.offset ?? 0), 'expected an object')
    }
    this.#addJson([], tree, tree, 0)
    return getNodeValue(tree)
  }

  /** @param start of the JSON in the file */
  #addJson(path: Path, key: Node, { type, offset, length, value, children = [] }: Node, start: number): void {
    const [from, to] = [start + offset, start + offset + length]
    this.#add(path, start + key.offset, from, to, type === 'string' ? value : undefined)
    for (const [index, child] of children.entries()) {
      const [name, member] = child.children ?? []
      if (type === 'array') this.#addJson([...path, index], child, child, start)
      else if (name && member) this.#addJson([...path, name.value], name, member, start)
    }
  }

  /** @param string the value if it is a string, which may be JSON */
  #add(path: Path, key: number, value: number, end: number, string?: string): void {
    const at = string === undefined ? -1 : this.#text.slice(value, end).indexOf(string)
    const content = at < 0 ? undefined : value + at
    this.#entries.set(JSON.stringify(path), { key, value, content })
    const tree = content !== undefined && /^\s*[[{]/.test(string ?? '') ? parseTree(string ?? '') : undefined
    for (const [index, child] of tree?.children?.entries() ?? []) {
      if (tree?.type === 'array') this.#addJson([...path, index], child, child, content ?? 0)
    }
  }

  #parseToml(): unknown {
    try {
      const program = parseTOML(this.#text)
      for (const node of program.body[0].body) {
        if (node.type === 'TOMLKeyValue') this.#addPair([], node)
        else this.#addTable(node)
      }
      return getStaticTOMLValue(program)
    } catch (error) {
      if (!(error instanceof TomlError)) throw error
      throw createError({ file: this.name, line: error.lineNumber, column: error.column + 1 }, error.message)
    }
  }

  #addTable({ key, resolvedKey, body }: AST.TOMLTable): void {
    const [start, end] = key.range
    for (let length = 1; length <= resolvedKey.length; length++) {
      const above = resolvedKey.slice(0, length)
      if (length === resolvedKey.length || !this.#entries.has(JSON.stringify(above)))
        this.#add(above, start, start, end)
    }
    for (const pair of body) this.#addPair(resolvedKey, pair)
  }

  #addPair(parent: Path, { key, value }: AST.TOMLKeyValue): void {
    this.#addToml([...parent, ...getStaticTOMLValue(key)], key, value)
  }

  #addToml(path: Path, key: AST.TOMLNode, value: AST.TOMLContentNode): void {
    const isString = value.type === 'TOMLValue' && value.kind === 'string'
    this.#add(path, key.range[0], ...value.range, isString ? value.value : undefined)
    if (value.type === 'TOMLInlineTable') for (const pair of value.body) this.#addPair(path, pair)
    if (value.type !== 'TOMLArray') return
    for (const [index, element] of value.elements.entries()) this.#addToml([...path, index], element, element)
  }
}

/** @returns the first mistake of a text that should be JSON */
export function findJsonMistake(text: string): { readonly message: string; readonly offset: number } | undefined {
  const errors: ParseError[] = []
  parseTree(text, errors, { disallowComments: true, allowTrailingComma: false })
  const [first] = errors
  return first && { message: formatJsonError(first), offset: first.offset }
}

function formatJsonError({ error }: ParseError): string {
  return printParseErrorCode(error)
    .replace(/(?<=[a-z])(?=[A-Z])/g, ' ')
    .toLowerCase()
}

function createError({ file, line, column }: Position, message: string): CommandError {
  return new CommandError(`${file}:${line}:${column}: ${message}`)
}
