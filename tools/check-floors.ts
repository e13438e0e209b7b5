/**
 * Checks the layout of `src/`: a file imports only from its own folder and from those before it in `FLOORS`, and no files
 * import each other in a circle. Types count, too. dependency-cruiser would do it, but needs the API that TypeScript 7 no
 * longer has.
 *
 *     node tools/check-floors.ts [--write]
 *
 * `--write` writes the table of floors, with their sizes, into docs/architecture.md.
 */
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** What each folder holds, from the bottom to the top. Entries (`src/*.ts`) stand above all of them. */
export const FLOORS = {
  runtime:
    'plumbing: the log, deadlines, the one bounded cache, random numbers, sleep, steady clocks, the context of a call',
  model: 'the nouns: policy, limit, charge, decision, verdict, store',
  algorithms: 'each algorithm in TypeScript, twin of its Lua; their table; the decision over several of them. Pure',
  store: 'a folder for each kind of store, which opens limits, documents and statistics; only `redis/` sees `lua/`',
  request: 'a request → charges: target, path, the policies that match, identities',
  engine: 'the limiter, and the stages around a store: breaker, refusal cache, leases, mirror; the fallback; shedding',
  http: 'a verdict → a response: refusals, rate-limit headers, slots held until the end',
  statistics: 'what is counted of requests, how isolates send it, and how it is read',
  config: 'one table of variables, one of policy keys; the options that they make; one error',
  rules:
    'what operators set without a deploy: the document, its edits, the audit log, and what they mean for a request',
  gateway: 'the Hono app: routes, proxy, health; the backends by kind',
  admin: 'the admin API: operations, their schemas and OpenAPI; the metrics; the embedded dashboard',
  library: 'limits inside your own program',
  middleware: 'the limiter around the handlers of an app, for Hono, for `fetch` and for servers of Node',
  decide: 'decisions for other programs, and for proxies that ask before they pass a request on',
  compose: 'all parts of a gateway, put together: what the Worker and `sluice serve` run',
  outbound: 'limits on the calls that you make',
  command: 'the command `sluice`',
} as const

const HEIGHTS = Object.keys(FLOORS)
const IMPORT = /(?:from|import)\s*\(?'(\.{1,2}\/[^']+\.ts)'/g

type Imports = ReadonlyMap<string, readonly string[]>

/** @returns one line for each import upward, each circle and each folder that is no floor */
export function findFaults(imports: Imports): readonly string[] {
  const faults: string[] = []
  for (const [file, imported] of imports) {
    const height = heightOf(file)
    if (height < 0) faults.push(`${file}: its folder is not listed in tools/check-floors.ts`)
    for (const other of imported) if (heightOf(other) > height) faults.push(`${file} imports upward: ${other}`)
  }
  return [...faults, ...findCircles(imports)]
}

/** Reads what each module of `src/` imports of the others. */
function readImports(root: string): Imports {
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
  return rest.length === 0 ? HEIGHTS.length : HEIGHTS.indexOf(folder)
}

function findCircles(imports: Imports): readonly string[] {
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

/** The rows of docs/architecture.md. Modules that a command writes are not counted. */
function formatTable(root: string): string {
  const rows = Object.entries(FLOORS).map(([folder, holds]) => {
    const texts = globSync(`src/${folder}/**/*.ts`, { cwd: root }).map((file) => readFileSync(join(root, file), 'utf8'))
    const own = texts.filter((text) => !/^\/\/ (?:Made|Generated|Written)|^.{2000}/m.test(text))
    const lines = own.reduce((sum, text) => sum + text.split('\n').length - 1, 0)
    return `| \`src/${folder}/\` | ${own.length} | ${lines.toLocaleString('en')} | ${holds} |`
  })
  return ['| floor | files | lines | holds |', '| --- | ---: | ---: | --- |', ...rows].join('\n')
}

if (import.meta.main) {
  const root = join(import.meta.dirname, '..')
  const faults = findFaults(readImports(root))
  for (const fault of faults) console.error(fault)
  process.exitCode = faults.length > 0 ? 1 : 0
  if (process.argv.includes('--write')) {
    const page = join(root, 'docs/architecture.md')
    const text = readFileSync(page, 'utf8')
    writeFileSync(
      page,
      text.replace(/(?<=<!-- floors -->\n\n)[\s\S]*?(?=\n\n<!-- \/floors -->)/, () => formatTable(root)),
    )
  }
}
