import { setTimeout } from 'node:timers/promises'
import { StoreError } from '../../model/store.ts'
import { DatabaseError } from '../redis/connection.ts'
import type { Database, Job, KeyName, Page } from './database.ts'

/** SCAN may return a key more than once; it is counted each time. */
export interface Tally {
  seen: number
  changed: number
  kept: number
  gone: number
  /** Keys left alone because the connection cannot send their names. */
  unnameable: number
}

const NOTHING: Tally = { seen: 0, changed: 0, kept: 0, gone: 0, unnameable: 0 }

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
  readonly database: Database
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
/** A script begins no more keys after this; the next one takes the rest. */
export const SCRIPT_BUDGET_US = 500
/** Limits a script if the server's clock stands still in it: 2.5 ms at 10 µs per key, about five times what Redis needs. */
const MAX_BATCH_WITHOUT_CLOCK = 250

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
  #batch: number
  #size = 0
  /** Estimated slots of the key table that this run has passed. */
  #slots = 0
  #isShareKnown = true

  constructor(options: SweepOptions) {
    const { count = MAX_KEYS, from: { cursor, tally } = { cursor: '0', tally: NOTHING }, signal } = options
    this.#options = options
    this.#count = count
    this.#batch = Math.min(MAX_BATCH_WITHOUT_CLOCK, count)
    const share = findShareOfTable(cursor)
    this.#progress = { tally: { ...tally }, cursor, share, isComplete: false, pauses: 0, examples: [] }
    this.#signal = AbortSignal.any([this.#end.signal, ...(signal ? [signal] : [])])
  }

  async run(): Promise<SweepProgress> {
    const { database, signal } = this.#options
    try {
      await this.#retry(() => database.refuseCluster())
      this.#size = await this.#retry(() => database.countKeys())
      await this.#iterate()
    } catch (error) {
      // Calls in flight at a stop may fail.
      if (!signal?.aborted || !isPassing(error)) throw error
    }
    return this.#progress
  }

  async #iterate(): Promise<void> {
    const { sampleKeys = Number.POSITIVE_INFINITY } = this.#options
    const hasSample = () => this.#progress.tally.seen >= sampleKeys || this.#slots >= 10 * sampleKeys
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

  #scan(cursor: string): Promise<Page> {
    return this.#retry(() => this.#options.database.scan(cursor, this.#options.match, this.#count))
  }

  async #process({ keys, unnameable }: Page): Promise<void> {
    this.#add({ seen: unnameable, unnameable })
    const { examples } = this.#progress
    examples.push(...keys.slice(0, MAX_EXAMPLES - examples.length).map(String))
    let next = 0
    const work = async () => {
      while (next < keys.length && !this.#signal.aborted) {
        const batch = keys.slice(next, next + this.#batch)
        next += batch.length
        await this.#apply(batch)
      }
    }
    const ends = await Promise.allSettled(Array.from({ length: this.#options.database.inFlight }, work))
    for (const end of ends) if (end.status === 'rejected') throw end.reason
  }

  async #apply(batch: readonly KeyName[]): Promise<void> {
    const { database, job } = this.#options
    for (let rest = batch; rest.length > 0; ) {
      const keys = rest
      const { changed, kept, gone, us } = await this.#retry(() => job.apply(database, keys, SCRIPT_BUDGET_US))
      const seen = changed + kept + gone
      if (!(seen > 0)) throw new DatabaseError('unexpected reply from Redis')
      // The next batch has the size that the last script managed, or twice that if it managed all.
      const size = seen < keys.length ? seen : 2 * this.#batch
      this.#batch = Math.min(size, this.#count, us === undefined ? MAX_BATCH_WITHOUT_CLOCK : MAX_KEYS)
      if (us !== undefined) this.#progress.longestScriptUs = Math.max(us, this.#progress.longestScriptUs ?? 0)
      this.#add({ seen, changed, kept, gone })
      this.#report()
      rest = rest.slice(seen)
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

/** A call without an answer throws a plain StoreError, and may succeed later. */
function isPassing(error: unknown): error is StoreError {
  return error instanceof DatabaseError ? error.isPassing : error instanceof StoreError
}
