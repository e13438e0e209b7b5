import { getNodeValue, type Node, type ParseError, parseTree, printParseErrorCode } from 'jsonc-parser'
import { type AST, getStaticTOMLValue, parseTOML, ParseError as TomlError } from 'toml-eslint-parser'
import { CommandError } from '../command-error.ts'

/** A place in a file; lines and columns count from 1. */
export interface Place {
  readonly file: string
  readonly line: number
  readonly column: number
}

export function placeAt(file: string, text: string, offset: number): Place {
  const before = text.slice(0, offset).split('\n')
  return { file, line: before.length, column: (before.at(-1) ?? '').length + 1 }
}

/** Names and indexes that lead to a value, from the top of the file. */
export type Path = readonly (string | number)[]

type Table = Readonly<Record<string, unknown>>

/** Offsets in a file. */
interface Entry {
  readonly key: number
  readonly value: number
  /** Offset of the content of a string; undefined if it is written with escapes. */
  readonly content: number | undefined
}

/** Entries by their paths as JSON. */
type Entries = Map<string, Entry>

/** A file of TOML or JSON, such as Wrangler's, with the place of each value. */
export class WranglerFile {
  readonly name: string
  readonly #text: string
  readonly #value: unknown
  readonly #entries: Entries

  /** @param name for messages @param isJson TOML if not @throws {CommandError} with the place of a mistake */
  constructor(name: string, text: string, isJson: boolean) {
    this.name = name
    this.#text = text
    const { value, entries } = isJson ? parseJson(name, text) : parseToml(name, text)
    this.#value = value
    this.#entries = entries
  }

  get(...path: Path): unknown {
    let value = this.#value
    for (const key of path) value = (value as Record<string | number, unknown> | undefined | null)?.[key]
    return value
  }

  /** @returns an empty table if there is none at this path */
  table(...path: Path): Table {
    const value = this.get(...path)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Table) : {}
  }

  /** Locates the name at the end of the path, else the nearest one above it. */
  placeOfKey(path: Path): Place | undefined {
    return this.#placeAt(this.#findNearest(path)?.key)
  }

  /** Locates the value at the end of the path, else the nearest one above it. */
  placeOf(path: Path): Place | undefined {
    return this.#placeAt(this.#findNearest(path)?.value)
  }

  /** Locates a character of the string at a path. @returns undefined if the string is written with escapes */
  placeInString(path: Path, offset: number): Place | undefined {
    const content = this.#entries.get(JSON.stringify(path))?.content
    return content === undefined ? undefined : this.#placeAt(content + offset)
  }

  #placeAt(offset: number | undefined): Place | undefined {
    return offset === undefined ? undefined : placeAt(this.name, this.#text, offset)
  }

  #findNearest(path: Path): Entry | undefined {
    const paths = path.map((_, index) => path.slice(0, path.length - index))
    return paths.map((each) => this.#entries.get(JSON.stringify(each))).find((entry) => entry !== undefined)
  }
}

/** Both wrangler.json and wrangler.jsonc may have comments, and commas at the end. */
function parseJson(name: string, text: string) {
  const errors: ParseError[] = []
  const tree = parseTree(text, errors, { allowTrailingComma: true })
  const [error] = errors
  if (error) throw createError(placeAt(name, text, error.offset), formatJsonError(error))
  if (tree?.type !== 'object') throw createError(placeAt(name, text, tree?.offset ?? 0), 'expected an object')
  const entries: Entries = new Map()
  add(tree, tree, [])
  return { value: getNodeValue(tree), entries }

  function add(key: Node, { type, offset, length, value, children = [] }: Node, path: Path): void {
    const isPlain = type === 'string' && text.slice(offset + 1, offset + length - 1) === value
    const content = isPlain ? offset + 1 : undefined
    entries.set(JSON.stringify(path), { key: key.offset, value: offset, content })
    for (const [index, child] of children.entries()) {
      const [name, member] = child.children ?? []
      if (type === 'array') add(child, child, [...path, index])
      else if (name && member) add(name, member, [...path, name.value])
    }
  }
}

export function formatJsonError({ error }: ParseError): string {
  return printParseErrorCode(error)
    .replace(/(?<=[a-z])(?=[A-Z])/g, ' ')
    .toLowerCase()
}

function parseToml(name: string, text: string) {
  const entries: Entries = new Map()
  try {
    const program = parseTOML(text)
    for (const node of program.body[0].body) {
      if (node.type === 'TOMLKeyValue') addPair([], node)
      else addTable(node)
    }
    return { value: getStaticTOMLValue(program), entries }
  } catch (error) {
    if (!(error instanceof TomlError)) throw error
    throw createError({ file: name, line: error.lineNumber, column: error.column + 1 }, error.message)
  }

  function addTable({ key, resolvedKey, body }: AST.TOMLTable): void {
    for (let length = 1; length < resolvedKey.length; length++) {
      const above = resolvedKey.slice(0, length)
      if (!entries.has(JSON.stringify(above))) addNode(above, key, key)
    }
    addNode(resolvedKey, key, key)
    for (const pair of body) addPair(resolvedKey, pair)
  }

  function addPair(parent: Path, { key, value }: AST.TOMLKeyValue): void {
    addValue([...parent, ...getStaticTOMLValue(key)], key, value)
  }

  function addValue(path: Path, key: AST.TOMLNode, value: AST.TOMLContentNode): void {
    addNode(path, key, value)
    if (value.type === 'TOMLInlineTable') for (const pair of value.body) addPair(path, pair)
    if (value.type !== 'TOMLArray') return
    for (const [index, element] of value.elements.entries()) addValue([...path, index], element, element)
  }

  function addNode(path: Path, key: AST.TOMLNode, value: AST.TOMLNode): void {
    const [start, end] = value.range
    const isString = value.type === 'TOMLValue' && value.kind === 'string'
    const at = isString ? text.slice(start, end).indexOf(value.value) : -1
    entries.set(JSON.stringify(path), { key: key.range[0], value: start, content: at < 0 ? undefined : start + at })
  }
}

function createError({ file, line, column }: Place, message: string): CommandError {
  return new CommandError(`${file}:${line}:${column}: ${message}`)
}
