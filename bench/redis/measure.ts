import type { Tier } from '../../src/store/store.ts'
import { type RedisClient, readCounts, resetCounts } from '../command-counts.ts'
import type { Contender } from '../contender.ts'
import { medians } from '../statistics.ts'
import { makeSubjects, type Subject } from './subjects.ts'

export const OCCUPANCIES = [10, 1_000, 100_000] as const
export const TIER_COUNTS = [1, 3] as const
const HOUR_MS = 3_600_000
/** Below this, no limit is reached; above it, a token bucket of three hours would not be exact. */
const LIMIT = 400_000
/**
 * Decisions that are sent in one go, and counted, after one that wakes Redis up. So few that ten entries stay about
 * ten, and as many at any occupancy: the more at once, the less each takes.
 */
const ROW = 4
/** Rows until a state is made anew, where it is large enough not to mind them. */
const MOST_ROWS = 20

export interface RedisFigures {
  readonly subject: string
  readonly tiers: number
  /** Admissions in the window. */
  readonly entries: number
  /** Time that Redis spends on a decision. */
  readonly serverUs: number
  /** Commands of a decision that admits. */
  readonly billed: number
  /** What the caller takes, by MEMORY USAGE. */
  readonly bytes: number
}

export interface RedisBenchOptions {
  readonly redis: RedisClient
  readonly contenders: readonly Contender[]
  readonly repetitions: number
  /** Time for the decisions of one measurement. */
  readonly budgetMs: number
}

/** Each limiter's decisions as Redis itself counts them, in turns; the first turn, which warms Redis up, is not counted. */
export async function measureInRedis(options: RedisBenchOptions): Promise<RedisFigures[]> {
  const { redis, contenders, repetitions } = options
  const cells: { subject: Subject; tiers: number; entries: number; runs: Measurement[] }[] = []
  for (const tiers of TIER_COUNTS) {
    for (const subject of await makeSubjects(redis, tiersOf(tiers), contenders)) {
      for (const entries of OCCUPANCIES) cells.push({ subject, tiers, entries, runs: [] })
    }
  }
  for (let repetition = 0; repetition <= repetitions; repetition++) {
    for (const { subject, entries, runs } of cells) {
      const run = await measure(subject, entries, options)
      if (repetition > 0) runs.push(run)
    }
  }
  return cells.map(({ subject, tiers, entries, runs }) => ({ subject: subject.name, tiers, entries, ...medians(runs) }))
}

function tiersOf(count: number): Tier[] {
  return Array.from({ length: count }, (_, index) => ({ limit: LIMIT, windowMs: (index + 1) * HOUR_MS }))
}

type Measurement = Pick<RedisFigures, 'serverUs' | 'billed' | 'bytes'>

async function measure(
  subject: Subject,
  entries: number,
  { redis, budgetMs }: RedisBenchOptions,
): Promise<Measurement> {
  const rows = Math.max(1, Math.min(MOST_ROWS, entries / 500))
  const until = performance.now() + budgetMs
  let [decisions, serverUs, billed, bytes] = [0, 0, 0, 0]
  do {
    const caller = crypto.randomUUID().slice(0, 22)
    await subject.fill(caller, entries)
    bytes = await bytesOf(redis, caller)
    for (let row = 0; row < rows; row++) {
      await subject.decide(caller)
      await resetCounts(redis)
      await Promise.all(Array.from({ length: ROW }, () => subject.decide(caller)))
      const counts = await readCounts(redis)
      decisions += ROW
      serverUs += counts.serverUs
      billed += counts.billed
      if (performance.now() > until) break
    }
    await redis.flushAll()
  } while (performance.now() < until)
  return { serverUs: serverUs / decisions, billed: billed / decisions, bytes }
}

async function bytesOf(redis: RedisClient, caller: string): Promise<number> {
  let bytes = 0
  for (const key of await redis.keys(`*${caller}*`)) bytes += Number(await redis.memoryUsage(key, { SAMPLES: 0 }))
  return bytes
}
