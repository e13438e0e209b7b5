import { findNodeAtLocation, type ParseError, parseTree } from 'jsonc-parser'
import type { DevVars, Settings } from './settings.ts'
import { formatJsonError, type Path, type Place, placeAt } from './wrangler-file.ts'

/**
 * Finds where a variable, or something in it, comes from: a place in a file, or e.g. "the shell".
 * @param path below the variable; of a variable that holds JSON, below that
 * @param isName the name is meant at the end of the path, and not its value
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
      // If nothing is there, the table that it belongs in.
      return file?.placeOfKey([...root, 'vars']) ?? file?.name
  }
}

/** Where a variable is set, the last time if there are several. */
function locateInDevVars({ file, text }: DevVars, name: string): Place | undefined {
  const last = [...text.matchAll(new RegExp(`^[ \\t]*(?:export[ \\t]+)?${name}(?![\\w.-])`, 'gm'))].at(-1)
  return last && placeAt(file, text, last.index + last[0].length - name.length)
}

/** What is wrong with the syntax of a JSON text, and the offset at which it is; undefined if nothing is. */
export function jsonMistake(text: string): { readonly what: string; readonly offset: number } | undefined {
  const errors: ParseError[] = []
  parseTree(text, errors, { disallowComments: true, allowTrailingComma: false })
  const [first] = errors
  return first && { what: formatJsonError(first), offset: first.offset }
}

/** Line and column within a JSON text, where it cannot be said where in a file that is. */
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
