/**
 * How fast `sluice expire` gives keys a time to live: over redis://, over REST from 20 ms away, and compared with a loop of
 * PTTL and PEXPIRE. Some five minutes.
 *
 *     npm run bench:upkeep -- [--keys 1000000] [--repetitions 3]
 *
 * Prints the figures of docs/operations.md. The server runs before all other processes where that is allowed, so that its
 * slow log says how long a script takes, and not how long it waited for a processor.
 */
import { execFileSync } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { runCommand } from '../test/command/run-command.ts'
import { connectBytes, fill } from '../test/support/upkeep.ts'
import { startRedisServer } from '../tools/redis-server.ts'
import { startFront } from './services.ts'
import { computeMedian } from './statistics.ts'

const TOKEN = 'bench-token'
const ROUND_TRIP_MS = 20
/** No single command of the scripts takes so long unless the machine does something else meanwhile. */
const LOGGED_FROM_US = 250
/** The loop goes through no more than these: all keys would take minutes. */
const MAX_LOOPED = 20_000
const NAME = 'flashMap_'
const TTL_MS = 86_400_000

const { values } = parseArgs({
  options: { keys: { type: 'string', default: '1000000' }, repetitions: { type: 'string', default: '3' } },
})
const keys = Number(values.keys)
const server = await startRedisServer({
  args: ['--slowlog-log-slower-than', `${LOGGED_FROM_US}`, '--slowlog-max-len', '100000'],
})
const hasPriority = givePriority(server.pid)
const redis = await connectBytes(server.port)
const front = await startFront(server.port, TOKEN, ROUND_TRIP_MS)
const stateFolder = await mkdtemp(join(tmpdir(), 'sluice-bench-upkeep-'))
/** Each goes through the keys and returns how many a second. */
const WAYS = {
  'sluice expire, redis://': () => expire(`redis://127.0.0.1:${server.port}`),
  [`sluice expire, REST, ${ROUND_TRIP_MS} ms away`]: () => expire(front.url),
  'PTTL and PEXPIRE, key by key': loop,
}
try {
  const rows = []
  for (const [way, run] of Object.entries(WAYS)) {
    const speeds: number[] = []
    let longestUs = 0
    for (let turn = 0; turn < Number(values.repetitions); turn++) {
      await redis.sendCommand(['FLUSHALL'])
      await fill(redis, NAME, keys)
      await redis.sendCommand(['SLOWLOG', 'RESET'])
      speeds.push(await run())
      longestUs = Math.max(longestUs, await readLongestScriptUs())
    }
    rows.push({ way, 'keys/s': Math.round(computeMedian(speeds)), 'longest script, ms': longestUs / 1_000 })
  }
  const priority = hasPriority ? 'runs before all other processes' : 'has no priority'
  console.log(`${new Date().toISOString().slice(0, 10)}, ${cpus().length} × ${cpus()[0]?.model.trim()}`)
  console.log(`node ${process.versions.node}; ${keys} keys; the server ${priority}`)
  console.table(rows)
} finally {
  redis.destroy()
  await front.stop()
  await server.stop()
  await rm(stateFolder, { recursive: true })
}

/** The time counts that the command itself measures, without the start of its process. */
async function expire(database: string): Promise<number> {
  const args = ['expire', '--redis', database, '--match', `${NAME}*`, '--ttl', `${TTL_MS}ms`, '--yes', '--json']
  const env = { XDG_STATE_HOME: stateFolder, UPSTASH_REDIS_REST_TOKEN: TOKEN }
  const { code, stdout, stderr } = await runCommand(args, { env })
  if (code !== 0) throw new Error(`sluice expire ended with ${code}: ${stderr}`)
  const { set, seconds } = JSON.parse(stdout)
  if (set !== keys) throw new Error(`${set} of ${keys} keys were given a time to live`)
  return keys / seconds
}

async function loop(): Promise<number> {
  const startMs = performance.now()
  const count = Math.min(keys, MAX_LOOPED)
  for (let i = 0; i < count; i++) {
    const key = `${NAME}${i}`
    if (Number(await redis.sendCommand(['PTTL', key])) < 0) await redis.sendCommand(['PEXPIRE', key, `${TTL_MS}`])
  }
  return (count * 1_000) / (performance.now() - startMs)
}

async function readLongestScriptUs(): Promise<number> {
  const log = (await redis.sendCommand(['SLOWLOG', 'GET', '-1'])) as unknown as [number, number, number, string[]][]
  const scripts = log.filter(([, , , [name = '']]) => /^EVAL/i.test(String(name)))
  return Math.max(0, ...scripts.map(([, , us]) => us))
}

/** Lets a process run before all others; returns whether that was allowed. */
function givePriority(pid: number): boolean {
  try {
    execFileSync('chrt', ['--fifo', '--pid', '1', `${pid}`], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
