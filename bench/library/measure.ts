/** The library in one process, compared with others that limit there. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Limit } from '../../src/core/model/limits.ts'
import { sleep } from '../../src/core/runtime/sleep.ts'
import {
  createLimiter,
  type Limiter,
  memoryStore,
  redisStore,
  slidingWindow,
  UPSTASH_OPTIONS,
} from '../../src/index.ts'
import { checkWindows } from '../../test/support/windows.ts'
import { installLocked } from '../../tools/install-locked.ts'
import type { Contender, InProcess, Throttle, TryTake } from '../peers.ts'
import type { Service } from '../services.ts'
import { TOKEN } from '../site.ts'
import { type Spread, summarize } from '../statistics.ts'

const run = promisify(execFile)

export const LIBRARY = 'Sluice'

/** This is never reached: each decision grants. */
const AMPLE: Limit = { limit: 10_000_000, windowMs: 1_000 }
/** This is reached at once: nearly each decision refuses. */
const SCARCE: Limit = { limit: 10, windowMs: 3_600_000 }
const GRANTED = { what: '`10000000/1h`, granted', limits: '10000000/1h', share: 1 } as const
const REFUSED = { what: '`1/1h`, refused', limits: '1/1h', share: 0 } as const
/** Windows that fill, that empty again and again, and that are full. */
const CASES = [
  { what: '`10000000/1s`, granted', limits: '10000000/1s', share: 1 },
  GRANTED,
  { what: '`1000000/100ms`, granted', limits: '1000000/100ms', share: 1 },
  REFUSED,
] as const
const MAX_CALLERS = 100_000
const ONE = { callers: 1, decisions: 500_000 } as const
const MANY = { callers: MAX_CALLERS, decisions: 500_000 } as const
/** The memory of a caller grows with the decisions that it has had. */
const LOADS = [ONE, { callers: 1_000, decisions: 500_000 }, MANY, { callers: MAX_CALLERS, decisions: 300_000 }] as const
/** Processes of each limiter for each case, and turns of those that wait. */
const TURNS = 3

/** Other versions of Node, from a folder of their own. */
const NODES = join(import.meta.dirname, 'nodes')
const OTHER_NODES = [22, 26] as const
/** Decisions by Redis of which the calls are counted. */
const COUNTED = 100

/** One call, then the others shortly before its window has ended. */
const WAITING = { limit: 20, windowMs: 500, tasks: 80, pause: 0.9 }
/** A process that is busy calls a little later than it was let to, so that windows of calls are a little shorter. */
const PUNCTUALITY = 0.9

interface Node {
  readonly version: number
  readonly executable: string
}

export const OWN_NODE: Node = { version: Number.parseInt(process.versions.node, 10), executable: process.execPath }

/** µs of processor time of a decision. */
interface Times {
  readonly coldUs: number
  readonly us: number
}

export interface DecisionFigures {
  /** The first part of its version. */
  readonly node: number
  readonly limiter: string
  readonly what: string
  readonly callers: number
  readonly decisions: number
  /** Processor time of a decision, after as many others. */
  readonly us: Spread
  /** The time of this one ÷ that of Sluice, from the same turns: above 1, Sluice takes less. */
  readonly ratio: Spread
  /** The same of the decisions before. */
  readonly coldRatio: Spread
}

export interface MemoryFigures {
  readonly limiter: string
  /** Bytes of the heap for each of 100,000 callers with one request. */
  readonly bytes: number
}

export interface WaitingFigures {
  readonly throttle: string
  /** Calls in the fullest span of nine tenths of a window, over the limit. */
  readonly worst: number
  /** Time that all took, over what they take if they are as soon as the limit lets them. */
  readonly duration: Spread
}

export interface LibraryFigures {
  readonly inMemory: readonly DecisionFigures[]
  readonly memory: readonly MemoryFigures[]
  /** Requests to Redis's REST interface, a decision. */
  readonly restRequests: number
  readonly waiting: readonly WaitingFigures[]
}

export interface LibraryBenchOptions extends InProcess {
  /** The REST front before Redis. */
  readonly front: Service
}

export async function measureLibrary(options: LibraryBenchOptions): Promise<LibraryFigures> {
  return {
    inMemory: [...(await measureInMemory(options, OWN_NODE, CASES, LOADS)), ...(await measureOtherNodes(options))],
    memory: await measureMemory(options),
    restRequests: await countRestRequests(options),
    waiting: await measureWaiting(options),
  }
}

const OWN: Contender = { name: LIBRARY, make: (limits) => toTryTake(createLibraryLimiter(limits)) }

async function measureOtherNodes(options: InProcess): Promise<DecisionFigures[]> {
  installLocked(NODES)
  const figures: DecisionFigures[] = []
  for (const version of OTHER_NODES) {
    const node = { version, executable: join(NODES, `node_modules/node-${version}/bin/node`) }
    figures.push(...(await measureInMemory(options, node, [GRANTED, REFUSED], [ONE, MANY])))
  }
  return figures
}

/** Each figure is that of a process of its own, and no two run at the same time: collectors of garbage share no processor. */
async function measureInMemory(
  { inMemory }: InProcess,
  node: Node,
  cases: readonly (typeof CASES)[number][],
  loads: readonly (typeof LOADS)[number][],
): Promise<DecisionFigures[]> {
  const names = [LIBRARY, ...inMemory.map(({ name }) => name)]
  const figures: DecisionFigures[] = []
  for (const { what, limits, share } of cases) {
    for (const load of loads) {
      const turns: Times[][] = []
      for (let turn = 0; turn < TURNS; turn++) {
        const times: Times[] = []
        for (const name of names) times.push(await decideAlone(node, name, limits, load, share))
        turns.push(times)
      }
      names.forEach((limiter, at) => {
        const divide = (kind: keyof Times) =>
          summarize(turns.map((times) => (times[at] as Times)[kind] / (times[0] as Times)[kind]))
        figures.push({
          ...{ node: node.version, limiter, what, ...load },
          us: summarize(turns.map((times) => (times[at] as Times).us)),
          ...{ ratio: divide('us'), coldRatio: divide('coldUs') },
        })
      })
    }
  }
  return figures
}

/** @param share of the decisions that is granted */
async function decideAlone(
  { executable }: Node,
  limiter: string,
  limits: string,
  { callers, decisions }: (typeof LOADS)[number],
  share: number,
): Promise<Times> {
  const args = [join(import.meta.dirname, 'decide-alone.ts'), limiter, limits, `${callers}`, `${decisions}`]
  const { granted, ...times } = JSON.parse((await run(executable, args)).stdout)
  if (Math.abs(granted - share) > 0.01) throw new Error(`${limiter} granted ${granted} of ${limits}, not ${share}`)
  return times
}

async function measureMemory({ inMemory }: LibraryBenchOptions): Promise<MemoryFigures[]> {
  setFlagsFromString('--expose-gc')
  const collect: () => void = runInNewContext('gc')
  const names = Array.from({ length: MAX_CALLERS }, (_, index) => `caller ${index}`)
  const figures: MemoryFigures[] = []
  for (const { name, make } of [OWN, ...inMemory]) {
    const limit = make([SCARCE])
    await limit('warm up')
    collect()
    const before = process.memoryUsage().heapUsed
    for (const caller of names) await limit(caller)
    collect()
    figures.push({ limiter: name, bytes: (process.memoryUsage().heapUsed - before) / names.length })
    // Nothing is freed before.
    await limit('last')
  }
  return figures
}

async function countRestRequests({ front }: LibraryBenchOptions): Promise<number> {
  const { Redis } = await import('@upstash/redis')
  const redis = new Redis({ url: front.url, token: TOKEN, ...UPSTASH_OPTIONS })
  const tryTake = toTryTake(createLibraryLimiter([AMPLE], redisStore(redis)))
  // The first loads the script.
  await tryTake('caller')
  const before = await front.ask<number>('requests')
  for (let i = 0; i < COUNTED; i++) await tryTake('caller')
  return ((await front.ask<number>('requests')) - before) / COUNTED
}

/** All wait at the same time: they do little else. */
async function measureWaiting({ throttles }: LibraryBenchOptions): Promise<WaitingFigures[]> {
  const own: Throttle = {
    name: LIBRARY,
    make(each) {
      const limiter = createLibraryLimiter([each])
      return async (task) => {
        await limiter.waitFor('caller')
        return task()
      }
    },
  }
  const all = [own, ...throttles]
  const turns: Awaited<ReturnType<typeof waitThrough>>[][] = []
  while (turns.length < TURNS) turns.push(await Promise.all(all.map(waitThrough)))
  return all.map(({ name }, at) => {
    const rows = turns.flatMap((turn) => turn[at] ?? [])
    // The fullest window of all turns counts.
    const worst = Math.max(...rows.map(({ worst }) => worst))
    return { throttle: name, worst, duration: summarize(rows.map(({ duration }) => duration)) }
  })
}

async function waitThrough({ make }: Throttle): Promise<{ readonly worst: number; readonly duration: number }> {
  const { limit, windowMs, tasks, pause } = WAITING
  const call = make({ limit, windowMs })
  const calledMs: number[] = []
  const startMs = performance.now()
  const noteCall = () => calledMs.push(performance.now())
  await call(noteCall)
  await sleep(pause * windowMs)
  await Promise.all(Array.from({ length: tasks - 1 }, () => call(noteCall)))
  const calls = calledMs.map((ms) => ({ ms, cost: 1 }))
  const idealMs = (tasks / limit - 1 + pause) * windowMs
  return {
    worst: checkWindows({ limit, windowMs: PUNCTUALITY * windowMs }, calls).fullest,
    duration: (Math.max(...calledMs) - startMs) / idealMs,
  }
}

function toTryTake(limiter: Limiter): TryTake {
  return async (caller) => (await limiter.take(caller)).granted
}

function createLibraryLimiter(limits: readonly Limit[], store = memoryStore()): Limiter {
  const text = limits.map(({ limit, windowMs }) => `${limit}/${windowMs}ms`).join(', ')
  return createLimiter({ store, policies: [{ name: 'bench', ...slidingWindow(text, { allowLargeLog: true }) }] })
}
