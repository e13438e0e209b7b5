import type { Database } from '../upkeep/database.ts'

/** How the database is. */
export interface ServerState {
  /** All keys, others' as well. */
  readonly keys: number
  /** Of five small questions: the middle one, and the slowest. */
  readonly latencyMs: number
  readonly slowestMs: number
  /** Null where the server does not tell: */
  readonly memoryBytes: number | null
  /** null as well: none is set. */
  readonly memoryLimitBytes: number | null
  /** What becomes of keys when memory is full. */
  readonly memoryPolicy: string | null
}

const QUESTIONS = 5

/** @throws {DatabaseError} */
export async function readServerState(database: Database): Promise<ServerState> {
  const tookMs: number[] = []
  for (let i = 0; i < QUESTIONS; i++) {
    const askedAtMs = performance.now()
    await database.ping()
    tookMs.push(performance.now() - askedAtMs)
  }
  tookMs.sort((a, b) => a - b)
  const [keys, memory] = await Promise.all([database.size(), database.info('memory')])
  const bytes = (field: string) => Number(memory?.get(field)) || null
  return {
    keys,
    latencyMs: round(tookMs[QUESTIONS >> 1]),
    slowestMs: round(tookMs.at(-1)),
    memoryBytes: bytes('used_memory'),
    memoryLimitBytes: bytes('maxmemory'),
    memoryPolicy: memory?.get('maxmemory_policy') ?? null,
  }
}

function round(ms = 0): number {
  return Math.round(ms * 100) / 100
}
