/** Everything that is soaked: two gateways, a `sluice serve` and a process with the library, over stores that fail. */
import type { ChildProcessByStdio } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'
import type { Readable, Writable } from 'node:stream'
import { type FaultyFront, startFaultyFront } from '../../../tools/faulty-front.ts'
import { findFreePort } from '../../../tools/free-port.ts'
import { startRestFront } from '../../../tools/rest-front.ts'
import type { Bundle } from '../../support/build-bundle.ts'
import { type DirectGateway, startDirectGateway } from '../../support/direct-gateway.ts'
import { measureHeapMiB } from '../../support/inspector.ts'
import { type Part, startParts } from '../../support/parts.ts'
import { startProgram } from '../../support/program.ts'
import { type ServingProcess, startServing } from '../../support/serving-process.ts'
import { residentMiB } from '../faults/memory.ts'
import { FaultyRedis } from '../faults/redis.ts'
import { type FaultyUpstream, startFaultyUpstream } from '../faults/upstream.ts'
import { type Accounts, STORE_TIMEOUT_MS } from './accounts.ts'

export const LIMIT = { limit: 10, windowMs: 5_000 } as const
export const LONGEST_WINDOW_MS = 10_000
export const KEY_PREFIX = 'soak'
export const IDENTITY_SECRET = 'planted-identity-secret'
const TOKEN = 'planted-rest-token'
/** Half of what Cloudflare gives an isolate: workerd ends when this is passed. */
const V8_FLAGS = ['--max-heap-size=64', '--expose-gc']

/** Their files have up to 4 MB each. */
const OBJECTS_TO_READ = 20
const COPY_TRIES = 3

const HEALTH_PATH = '/_sluice/health'

const limits = `${LIMIT.limit}/${LIMIT.windowMs}ms`
const POLICIES = [
  { name: 'hot', match: '/hot', limits },
  { name: 'fresh', match: '/fresh', limits },
  { name: 'bucket', match: '/fresh', limits: `50/${LONGEST_WINDOW_MS}ms`, algorithm: 'token-bucket', by: 'ip' },
  { name: 'guesses', match: '/up/*', limits, counts: 'failures' },
  { name: 'slots', match: '/up/*', limits: '100', algorithm: 'concurrency', slot_ttl: '1h' },
]
const VARIABLES = {
  ...{ KEY_PREFIX, POLICIES, IDENTITY_SECRET },
  ...{ RATE_LIMITS: 'off', STATISTICS: 'on', RULES: 'on', STORE_TIMEOUT_MS, UPSTREAM_TIMEOUT_MS: 2_000 },
}

export interface Site extends Part {
  readonly redis: FaultyRedis
  readonly front: FaultyFront
  readonly upstream: FaultyUpstream
  readonly gateway: DirectGateway
  /** Counts in Durable Objects. */
  readonly objects: DirectGateway
  readonly serving: ServingProcess
  readonly library: { ask(): Promise<Library> }
  /** What is held now, by names that say of what. */
  measure(): Promise<Readonly<Record<string, number>>>
}

export function startSite(bundle: Bundle): Promise<Site> {
  return startParts(async (add) => {
    const redis = await add(FaultyRedis.start())
    const rest = await add(startRestFront({ redisPort: redis.port, token: TOKEN }))
    const front = await add(startFaultyFront({ target: rest.url }))
    const upstream = await add(startFaultyUpstream())
    const startGateway = async (bindings: object, objects?: 'disk') => {
      const inspector = await findFreePort()
      const args = [`--inspector-addr=127.0.0.1:${inspector}`]
      const all = { UPSTREAM_URL: upstream.url, ...VARIABLES, ...bindings }
      const gateway = await add(
        startDirectGateway({ bundle, bindings: all, v8Flags: V8_FLAGS, args, ...(objects && { objects }) }),
      )
      return { gateway, inspector }
    }
    const overRedis = await startGateway({ UPSTASH_REDIS_REST_URL: front.url, UPSTASH_REDIS_REST_TOKEN: TOKEN })
    const overObjects = await startGateway({ STORE: 'durable-object' }, 'disk')
    const redisUrl = `redis://127.0.0.1:${redis.port}`
    const serving = await add(
      startServing({ ...VARIABLES, KEY_PREFIX: 'soak-serve', REDIS_URL: redisUrl, ON_STORE_ERROR: 'local' }),
    )
    const library = await add(startLibrary(redis.port))

    async function measure() {
      const processes = { gateway: overRedis.gateway, objects: overObjects.gateway, serve: serving, library }
      const held: Record<string, number> = {}
      const resident = await residentMiB(Object.values(processes))
      for (const [index, [name, { pid }]] of Object.entries(processes).entries()) {
        held[`${name}: RSS, MiB`] = resident[index] as number
        held[`${name}: open files`] = (await readdir(`/proc/${pid}/fd`)).length
      }
      held['gateway: heap, MiB'] = await measureHeapMiB(
        overRedis.inspector,
        new URL(HEALTH_PATH, overRedis.gateway.url),
      )
      held['objects: heap, MiB'] = await measureHeapMiB(
        overObjects.inspector,
        new URL(HEALTH_PATH, overObjects.gateway.url),
      )
      const { heapMiB, timers } = await library.ask()
      held['library: heap, MiB'] = heapMiB
      held['library: timers'] = timers
      // The process with the library never rests, and a slot that was given back is remembered for an hour.
      const isCounted = (key: string) => !/^soak(?:-library|:slots):/.test(key)
      const keys = (await redis.client.keys('soak*')).filter(isCounted)
      held['Redis: keys of callers'] = keys.filter((key) => key.includes('{')).length
      held[`objects: bytes in rows of ${OBJECTS_TO_READ}`] = await measureRows(bundle.folder)
      return held
    }
    const [gateway, objects] = [overRedis.gateway, overObjects.gateway]
    return { redis, front, upstream, gateway, objects, serving, library, measure }
  })
}

/** What its process says of itself. */
export interface Library {
  readonly heapMiB: number
  readonly timers: number
  readonly takes: number
  readonly wrong: readonly string[]
  readonly counts: Accounts['counts']
}

async function startLibrary(port: number) {
  const args = ['--expose-gc', join(import.meta.dirname, 'library-process.ts'), String(port), 'soak-library']
  const program = startProgram<ChildProcessByStdio<Writable, Readable, null>>(process.execPath, args, {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const lines = createInterface(program.child.stdout)
  return {
    pid: program.pid,
    async ask(): Promise<Library> {
      const answer = once(lines, 'line')
      program.child.stdin.write('?\n')
      return JSON.parse((await answer)[0])
    },
    stop: () => program.end(),
  }
}

/**
 * Measures what some objects hold in rows, in copies of their files. The size of those tells nothing: SQLite moves what
 * it has logged into a file only once that is 4 MB, and then makes no file smaller.
 */
async function measureRows(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true })
  const files = entries.filter((name) => name.endsWith('.sqlite')).sort()
  const copy = await mkdtemp(join(tmpdir(), 'sluice-rows-'))
  try {
    let bytes = 0
    for (const file of files.slice(0, OBJECTS_TO_READ)) bytes += await measureObject(join(folder, file), copy)
    return bytes
  } finally {
    await rm(copy, { recursive: true })
  }
}

async function measureObject(file: string, folder: string): Promise<number> {
  for (let tries = 1; ; tries++) {
    try {
      const copy = join(folder, 'copy.sqlite')
      await copyFile(file, copy)
      await copyFile(`${file}-wal`, `${copy}-wal`).catch(ignoreMissing)
      const database = new DatabaseSync(copy)
      const tables = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all()
      const rows = tables.flatMap(({ name }) => {
        const select = database.prepare(`SELECT * FROM "${name}"`)
        // Alarms are times in nanoseconds.
        select.setReadBigInts(true)
        return select.all()
      })
      database.close()
      return rows.flatMap(Object.values).reduce<number>((sum, value) => sum + measureValue(value), 0)
    } catch (error) {
      // Its log may have been moved between the two copies.
      if (tries === COPY_TRIES) throw error
    }
  }
}

/** An object that has rested has no log. */
function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error
}

function measureValue(value: unknown): number {
  return value instanceof Uint8Array ? value.byteLength : String(value).length
}
