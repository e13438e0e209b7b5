import { getNodeValue, type Node, type ParseError, parseTree, printParseErrorCode } from 'jsonc-parser'
import { placeAt } from './place.ts'
import { type Entry, type ParsedFile, type Path, WranglerSyntaxError } from './wrangler-file.ts'

/** Reads wrangler.json or wrangler.jsonc: both may have comments, and commas at the end. @throws {WranglerSyntaxError} */
export function parseWranglerJson(name: string, text: string): ParsedFile {
  const errors: ParseError[] = []
  const tree = parseTree(text, errors, { allowTrailingComma: true })
  const [error] = errors
  if (error) throw new WranglerSyntaxError(wordsOf(error), placeAt(name, text, error.offset))
  if (tree?.type !== 'object')
    throw new WranglerSyntaxError('expected an object', placeAt(name, text, tree?.offset ?? 0))
  const entries = new Map<string, Entry>()
  add(tree, tree, [])
  return { value: getNodeValue(tree), entries }

  function add(key: Node, value: Node, path: Path): void {
    const { offset, length } = value
    const inner = value.type === 'string' ? text.slice(offset + 1, offset + length - 1) : undefined
    if (path.length > 0) {
      entries.set(JSON.stringify(path), {
        key: placeAt(name, text, key.offset),
        value: placeAt(name, text, offset),
        textAt: inner !== undefined && inner === value.value ? offset + 1 : undefined,
      })
    }
    for (const [index, child] of (value.children ?? []).entries()) {
      if (value.type === 'array') add(child, child, [...path, index])
      else {
        const [name, member] = child.children ?? []
        if (name && member) add(name, member, [...path, name.value])
      }
    }
  }
}

/** What is wrong, in words. */
export function wordsOf({ error }: ParseError): string {
  return printParseErrorCode(error)
    .replace(/(?<=[a-z])(?=[A-Z])/g, ' ')
    .toLowerCase()
}
