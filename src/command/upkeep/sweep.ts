import { setTimeout } from 'node:timers/promises'
import { StoreError } from '../../model/store.ts'
import { DatabaseError } from '../redis/connection.ts'
import type { Database, Job, KeyName, Page } from './database.ts'

/** Keys, counted once for each time that SCAN has answered them, which may be more than once. */
export interface Tally {
  readonly seen: number
  readonly changed: number
  readonly kept: number
  readonly gone: number
  /** Not looked at: their names are not text, and the connection carries only text. */
  readonly unnameable: number
}

export const NOTHING: Tally = { seen: 0, changed: 0, kept: 0, gone: 0, unnameable: 0 }

/** How far a run has come; it changes as the run goes on. */
export interface Progress {
  tally: Tally
  /** All keys before it have been dealt with; `0`: none. */
  cursor: string
  /** Share of the table of keys that has been passed, 0 to 1. */
  share: number
  /** Every key that was there all the time has been dealt with. */
  isComplete: boolean
  /** Why nothing goes on, or undefined. */
  waitsFor?: string | undefined
  /** By the server's clock; undefined where it tells none. */
  longestScriptUs?: number
  /** How often it waited because the server was slow. */
  pauses: number
  /** Some of the keys found, as text. */
  readonly examples: string[]
}

export interface SweepOptions {
  readonly database: Database
  readonly job: Job
  /** Glob pattern of Redis. */
  readonly match: string
  /** Keys of one SCAN and of one script at most, 1 to 1000. */
  readonly count?: number | undefined
  /** What earlier runs have passed and counted. */
  readonly from?: Pick<Progress, 'cursor' | 'tally'> | undefined
  /** Stops after so many matching keys, or ten times as many others. */
  readonly sampleKeys?: number | undefined
  /** Lets what is under way end, and stops. */
  readonly signal?: AbortSignal
  readonly onProgress?: (progress: Readonly<Progress>) => void
  /** Waits; for tests. */
  readonly wait?: (ms: number) => Promise<unknown>
  readonly nowMs?: () => number
}

export const MAX_KEYS = 1_000
/** After it, a script begins no more keys: what is left goes into another one. */
export const SCRIPT_BUDGET_US = 500
/** Where the server's clock stands still in a script: 2.5 ms if a key takes 10 µs, some five times what Redis needs. */
const MAX_BATCH_WITHOUT_CLOCK = 250

const MIN_WAIT_MS = 100
const MAX_WAIT_MS = 2_000
/** A server that has not answered for so long is given up. */
const GIVE_UP_AFTER_MS = 60_000

/** An answer is slow if it takes so much longer than the quickest one, by both measures. */
const SLOW_FACTOR = 4
const SLOW_BY_MS = 50
/** One slow answer is the network's, or our own; so many in a row are the server's. */
const SLOW_IN_A_ROW = 3
/** A slow server is left alone for so long, and then asked for one more page. */
const MAX_PAUSE_MS = 10_000

const MAX_EXAMPLES = 5

/**
 * Applies a job to every key that matches, in batches. Each key that is there from the beginning to the end is dealt with,
 * at least once; of those that come or go meanwhile, none is promised.
 * @throws {StoreError} if the server refuses, or stays away for a minute; `onProgress` has told where to go on
 */
export function sweep(options: SweepOptions): Promise<Readonly<Progress>> {
  return new Sweep(options).run()
}

class Sweep {
  readonly #options: SweepOptions
  readonly #database: Database
  readonly #progress: Progress
  readonly #count: number
  /** Nothing goes on after the end, nor once it is told to stop. */
  readonly #end = new AbortController()
  readonly #signal: AbortSignal
  #batch: number
  #size = 0
  /** Slots of the table that this run has passed. */
  #slots = 0
  #cursorsTellShare = true
  #quickestMs = Number.POSITIVE_INFINITY
  #slowInARow = 0

  constructor(options: SweepOptions) {
    const { database, count = MAX_KEYS, from: { cursor, tally } = { cursor: '0', tally: NOTHING }, signal } = options
    this.#options = options
    this.#database = database
    this.#count = count
    this.#batch = Math.min(MAX_BATCH_WITHOUT_CLOCK, count)
    this.#progress = { tally, cursor, share: shareOfTable(cursor), isComplete: false, pauses: 0, examples: [] }
    this.#signal = AbortSignal.any([this.#end.signal, ...(signal ? [signal] : [])])
  }

  async run(): Promise<Progress> {
    try {
      await this.#patiently(() => this.#database.refuseCluster())
      this.#size = await this.#patiently(() => this.#database.size())
      await this.#iterate()
    } catch (error) {
      // What was under way when it was stopped need not succeed.
      if (!this.#options.signal?.aborted || !isPassing(error)) throw error
    }
    return this.#progress
  }

  async #iterate(): Promise<void> {
    let next = this.#scan(this.#progress.cursor)
    try {
      while (!this.#signal.aborted && !this.#hasSample && !this.#progress.isComplete) {
        const page = await next
        // The next page is on its way while the keys of this one are dealt with. An error is thrown where it is awaited.
        if (page.cursor !== '0') next = this.#scan(page.cursor)
        next.catch(() => {})
        await this.#deal(page)
        if (!this.#signal.aborted) this.#pass(page.cursor)
      }
    } finally {
      this.#end.abort()
      await next.catch(() => {})
    }
  }

  get #hasSample(): boolean {
    const { sampleKeys = Number.POSITIVE_INFINITY } = this.#options
    return this.#progress.tally.seen >= sampleKeys || this.#slots >= 10 * sampleKeys
  }

  async #scan(cursor: string): Promise<Page> {
    if (this.#isSlow) await this.#letServerRest()
    return this.#patiently(() => this.#timed(() => this.#database.scan(cursor, this.#options.match, this.#count)))
  }

  async #deal({ keys, unnameable }: Page): Promise<void> {
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
    const ends = await Promise.allSettled(Array.from({ length: this.#database.inFlight }, work))
    for (const end of ends) if (end.status === 'rejected') throw end.reason
  }

  async #apply(batch: readonly KeyName[]): Promise<void> {
    for (let rest = batch; rest.length > 0; ) {
      const keys = rest
      const done = await this.#patiently(() => this.#options.job.apply(this.#database, keys, SCRIPT_BUDGET_US))
      const { changed, kept, gone, us } = done
      const seen = changed + kept + gone
      if (!(seen > 0)) throw new DatabaseError('Redis answered something other than numbers of keys')
      // As many as the last script has managed, twice as many after one that has managed all.
      const batch = seen < keys.length ? seen : 2 * this.#batch
      this.#batch = Math.min(batch, this.#count, us === undefined ? MAX_BATCH_WITHOUT_CLOCK : MAX_KEYS)
      if (us !== undefined) this.#progress.longestScriptUs = Math.max(us, this.#progress.longestScriptUs ?? 0)
      this.#add({ seen, changed, kept, gone })
      this.#tell()
      rest = rest.slice(seen)
    }
  }

  /** All keys before this cursor have been dealt with. */
  #pass(cursor: string): void {
    this.#slots += this.#count
    const share = cursor === '0' ? 1 : shareOfTable(cursor)
    // Something that is no Redis may count otherwise.
    if (share < this.#progress.share) this.#cursorsTellShare = false
    const isTold = this.#cursorsTellShare || cursor === '0'
    this.#progress.share = isTold ? share : Math.min(this.#slots / this.#size, 0.99)
    this.#progress.cursor = cursor
    this.#progress.isComplete = cursor === '0'
    this.#tell()
  }

  /** Repeats a call until it is answered. */
  async #patiently<T>(call: () => Promise<T>): Promise<T> {
    const startedMs = this.#nowMs()
    for (let waitMs = MIN_WAIT_MS; ; waitMs = Math.min(2 * waitMs, MAX_WAIT_MS)) {
      try {
        const answer = await call()
        this.#progress.waitsFor = undefined
        return answer
      } catch (error) {
        if (!isPassing(error) || this.#signal.aborted || this.#nowMs() - startedMs > GIVE_UP_AFTER_MS) throw error
        await this.#wait(waitMs, error.message)
      }
    }
  }

  async #letServerRest(): Promise<void> {
    this.#progress.pauses++
    const startedMs = this.#nowMs()
    let waitMs = MIN_WAIT_MS
    while (this.#isSlow && !this.#signal.aborted && this.#nowMs() - startedMs < MAX_PAUSE_MS) {
      await this.#wait(waitMs, 'the server is slow')
      waitMs = Math.min(2 * waitMs, MAX_WAIT_MS)
      await this.#patiently(() => this.#timed(() => this.#database.ping()))
    }
  }

  get #isSlow(): boolean {
    return this.#slowInARow >= SLOW_IN_A_ROW
  }

  async #timed<T>(call: () => Promise<T>): Promise<T> {
    const sentAtMs = this.#nowMs()
    const answer = await call()
    const ms = this.#nowMs() - sentAtMs
    this.#quickestMs = Math.min(this.#quickestMs, ms)
    const isSlow = ms > this.#quickestMs * SLOW_FACTOR && ms > this.#quickestMs + SLOW_BY_MS
    this.#slowInARow = isSlow ? this.#slowInARow + 1 : 0
    return answer
  }

  #nowMs(): number {
    return this.#options.nowMs?.() ?? performance.now()
  }

  async #wait(ms: number, reason: string): Promise<void> {
    this.#progress.waitsFor = reason
    this.#tell()
    const { wait } = this.#options
    await (wait ? wait(ms) : setTimeout(ms, undefined, { signal: this.#signal }).catch(() => {}))
  }

  #add(found: Partial<Tally>): void {
    const entries = Object.entries(this.#progress.tally).map(([name, sum]) => [
      name,
      sum + (found[name as keyof Tally] ?? 0),
    ])
    this.#progress.tally = Object.fromEntries(entries)
  }

  #tell(): void {
    this.#options.onProgress?.(this.#progress)
  }
}

/**
 * How much of Redis's table of keys an iteration has passed that stands at `cursor`, from 0 to 1. SCAN goes through the
 * table by counting from the highest bit of the cursor, so its bits, read from the lowest, are those of this share,
 * whatever the size of the table is or becomes. https://github.com/redis/redis/blob/7.0/src/dict.c (dictScan)
 */
export function shareOfTable(cursor: string): number {
  let bits = BigInt(cursor)
  let share = 0
  for (let weight = 0.5; bits > 0n; bits >>= 1n, weight /= 2) if (bits & 1n) share += weight
  return share
}

/** Whether the same call may succeed later; one to which no answer came has another type. */
function isPassing(error: unknown): error is StoreError {
  return error instanceof DatabaseError ? error.isPassing : error instanceof StoreError
}
