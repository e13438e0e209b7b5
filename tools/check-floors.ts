/**
 * Checks the layout of `src/`: a file imports only from its own folder and from those before it in `FLOORS`, and no files
 * import each other in a circle. Types count, too. dependency-cruiser would do it, but needs the API that TypeScript 7 no
 * longer has.
 */
import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** From the bottom to the top. Entries (`src/*.ts`) stand above all of them. */
export const FLOORS = [
  'runtime',
  'model',
  'algorithms',
  'store',
  'request',
  'engine',
  'http',
  'statistics',
  'config',
  'rules',
  'gateway',
  'admin',
  'library',
  'middleware',
  'outbound',
  'command',
] as const

const IMPORT = /(?:from|import)\s*\(?'(\.{1,2}\/[^']+\.ts)'/g

/** @returns one line for each import upward, each circle and each folder that is no floor */
export function findFaults(imports: ReadonlyMap<string, readonly string[]>): readonly string[] {
  const faults: string[] = []
  for (const [file, imported] of imports) {
    const height = heightOf(file)
    if (height < 0) faults.push(`${file}: its folder is not listed in tools/check-floors.ts`)
    for (const other of imported) if (heightOf(other) > height) faults.push(`${file} imports upward: ${other}`)
  }
  return [...faults, ...findCircles(imports)]
}

/** Reads what each module of `src/` imports of the others. */
export function readImports(root: string): ReadonlyMap<string, readonly string[]> {
  const files = globSync('src/**/*.ts', { cwd: root }).sort()
  return new Map(
    files.map((file) => {
      const text = readFileSync(join(root, file), 'utf8')
      return [file, [...text.matchAll(IMPORT)].map(([, path = '']) => join(dirname(file), path))]
    }),
  )
}

function heightOf(file: string): number {
  const [, folder = '', ...rest] = file.split('/')
  return rest.length === 0 ? FLOORS.length : (FLOORS as readonly string[]).indexOf(folder)
}

function findCircles(imports: ReadonlyMap<string, readonly string[]>): readonly string[] {
  const circles: string[] = []
  const done = new Set<string>()
  const visit = (file: string, path: readonly string[]): void => {
    const start = path.indexOf(file)
    if (start >= 0) circles.push(`circle: ${[...path.slice(start), file].join(' -> ')}`)
    if (start >= 0 || done.has(file)) return
    for (const other of imports.get(file) ?? []) visit(other, [...path, file])
    done.add(file)
  }
  for (const file of imports.keys()) visit(file, [])
  return circles
}

if (import.meta.main) {
  const faults = findFaults(readImports(join(import.meta.dirname, '..')))
  for (const fault of faults) console.error(fault)
  process.exitCode = faults.length > 0 ? 1 : 0
}
