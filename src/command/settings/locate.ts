import { findNodeAtLocation, type ParseError, parseTree } from 'jsonc-parser'
import type { DevVars, Settings } from './settings.ts'
import { formatJsonError, type Path, type Place, placeAt } from './wrangler-file.ts'

/**
 * Finds the place in a file that a variable, or a value in it, comes from, or a text such as "X of the shell".
 * @param path below the variable, or within its JSON
 * @param isName locates the name at the end of the path, not its value
 */
export function locate(
  { file, devVars, root, variables, sources }: Settings,
  variable: string,
  path: Path = [],
  isName = false,
): Place | string | undefined {
  const value = variables[variable]
  const json = typeof value === 'string' && path.length > 0 ? findInJson(value, path, isName) : undefined
  switch (sources.get(variable)) {
    case 'shell':
      return `${variable} of the shell${json === undefined ? '' : placeInJson(value as string, json)}`
    case '.dev.vars':
      return devVars && locateInDevVars(devVars, variable)
    case 'wrangler': {
      const whole = [...root, 'vars', variable]
      if (json !== undefined) return file?.placeInString(whole, json) ?? file?.placeOf(whole)
      const full = [...whole, ...path]
      return isName ? file?.placeOfKey(full) : file?.placeOf(full)
    }
    case undefined:
      // Nothing sets the variable: this is the table that it belongs in.
      return file?.placeOfKey([...root, 'vars']) ?? file?.name
  }
}

/** The last line that sets a variable counts. */
function locateInDevVars({ file, text }: DevVars, name: string): Place | undefined {
  const last = [...text.matchAll(new RegExp(`^[ \\t]*(?:export[ \\t]+)?${name}(?![\\w.-])`, 'gm'))].at(-1)
  return last && placeAt(file, text, last.index + last[0].length - name.length)
}

/** @returns the first syntax error of a JSON text; undefined if there is none */
export function jsonMistake(text: string): { readonly what: string; readonly offset: number } | undefined {
  const errors: ParseError[] = []
  parseTree(text, errors, { disallowComments: true, allowTrailingComma: false })
  const [first] = errors
  return first && { what: formatJsonError(first), offset: first.offset }
}

/** Formats line and column within a JSON text that has no place in a file. */
export function placeInJson(text: string, offset: number): string {
  const { line, column } = placeAt('', text, offset)
  return line === 1 ? `, character ${column} of the JSON` : `, line ${line}, column ${column} of the JSON`
}

function findInJson(text: string, path: Path, isName: boolean): number | undefined {
  const tree = parseTree(text)
  for (let length = path.length; tree && length > 0; length--) {
    const node = findNodeAtLocation(tree, [...path.slice(0, length)])
    if (node) return isName && node.parent?.type === 'property' ? node.parent.offset : node.offset
  }
  return tree?.offset
}
