import { setTimeout } from 'node:timers/promises'
import { createReplyError } from '../../store/redis/redis-calls.ts'
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
const SCRIPT_BUDGET_US = 500
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
export function sweep(options: SweepOptions): Promise<Readonly<SweepProgress>> {
  return new Sweep(options).run()
}

class Sweep {
  readonly #options: SweepOptions
  readonly #progress: SweepProgress
  readonly #count: number
  readonly #end = new AbortController()
  readonly #signal: AbortSignal
  #size = 0
  /** Estimated slots of the key table that this run has passed. */
  #slots = 0
  #isShareKnown = true

  constructor(options: SweepOptions) {
    const { count = MAX_KEYS, from: { cursor, tally } = { cursor: '0', tally: NOTHING }, signal } = options
    this.#options = options
    this.#count = count
    const share = findShareOfTable(cursor)
    this.#progress = { tally: { ...tally }, cursor, share, isComplete: false, pauses: 0, examples: [] }
    this.#signal = AbortSignal.any([this.#end.signal, ...(signal ? [signal] : [])])
  }

  async run(): Promise<SweepProgress> {
    const { connection, signal } = this.#options
    try {
      await this.#retry(() => refuseCluster(connection))
      this.#size = await this.#retry(() => countKeys(connection))
      await this.#iterate()
    } catch (error) {
      // Calls in flight at a stop may fail.
      if (!signal?.aborted || !isPassing(error)) throw error
    }
    return this.#progress
  }

  async #iterate(): Promise<void> {
    const { sampleKeys = Number.POSITIVE_INFINITY } = this.#options
    const enough = this.#progress.tally.seen + sampleKeys
    const hasSample = () => this.#progress.tally.seen >= enough || this.#slots >= 10 * sampleKeys
    let next = this.#scan(this.#progress.cursor)
    try {
      while (!this.#signal.aborted && !hasSample() && !this.#progress.isComplete) {
        const page = await next
        // The next page is fetched while this one is processed. Its error is thrown where it is awaited.
        if (page.cursor !== '0') next = this.#scan(page.cursor)
        next.catch(() => {})
        await this.#process(page)
        if (!this.#signal.aborted) this.#advance(page.cursor)
      }
    } finally {
      this.#end.abort()
      await next.catch(() => {})
    }
  }

  #scan(cursor: string) {
    const { connection, match } = this.#options
    return this.#retry(() => scan(connection, cursor, match, this.#count))
  }

  async #process({ keys, unnameable }: Awaited<ReturnType<typeof scan>>): Promise<void> {
    this.#add({ seen: unnameable, unnameable })
    const { examples } = this.#progress
    examples.push(...keys.slice(0, MAX_EXAMPLES - examples.length).map(String))
    const size = Math.min(BATCH, this.#count)
    const batches = Array.from({ length: Math.ceil(keys.length / size) }, (_, at) =>
      this.#apply(keys.slice(at * size, (at + 1) * size)),
    )
    const ends = await Promise.allSettled(batches)
    for (const end of ends) if (end.status === 'rejected') throw end.reason
  }

  async #apply(batch: readonly KeyName[]): Promise<void> {
    const { connection, job } = this.#options
    let rest = batch
    let size = batch.length
    while (rest.length > 0 && !this.#signal.aborted) {
      const keys = rest.slice(0, size)
      const { changed, kept, gone, us } = await this.#retry(() => job.apply(connection, keys, SCRIPT_BUDGET_US))
      const seen = changed + kept + gone
      if (!(seen > 0)) throw createReplyError()
      // The next script gets what this one managed.
      size = seen
      rest = rest.slice(seen)
      if (us !== undefined) this.#progress.longestScriptUs = Math.max(us, this.#progress.longestScriptUs ?? 0)
      this.#add({ seen, changed, kept, gone })
      this.#report()
    }
  }

  #advance(cursor: string): void {
    this.#slots += this.#count
    const share = cursor === '0' ? 1 : findShareOfTable(cursor)
    // A server other than Redis may count its cursors in another way.
    if (share < this.#progress.share) this.#isShareKnown = false
    this.#progress.share = this.#isShareKnown || cursor === '0' ? share : Math.min(this.#slots / this.#size, 0.99)
    this.#progress.cursor = cursor
    this.#progress.isComplete = cursor === '0'
    this.#report()
  }

  async #retry<T>(call: () => Promise<T>): Promise<T> {
    const { wait, nowMs = () => performance.now() } = this.#options
    const startedMs = nowMs()
    for (let waitMs = MIN_WAIT_MS; ; waitMs = Math.min(2 * waitMs, MAX_WAIT_MS)) {
      try {
        const answer = await call()
        this.#progress.waitsFor = undefined
        return answer
      } catch (error) {
        if (!isPassing(error) || this.#signal.aborted || nowMs() - startedMs > GIVE_UP_AFTER_MS) throw error
        if (waitMs === MIN_WAIT_MS) this.#progress.pauses++
        this.#progress.waitsFor = error.message
        this.#report()
        await (wait ? wait(waitMs) : setTimeout(waitMs, undefined, { signal: this.#signal }).catch(() => {}))
      }
    }
  }

  #add(found: Partial<Tally>): void {
    const { tally } = this.#progress
    for (const [name, count] of Object.entries(found)) tally[name as keyof Tally] += count
  }

  #report(): void {
    this.#options.onProgress?.(this.#progress)
  }
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
