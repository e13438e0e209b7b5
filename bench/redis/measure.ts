/** Measures the cost of a decision in Redis, by Redis's own statistics. */
import type { Limit } from '../../src/core/model/limits.ts'
import type { RedisClient } from '../../test/support/redis-client.ts'
import { type CommandCounts, readCounts, resetCounts } from '../command-counts.ts'
import type { Contender } from '../peers.ts'
import { type Spread, summarize, summarizeRows } from '../statistics.ts'
import { createSubjects, type Subject } from './subjects.ts'

export const OCCUPANCIES = [10, 1_000, 100_000] as const
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
/** Time for the decisions of one measurement. */
const BUDGET_MS = 40

export interface RedisFigures {
  readonly subject: string
  /** Admissions in the window. */
  readonly entries: number
  /** Time that Redis spends on a decision. */
  readonly serverUs: Spread
  /** Memory of the caller, by MEMORY USAGE. */
  readonly bytes: number
}

export interface RedisBenchOptions {
  readonly redis: RedisClient
  readonly contenders: readonly Contender[]
  readonly turns: number
}

/** Measures each limiter's decisions in turns, of which the first is not counted. */
export async function measureInRedis({ redis, contenders, turns }: RedisBenchOptions): Promise<RedisFigures[]> {
  const subjects = await createSubjects(redis, createLimits(1), contenders)
  const cells = subjects.flatMap((subject) =>
    OCCUPANCIES.map((entries) => ({ subject, entries, us: [] as number[], bytes: 0 })),
  )
  for (let turn = 0; turn <= turns; turn++) {
    for (const cell of cells) {
      const { serverUs, bytes } = await measure(cell.subject, cell.entries, redis)
      if (turn > 0) cell.us.push(serverUs)
      cell.bytes = bytes
    }
  }
  return cells.map(({ subject, entries, us, bytes }) => {
    return { subject: subject.name, entries, serverUs: summarize(us), bytes }
  })
}

export function createLimits(count: number): Limit[] {
  return Array.from({ length: count }, (_, index) => ({ limit: LIMIT, windowMs: (index + 1) * HOUR_MS }))
}

async function measure(
  subject: Subject,
  entries: number,
  redis: RedisClient,
): Promise<{ readonly serverUs: number; readonly bytes: number }> {
  const rowsPerFill = Math.max(1, Math.min(20, entries / 1_000))
  const until = performance.now() + BUDGET_MS
  const rows: CommandCounts[] = []
  let bytes = 0
  do {
    const callers = Array.from({ length: entries < 1_000 ? 10 : 1 }, () => crypto.randomUUID().slice(0, 22))
    for (const caller of callers) await subject.fill(caller, entries)
    const probe = await countRow(redis, subject, callers, 1)
    bytes = await measureBytes(redis, callers[0] as string)
    const decisions = probe.serverUs > COSTLY_US ? 1 : ROW
    for (let i = 0; i < rowsPerFill; i++) {
      rows.push(await countRow(redis, subject, callers, decisions))
      if (performance.now() > until) break
    }
    await redis.flushAll()
  } while (performance.now() < until)
  // The median leaves out the rows in which Redis had to wait for a processor.
  return { serverUs: summarizeRows(rows).serverUs, bytes }
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

export async function measureBytes(redis: RedisClient, caller: string): Promise<number> {
  let bytes = 0
  for (const key of await redis.keys(`*${caller}*`)) bytes += Number(await redis.memoryUsage(key, { SAMPLES: 0 }))
  return bytes
}
