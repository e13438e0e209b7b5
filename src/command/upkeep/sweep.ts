import { setTimeout } from 'node:timers/promises'
import { createReplyError } from '../../core/store/redis/redis-calls.ts'
import { type Connection, DatabaseError, PASSING } from '../redis/connection.ts'
import { countKeys, type Job, type KeyName, refuseCluster, scan } from './database.ts'

/** SCAN may return a key more than once; it is counted each time. */
export type Tally = typeof NOTHING

const NOTHING = {
  seen: 0,
  changed: 0,
  kept: 0,
  gone: 0,
  /** Keys left alone because the connection cannot send their names. */
  unnameable: 0,
}

/** The state of a run, updated in place. */
export interface SweepProgress {
  readonly tally: Tally
  /** All keys before it are dealt with; `0`: none. */
  cursor: string
  share: number
  /** Every key that existed from the beginning to the end is dealt with. */
  isComplete: boolean
  waitsFor?: string | undefined
  /** Undefined if the server's clock stands still in scripts. */
  longestScriptUs?: number
  pauses: number
  readonly examples: string[]
}

export interface SweepOptions {
  readonly connection: Connection
  readonly job: Job
  readonly match: string
  /** Maximum of keys per SCAN and per script, 1 to 1000. */
  readonly count?: number | undefined
  readonly from?: Pick<SweepProgress, 'cursor' | 'tally'> | undefined
  /** Stops after this many matching keys, or ten times as many others. */
  readonly sampleKeys?: number | undefined
  readonly signal?: AbortSignal
  readonly onProgress?: (progress: Readonly<SweepProgress>) => void
  readonly wait?: (ms: number) => Promise<unknown>
  readonly nowMs?: () => number
}

export const MAX_KEYS = 1_000
/** A script begins no more keys after this. */
export const SCRIPT_BUDGET_US = 500
/** Keys of a script, which cannot end early if the server's clock stands still in it: 2.5 ms at 10 µs per key. */
const BATCH = 250

const MIN_WAIT_MS = 100
const MAX_WAIT_MS = 2_000
const GIVE_UP_AFTER_MS = 60_000
const MAX_EXAMPLES = 5

/**
 * Applies a job to every key that matches, in batches. Each key that exists from the beginning to the end is dealt with
 * at least once; keys that come or go meanwhile may be missed.
 * @throws {StoreError} if the server refuses, or does not answer for a minute; the last `onProgress` says where to resume
 */
export async function sweep(options: SweepOptions): Promise<Readonly<SweepProgress>> {
  const { connection, job, match, count = MAX_KEYS, sampleKeys = Number.POSITIVE_INFINITY, signal } = options
  const { onProgress = () => {}, wait, nowMs = () => performance.now() } = options
  const { cursor, tally } = options.from ?? { cursor: '0', tally: NOTHING }
  const share = findShareOfTable(cursor)
  const progress: SweepProgress = { tally: { ...tally }, cursor, share, isComplete: false, pauses: 0, examples: [] }
  const end = new AbortController()
  const stop = AbortSignal.any([end.signal, ...(signal ? [signal] : [])])
  let size = 0
  /** Estimated slots of the key table that this run has passed. */
  let slots = 0
  let isShareKnown = true

  async function sweepPages(): Promise<void> {
    const enough = tally.seen + sampleKeys
    const hasSample = () => progress.tally.seen >= enough || slots >= 10 * sampleKeys
    let next = scanFrom(cursor)
    try {
      while (!stop.aborted && !hasSample() && !progress.isComplete) {
        const page = await next
        // The next page is fetched while this one is processed. Its error is thrown where it is awaited.
        if (page.cursor !== '0') next = scanFrom(page.cursor)
        next.catch(() => {})
        await applyToPage(page)
        if (!stop.aborted) advance(page.cursor)
      }
    } finally {
      end.abort()
      await next.catch(() => {})
    }
  }

  function scanFrom(cursor: string) {
    return awaitAnswer(() => scan(connection, cursor, match, count))
  }

  async function applyToPage({ keys, unnameable }: Awaited<ReturnType<typeof scan>>): Promise<void> {
    add({ seen: unnameable, unnameable })
    progress.examples.push(...keys.slice(0, MAX_EXAMPLES - progress.examples.length).map(String))
    const length = Math.min(BATCH, count)
    const batches = Array.from({ length: Math.ceil(keys.length / length) }, (_, at) =>
      applyToBatch(keys.slice(at * length, (at + 1) * length)),
    )
    const ends = await Promise.allSettled(batches)
    for (const end of ends) if (end.status === 'rejected') throw end.reason
  }

  async function applyToBatch(batch: readonly KeyName[]): Promise<void> {
    let rest = batch
    let length = batch.length
    while (rest.length > 0 && !stop.aborted) {
      const keys = rest.slice(0, length)
      const { changed, kept, gone, us } = await awaitAnswer(() => job.apply(connection, keys, SCRIPT_BUDGET_US))
      const seen = changed + kept + gone
      if (!(seen > 0)) throw createReplyError()
      // The next script gets what this one managed.
      length = seen
      rest = rest.slice(seen)
      if (us !== undefined) progress.longestScriptUs = Math.max(us, progress.longestScriptUs ?? 0)
      add({ seen, changed, kept, gone })
      onProgress(progress)
    }
  }

  function add(found: Partial<Tally>): void {
    for (const [name, count] of Object.entries(found)) progress.tally[name as keyof Tally] += count
  }

  function advance(cursor: string): void {
    slots += count
    const share = cursor === '0' ? 1 : findShareOfTable(cursor)
    // A server other than Redis may count its cursors in another way.
    if (share < progress.share) isShareKnown = false
    progress.share = isShareKnown || cursor === '0' ? share : Math.min(slots / size, 0.99)
    progress.cursor = cursor
    progress.isComplete = cursor === '0'
    onProgress(progress)
  }

  async function awaitAnswer<T>(call: () => Promise<T>): Promise<T> {
    const startedMs = nowMs()
    for (let waitMs = MIN_WAIT_MS; ; waitMs = Math.min(2 * waitMs, MAX_WAIT_MS)) {
      try {
        const answer = await call()
        progress.waitsFor = undefined
        return answer
      } catch (error) {
        if (!isPassing(error) || stop.aborted || nowMs() - startedMs > GIVE_UP_AFTER_MS) throw error
        if (waitMs === MIN_WAIT_MS) progress.pauses++
        progress.waitsFor = error.message
        onProgress(progress)
        await (wait ? wait(waitMs) : setTimeout(waitMs, undefined, { signal: stop }).catch(() => {}))
      }
    }
  }

  try {
    await awaitAnswer(() => refuseCluster(connection))
    size = await awaitAnswer(() => countKeys(connection))
    await sweepPages()
  } catch (error) {
    // Calls in flight at a stop may fail.
    if (!signal?.aborted || !isPassing(error)) throw error
  }
  return progress
}

/**
 * Share of the key table that is passed at `cursor`, 0 to 1. SCAN counts from the highest bit of the cursor, so its bits,
 * read from the lowest, are the binary digits of this share, whatever the size of the table is or becomes.
 * https://github.com/redis/redis/blob/7.0/src/dict.c (dictScan)
 */
export function findShareOfTable(cursor: string): number {
  let bits = BigInt(cursor)
  let share = 0
  for (let weight = 0.5; bits > 0n; bits >>= 1n, weight /= 2) if (bits & 1n) share += weight
  return share
}

/** A call without an answer, too, may succeed later. */
function isPassing(error: unknown): error is DatabaseError {
  return error instanceof DatabaseError && (error.words === '' || PASSING.test(error.words))
}
