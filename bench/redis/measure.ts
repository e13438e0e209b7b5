/** Measures the cost of a decision in Redis, by Redis's own statistics. */
import type { Limit } from '../../src/core/model/limits.ts'
import type { RedisClient } from '../../test/support/redis-client.ts'
import { type CommandCounts, readCounts, resetCounts } from '../command-counts.ts'
import type { Contender } from '../peers.ts'
import { summarizeRows } from '../statistics.ts'
import { createSubjects, type Subject } from './subjects.ts'

export const OCCUPANCIES = [10, 1_000, 100_000] as const
const LIMIT_COUNTS = [1, 3] as const
/** No admissions in the window: each decision is on a caller never seen. */
export const NEW_CALLER = 0
const HOUR_MS = 3_600_000
/** A lower limit would be reached; with a higher one, a token bucket of three hours would not be exact. */
const LIMIT = 400_000
/**
 * Decisions that are counted together, the same number at any occupancy. Each is sent when the one before it is
 * answered: sent at once, each would take less. Callers with few entries share them, so that they keep about as many.
 */
const ROW = 40
/** A decision that takes longer is measured alone. */
const COSTLY_US = 5_000

export interface RedisFigures {
  readonly subject: string
  readonly limits: number
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
  /** Turns that are not counted. */
  readonly warmUps: number
  readonly repetitions: number
  /** Time for the decisions of one measurement. */
  readonly budgetMs: number
}

/** Measures each limiter's decisions in turns. */
export async function measureInRedis(options: RedisBenchOptions): Promise<RedisFigures[]> {
  const { redis, contenders, warmUps, repetitions } = options
  const cells: { subject: Subject; limits: number; entries: number; runs: Measurement[] }[] = []
  for (const limits of LIMIT_COUNTS) {
    for (const subject of await createSubjects(redis, createLimits(limits), contenders)) {
      for (const entries of [NEW_CALLER, ...OCCUPANCIES]) cells.push({ subject, limits, entries, runs: [] })
    }
  }
  for (let turn = 0; turn < warmUps + repetitions; turn++) {
    for (const { subject, entries, runs } of cells) {
      const run = await measure(subject, entries, options)
      if (turn >= warmUps) runs.push(run)
    }
  }
  return cells.map(({ subject, limits, entries, runs }) => ({
    subject: subject.name,
    limits,
    entries,
    ...summarizeRows(runs),
  }))
}

export function createLimits(count: number): Limit[] {
  return Array.from({ length: count }, (_, index) => ({ limit: LIMIT, windowMs: (index + 1) * HOUR_MS }))
}

type Measurement = Pick<RedisFigures, 'serverUs' | 'billed' | 'bytes'>

async function measure(
  subject: Subject,
  entries: number,
  { redis, budgetMs }: RedisBenchOptions,
): Promise<Measurement> {
  const rowsPerFill = Math.max(1, Math.min(20, entries / 1_000))
  const until = performance.now() + budgetMs
  const rows: CommandCounts[] = []
  let bytes = 0
  do {
    const callers = createCallers(entries)
    if (entries !== NEW_CALLER) for (const caller of callers) await subject.fill(caller, entries)
    const probe = await countRow(redis, subject, callers, 1)
    bytes = await measureBytes(redis, callers[0] as string)
    const decisions = probe.serverUs > COSTLY_US ? 1 : ROW
    for (let i = 0; i < rowsPerFill; i++) {
      const row = entries === NEW_CALLER ? createCallers(entries) : callers
      rows.push(await countRow(redis, subject, row, decisions))
      if (performance.now() > until) break
    }
    await redis.flushAll()
  } while (performance.now() < until)
  // The median leaves out the rows in which Redis had to wait for a processor.
  return { ...summarizeRows(rows), bytes }
}

function createCallers(entries: number): string[] {
  const length = entries === NEW_CALLER ? ROW : entries < 1_000 ? 10 : 1
  return Array.from({ length }, () => crypto.randomUUID().slice(0, 22))
}

/** Counts of one decision of a row, whose decisions are shared by the callers. */
async function countRow(
  redis: RedisClient,
  subject: Subject,
  callers: string[],
  decisions: number,
): Promise<CommandCounts> {
  await resetCounts(redis)
  for (let i = 0; i < decisions; i++) await subject.decide(callers[i % callers.length] as string)
  const { billed, serverUs } = await readCounts(redis)
  return { billed: billed / decisions, serverUs: serverUs / decisions }
}

async function measureBytes(redis: RedisClient, caller: string): Promise<number> {
  let bytes = 0
  for (const key of await redis.keys(`*${caller}*`)) bytes += Number(await redis.memoryUsage(key, { SAMPLES: 0 }))
  return bytes
}
