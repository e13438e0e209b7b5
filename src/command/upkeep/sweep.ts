/** Walks through all keys of a database by SCAN, and applies a job to those that match. */
import { setTimeout } from 'node:timers/promises'
import { createReplyError } from '../../core/store/redis/redis-calls.ts'
import { type Connection, DatabaseError, PASSING } from '../redis/connection.ts'
import {
  countKeys,
  findShareOfTable,
  type Job,
  type KeyName,
  refuseCluster,
  SCRIPT_BUDGET_US,
  scan,
} from './database.ts'

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
  readonly #count: number
  readonly #progress: SweepProgress
  readonly #end = new AbortController()
  readonly #stop: AbortSignal
  /** Keys of the database when the run began. */
  #size = 0
  /** Estimated slots of the key table that this run has passed. */
  #slots = 0
  #isShareKnown = true

  constructor(options: SweepOptions) {
    const { count = MAX_KEYS, from, signal } = options
    const { cursor, tally } = from ?? { cursor: '0', tally: NOTHING }
    this.#options = options
    this.#count = count
    const share = findShareOfTable(cursor)
    this.#progress = { tally: { ...tally }, cursor, share, isComplete: false, pauses: 0, examples: [] }
    this.#stop = AbortSignal.any([this.#end.signal, ...(signal ? [signal] : [])])
  }

  async run(): Promise<Readonly<SweepProgress>> {
    const { connection, signal } = this.#options
    try {
      await this.#awaitAnswer(() => refuseCluster(connection))
      this.#size = await this.#awaitAnswer(() => countKeys(connection))
      await this.#sweepPages()
    } catch (error) {
      // Calls in flight at a stop may fail.
      if (!signal?.aborted || !isPassing(error)) throw error
    }
    return this.#progress
  }

  async #sweepPages(): Promise<void> {
    const { sampleKeys = Number.POSITIVE_INFINITY } = this.#options
    const { tally, cursor } = this.#progress
    const enough = tally.seen + sampleKeys
    const hasSample = () => tally.seen >= enough || this.#slots >= 10 * sampleKeys
    let next = this.#scanFrom(cursor)
    try {
      while (!this.#stop.aborted && !hasSample() && !this.#progress.isComplete) {
        const page = await next
        // The next page is fetched while this one is processed. Its error is thrown where it is awaited.
        if (page.cursor !== '0') next = this.#scanFrom(page.cursor)
        next.catch(() => {})
        await this.#applyToPage(page)
        if (!this.#stop.aborted) this.#advance(page.cursor)
      }
    } finally {
      this.#end.abort()
      await next.catch(() => {})
    }
  }

  #scanFrom(cursor: string) {
    const { connection, match } = this.#options
    return this.#awaitAnswer(() => scan(connection, cursor, match, this.#count))
  }

  async #applyToPage({ keys, unnameable }: Awaited<ReturnType<typeof scan>>): Promise<void> {
    const { examples } = this.#progress
    this.#add({ seen: unnameable, unnameable })
    examples.push(...keys.slice(0, MAX_EXAMPLES - examples.length).map(String))
    const length = Math.min(BATCH, this.#count)
    const batches = Array.from({ length: Math.ceil(keys.length / length) }, (_, at) =>
      this.#applyToBatch(keys.slice(at * length, (at + 1) * length)),
    )
    const ends = await Promise.allSettled(batches)
    for (const end of ends) if (end.status === 'rejected') throw end.reason
  }

  async #applyToBatch(batch: readonly KeyName[]): Promise<void> {
    const { connection, job, onProgress } = this.#options
    const progress = this.#progress
    let rest = batch
    let length = batch.length
    while (rest.length > 0 && !this.#stop.aborted) {
      const keys = rest.slice(0, length)
      const { changed, kept, gone, us } = await this.#awaitAnswer(() => job.apply(connection, keys, SCRIPT_BUDGET_US))
      const seen = changed + kept + gone
      if (!(seen > 0)) throw createReplyError()
      // The next script gets what this one managed.
      length = seen
      rest = rest.slice(seen)
      if (us !== undefined) progress.longestScriptUs = Math.max(us, progress.longestScriptUs ?? 0)
      this.#add({ seen, changed, kept, gone })
      onProgress?.(progress)
    }
  }

  #add(found: Partial<Tally>): void {
    for (const [name, count] of Object.entries(found)) this.#progress.tally[name as keyof Tally] += count
  }

  #advance(cursor: string): void {
    const progress = this.#progress
    this.#slots += this.#count
    const share = cursor === '0' ? 1 : findShareOfTable(cursor)
    // A server other than Redis may count its cursors in another way.
    if (share < progress.share) this.#isShareKnown = false
    progress.share = this.#isShareKnown || cursor === '0' ? share : Math.min(this.#slots / this.#size, 0.99)
    progress.cursor = cursor
    progress.isComplete = cursor === '0'
    this.#options.onProgress?.(progress)
  }

  /** Repeats a call until it is answered, or the server was silent for a minute. */
  async #awaitAnswer<T>(call: () => Promise<T>): Promise<T> {
    const { onProgress, nowMs = () => performance.now(), wait } = this.#options
    const progress = this.#progress
    const startedMs = nowMs()
    for (let waitMs = MIN_WAIT_MS; ; waitMs = Math.min(2 * waitMs, MAX_WAIT_MS)) {
      try {
        const answer = await call()
        progress.waitsFor = undefined
        return answer
      } catch (error) {
        if (!isPassing(error) || this.#stop.aborted || nowMs() - startedMs > GIVE_UP_AFTER_MS) throw error
        if (waitMs === MIN_WAIT_MS) progress.pauses++
        progress.waitsFor = error.message
        onProgress?.(progress)
        await (wait ? wait(waitMs) : setTimeout(waitMs, undefined, { signal: this.#stop }).catch(() => {}))
      }
    }
  }
}

/** A call without an answer, too, may succeed later. */
function isPassing(error: unknown): error is DatabaseError {
  return error instanceof DatabaseError && (error.words === '' || PASSING.test(error.words))
}
