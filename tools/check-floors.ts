/**
 * Checks the layout of `src/`: a file imports only from rooms that its own may know, within its room only from its own
 * floor and from those before it, and no files import each other in a circle. Types count, too. dependency-cruiser would
 * do it, but needs the API that TypeScript 7 no longer has.
 *
 *     node tools/check-floors.ts [--write]
 *
 * `--write` writes the tables of rooms and floors into docs/architecture.md.
 */
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { renderTable } from './markdown.ts'

interface Room {
  readonly holds: string
  /** The other rooms that it may import from. */
  readonly knows: readonly string[]
  /** What each of its folders holds, from the bottom to the top. Files of the room itself stand above all of them. */
  readonly floors?: Readonly<Record<string, string>>
}

/** Entries (`src/*.ts`) stand above all rooms. */
export const ROOMS: Readonly<Record<string, Room>> = {
  core: {
    holds: 'a decision: nouns, algorithms, stores, and the engine with its stages',
    knows: [],
    floors: {
      runtime:
        'plumbing: the log, deadlines, the one bounded cache, digests, sleep, steady clocks, the context of a call',
      model: 'the nouns: policy, limit, charge, decision, verdict, store',
      algorithms: 'each algorithm in TypeScript, twin of its Lua; their table; the decision over several of them. Pure',
      options: 'what limits and settings may be: their checks, and the one error for a wrong one',
      store: 'a folder for each kind of store, which opens limits, documents and statistics; only `redis/` sees `lua/`',
      engine: 'the engine, the stages around a store, and folders of three of them: leases, refusals, places',
      shedding: 'how healthy the upstream is, and how much of its traffic is shed',
    },
  },
  http: {
    holds: 'requests and responses, wherever they come from: what the gateway and the middleware share',
    knows: ['core'],
    floors: {
      request: 'a request → charges → a verdict: target, path, the policies that match, identities, the limiter',
      response: 'a verdict → a response: refusals, rate-limit headers, slots held until the end',
      config: 'one table of variables, one of policy keys, and the options that they make',
    },
  },
  library: { holds: 'limits inside your own program', knows: ['core'] },
  middleware: {
    holds: 'the limiter around the handlers of an app, for Hono, for `fetch` and for servers of Node',
    knows: ['core', 'http', 'library'],
  },
  outbound: { holds: 'limits on the calls that you make', knows: ['core', 'library'] },
  gateway: {
    holds: 'the Worker and `sluice serve`: the app in front of an API, and everything that its operators use',
    knows: ['core', 'http', 'library'],
    floors: {
      api: 'JSON over HTTP: schemas, errors, tokens, OpenAPI',
      statistics: 'what is counted of requests, how isolates send it, and how it is read',
      callers: 'a caller as operators name it → the charges of its requests',
      rules:
        'what operators set without a deploy: the document, its edits, the audit log, and what they mean for a request',
      app: 'the Hono app: routes, proxy, health',
      admin: 'the admin API: operations, and their answers; the metrics; the embedded dashboard',
      decide: 'decisions for other programs, and for proxies that ask before they pass a request on',
      compose: 'a gateway of its parts, in three steps: stores, what decides, the app',
    },
  },
  'ratelimit-service': {
    holds: 'the rate limit service that Envoy asks, over gRPC; loaded only with `sluice serve --grpc`',
    knows: ['core', 'http', 'library'],
  },
  command: { holds: 'the command `sluice`', knows: ['core', 'http', 'library', 'gateway', 'ratelimit-service'] },
}

const IMPORT = /(?:from|import)\s*\(?'(\.{1,2}\/[^']+\.ts)'/g

type Imports = ReadonlyMap<string, readonly string[]>

/** @returns one line for each import that the layout forbids, each circle, and each folder that it does not name */
export function findFaults(imports: Imports): readonly string[] {
  const faults: string[] = []
  for (const [file, imported] of imports) {
    const problem = findPlaceProblem(file)
    if (problem) faults.push(`${file}: ${problem}`)
    for (const other of imported) if (!mayImport(file, other)) faults.push(`${file} imports upward: ${other}`)
  }
  return [...faults, ...findCircles(imports)]
}

function findPlaceProblem(file: string): string | undefined {
  const { room, floor } = locate(file)
  if (room === undefined) return undefined
  if (!Object.hasOwn(ROOMS, room)) return 'its room is not listed in tools/check-floors.ts'
  const floors = ROOMS[room]?.floors
  return floors && floor !== undefined && !Object.hasOwn(floors, floor)
    ? 'its floor is not listed in tools/check-floors.ts'
    : undefined
}

function mayImport(file: string, other: string): boolean {
  const [from, to] = [locate(file), locate(other)]
  if (from.room === undefined) return true
  if (to.room === undefined) return false
  if (from.room !== to.room) return ROOMS[from.room]?.knows.includes(to.room) === true
  const floors = Object.keys(ROOMS[from.room]?.floors ?? {})
  const findHeight = (floor: string | undefined) => (floor === undefined ? floors.length : floors.indexOf(floor))
  return floors.length === 0 || findHeight(to.floor) <= findHeight(from.floor)
}

/** @returns no room for an entry, and no floor for a file that lies in the room itself */
function locate(file: string): { readonly room?: string | undefined; readonly floor?: string | undefined } {
  const [, ...folders] = dirname(file).split('/')
  return { room: folders[0], floor: folders[1] }
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

/** The tables of docs/architecture.md. */
function formatTables(): string {
  const rooms = Object.entries(ROOMS).map(([room, { holds, knows }]) => {
    return [`\`src/${room}/\``, knows.map((other) => `\`${other}\``).join(', ') || '–', holds]
  })
  const floors = Object.entries(ROOMS).flatMap(([room, { floors = {} }]) =>
    Object.entries(floors).map(([floor, holds]) => [`\`${room}/${floor}/\``, holds]),
  )
  return `${renderTable(['room', 'knows', 'holds'], rooms)}\n\n${renderTable(['floor', 'holds'], floors)}`
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
      text.replace(/(?<=<!-- floors -->\n\n)[\s\S]*?(?=\n\n<!-- \/floors -->)/, () => formatTables()),
    )
  }
}
