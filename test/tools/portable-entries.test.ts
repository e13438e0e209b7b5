import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'

const SRC = join(import.meta.dirname, '../../src')
const IMPORT = /^(?:import|export) (?!type )[^'"]*?from '([^']+)'|^import '([^']+)'|import\('([^']+)'\)/gm
/** What only Node has, or only under a flag. */
const OF_NODE = /\b(?:Buffer|process|setImmediate|clearImmediate|__dirname|require)\b(?=[.(])/

/** All modules of `src/` that an entry loads, also on demand, with their text. */
function findModules(entry: string): Map<string, string> {
  const found = new Map<string, string>()
  const visit = (file: string): void => {
    if (found.has(file)) return
    const text = readFileSync(file, 'utf8')
    found.set(file, text)
    for (const path of importsIn(text)) if (path.startsWith('.')) visit(join(dirname(file), path))
  }
  visit(join(SRC, entry))
  return found
}

const importsIn = (text: string) => [...text.matchAll(IMPORT)].map(([, from, bare, lazy]) => from ?? bare ?? lazy ?? '')
const withoutComments = (text: string) => text.replace(/\/\*[\s\S]*?\*\/|(?<=^|\s)\/\/.*/g, '')

test.each(['index.ts', 'hono.ts', 'fetch.ts', 'objects.ts', 'outbound.ts'])('src/%s needs nothing of Node', (entry) => {
  const modules = [...findModules(entry)].map(([file, text]) => [file.slice(SRC.length + 1), text] as const)
  expect(modules.length).toBeGreaterThan(20)
  const needing = modules.filter(
    ([, text]) => importsIn(text).some((path) => path.startsWith('node:')) || OF_NODE.test(withoutComments(text)),
  )
  expect(needing.map(([file]) => file)).toEqual([])
})
