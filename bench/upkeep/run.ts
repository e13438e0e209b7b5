/**
 * `sluice expire` beside other ways to give a million keys a time to live, on one Redis. Some ten minutes.
 *
 *     npm run bench:upkeep -- [--bare 1000000] [--kept 100000] [--repetitions 3]
 *
 * Prints a table and what the run must show. The server runs before all other processes where that is allowed, so that
 * its slow log tells how long a script takes, and not how long it waited for a processor.
 */
import { execFileSync } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { connectRedis } from '../../test/support/redis-client.ts'
import { startRedisServer } from '../../tools/redis-server.ts'
import { startFront } from '../services.ts'
import { median } from '../statistics.ts'
import { AWAY_MS, CONTENDERS, type Contender, SLUICE, SLUICE_REST, type World } from './contenders.ts'
import { countBare, expiries, fillKeys } from './keys.ts'
import { killAndResume } from './kill-and-resume.ts'
import { watchLatency } from './latency.ts'
import { LONGEST_US, readScriptTimes, type ScriptTimes } from './script-times.ts'

const TOKEN = 'bench-token'
/** No single command of these scripts takes so long unless the machine does something else meanwhile. */
const LOGGED_FROM_US = 250
/** Of the same method in 2014, with one call a key 100. */
const PUBLISHED_PER_S = 3_500

interface Figures {
  readonly name: string
  /** Keys gone through in a second. */
  readonly keysPerS: number
  /** Of all repetitions, by the slow log. */
  readonly scripts: ScriptTimes
  /** What another client waits for PING: the 99th of 100, and the longest. */
  readonly pingMs: { readonly p99: number; readonly most: number }
  /** Keys left without a time to live; of a part, not told. */
  readonly left: number | undefined
  /** Keys that had one, and now have another. */
  readonly touched: number
}

const { values } = parseArgs({
  options: {
    bare: { type: 'string', default: '1000000' },
    kept: { type: 'string', default: '100000' },
    repetitions: { type: 'string', default: '3' },
  },
})
const keys = { bare: Number(values.bare), kept: Number(values.kept) }
const total = keys.bare + keys.kept

const server = await startRedisServer({
  args: ['--slowlog-log-slower-than', `${LOGGED_FROM_US}`, '--slowlog-max-len', '100000'],
})
const hasPriority = givePriority(server.pid)
const redis = await connectRedis(server.port)
const front = await startFront(server.port, TOKEN, 0)
const frontAway = await startFront(server.port, TOKEN, AWAY_MS)
const stateFolder = await mkdtemp(join(tmpdir(), 'sluice-bench-upkeep-'))
const world: World = { redis, port: server.port, front, frontAway, token: TOKEN, stateFolder, keys }
try {
  const runs = new Map<Contender, Figures[]>(CONTENDERS.map((contender) => [contender, []]))
  // In turns, so that what else the machine does falls on all of them.
  for (let repetition = 1; repetition <= Number(values.repetitions); repetition++) {
    for (const [contender, figures] of runs) {
      console.error(`${repetition}: ${contender.name} …`)
      figures.push(await measure(contender))
    }
  }
  console.error('killed and resumed …')
  const before = await fillKeys(redis, keys)
  await redis.sendCommand(['SLOWLOG', 'RESET'])
  const args = ['--redis', `redis://127.0.0.1:${server.port}`, '--match', 'flashMap_*', '--ttl', '24h']
  const resumed = await killAndResume(args, stateFolder)
  const resumedState = { left: await countBare(redis, keys), touched: differences(before, await expiries(redis, keys)) }
  await report([...runs.values()].map(summarize), { ...resumed, ...resumedState })
} finally {
  await redis.close()
  await Promise.all([front.stop(), frontAway.stop()])
  await server.stop()
  await rm(stateFolder, { recursive: true })
}

async function measure(contender: Contender): Promise<Figures> {
  const most = Math.min(contender.most ?? total, total)
  const before = await fillKeys(redis, keys)
  await redis.sendCommand(['SLOWLOG', 'RESET'])
  const latency = await watchLatency(server.port)
  const startedMs = performance.now()
  const seconds = (await contender.go(world, most)) ?? (performance.now() - startedMs) / 1_000
  const pingMs = await latency.stop()
  const scripts = await readScriptTimes(redis)
  return {
    name: contender.name,
    keysPerS: most / seconds,
    scripts,
    pingMs,
    left: contender.most === undefined ? await countBare(redis, keys) : undefined,
    touched: differences(before, await expiries(redis, keys)),
  }
}

function summarize(runs: readonly Figures[]): Figures {
  const [first] = runs as [Figures]
  return {
    name: first.name,
    keysPerS: median(runs.map(({ keysPerS }) => keysPerS)),
    scripts: {
      longestUs: Math.max(...runs.map(({ scripts }) => scripts.longestUs)),
      longestAtWorkUs: Math.max(...runs.map(({ scripts }) => scripts.longestAtWorkUs)),
      tooLong: runs.reduce((sum, { scripts }) => sum + scripts.tooLong, 0),
    },
    pingMs: {
      p99: median(runs.map(({ pingMs }) => pingMs.p99)),
      most: Math.max(...runs.map(({ pingMs }) => pingMs.most)),
    },
    left: first.left === undefined ? undefined : Math.max(...runs.map(({ left = 0 }) => left)),
    touched: Math.max(...runs.map(({ touched }) => touched)),
  }
}

async function report(
  figures: readonly Figures[],
  resumed: Awaited<ReturnType<typeof killAndResume>> & { left: number; touched: number },
): Promise<void> {
  const redisVersion = /redis_version:(\S+)/.exec(await redis.info('server'))?.[1]
  const sluice = figures.find(({ name }) => name === SLUICE) as Figures
  const rest = figures.find(({ name }) => name === SLUICE_REST) as Figures
  const date = new Date().toISOString().slice(0, 10)
  const processors = `${cpus().length} × ${cpus()[0]?.model.trim()}`
  console.log(`${date}, ${processors}; node ${process.versions.node}, redis ${redisVersion}`)
  console.log(
    `${keys.bare} keys without a time to live, ${keys.kept} with one; the server ${hasPriority ? 'runs before all other processes' : 'has no priority'}`,
  )
  console.table(
    figures.map(({ name, keysPerS, scripts, pingMs, left, touched }) => ({
      way: name,
      'keys/s': Math.round(keysPerS),
      'sluice is faster by': (sluice.keysPerS / keysPerS).toFixed(1),
      'longest script, ms': scripts.longestUs / 1_000,
      'at work, ms': scripts.longestAtWorkUs / 1_000,
      'above 5 ms': scripts.tooLong,
      'PING p99, ms': pingMs.p99.toFixed(1),
      'PING longest, ms': pingMs.most.toFixed(1),
      left: left ?? '–',
      touched,
    })),
  )
  const claims = [
    [`≥ 50,000 keys/s over redis:// (${Math.round(sluice.keysPerS)})`, sluice.keysPerS >= 50_000],
    [
      `${(sluice.keysPerS / PUBLISHED_PER_S).toFixed(0)} × the published ${PUBLISHED_PER_S} keys/s`,
      sluice.keysPerS > PUBLISHED_PER_S,
    ],
    [
      `longest script over redis:// ≤ 5 ms (${sluice.scripts.longestUs / 1_000} ms)`,
      sluice.scripts.longestUs <= LONGEST_US,
    ],
    [
      `longest script over REST ≤ 5 ms, without what the machine did meanwhile (${rest.scripts.longestAtWorkUs / 1_000} ms of ${rest.scripts.longestUs / 1_000} ms)`,
      rest.scripts.longestAtWorkUs <= LONGEST_US,
    ],
    [
      'no key left without a time to live, none touched that had one',
      [sluice, rest].every(({ left, touched }) => left === 0 && touched === 0),
    ],
    [
      `killed and resumed (${resumed.ends.join(', ')}): ${resumed.left} left, ${resumed.touched} touched`,
      `${resumed.ends}` === 'SIGKILL,130,0' && resumed.left === 0 && resumed.touched === 0,
    ],
  ] as const
  for (const [claim, isMet] of claims) console.log(`${isMet ? 'met   ' : 'MISSED'}  ${claim}`)
}

function differences(before: readonly number[], after: readonly number[]): number {
  return before.filter((at, i) => at !== after[i]).length
}

/** Lets a process run before all others; answers whether that was allowed. */
function givePriority(pid: number): boolean {
  try {
    execFileSync('chrt', ['--fifo', '--pid', '1', `${pid}`], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
