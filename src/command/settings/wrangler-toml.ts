import { type AST, getStaticTOMLValue, ParseError, parseTOML } from 'toml-eslint-parser'
import type { Place } from './place.ts'
import { type Entry, type ParsedFile, type Path, WranglerSyntaxError } from './wrangler-file.ts'

/** Reads wrangler.toml. @throws {WranglerSyntaxError} */
export function parseWranglerToml(name: string, text: string): ParsedFile {
  const entries = new Map<string, Entry>()
  try {
    const program = parseTOML(text)
    for (const node of program.body[0].body) add(node)
    return { value: getStaticTOMLValue(program) as ParsedFile['value'], entries }
  } catch (error) {
    if (!(error instanceof ParseError)) throw error
    throw new WranglerSyntaxError(error.message, { file: name, line: error.lineNumber, column: error.column + 1 })
  }

  function add(node: AST.TOMLKeyValue | AST.TOMLTable): void {
    if (node.type === 'TOMLKeyValue') addPair([], node)
    else {
      for (let length = 1; length < node.resolvedKey.length; length++) {
        const above = node.resolvedKey.slice(0, length)
        if (!entries.has(JSON.stringify(above))) addNode(above, node.key, node.key)
      }
      addNode(node.resolvedKey, node.key, node.key)
      for (const pair of node.body) addPair(node.resolvedKey, pair)
    }
  }

  function addPair(parent: Path, { key, value }: AST.TOMLKeyValue): void {
    const path = [...parent, ...key.keys.map((part) => (part.type === 'TOMLBare' ? part.name : part.value))]
    addValue(path, key, value)
  }

  function addValue(path: Path, key: AST.TOMLNode, value: AST.TOMLContentNode): void {
    addNode(path, key, value)
    if (value.type === 'TOMLInlineTable') for (const pair of value.body) addPair(path, pair)
    if (value.type === 'TOMLArray') {
      for (const [index, element] of value.elements.entries()) addValue([...path, index], element, element)
    }
  }

  function addNode(path: Path, key: AST.TOMLNode, value: AST.TOMLNode): void {
    const source = text.slice(...value.range)
    const isString = value.type === 'TOMLValue' && value.kind === 'string'
    const at = isString ? source.indexOf(value.value) : -1
    entries.set(JSON.stringify(path), {
      key: placeOf(key),
      value: placeOf(value),
      textAt: at < 0 ? undefined : value.range[0] + at,
    })
  }

  function placeOf({ loc: { start } }: AST.TOMLNode): Place {
    return { file: name, line: start.line, column: start.column + 1 }
  }
}
