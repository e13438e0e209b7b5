import { setTimeout } from 'node:timers/promises'
import { CLUSTER_IS_NOT_SUPPORTED, type Database, DatabaseError, type KeyName } from './database.ts'
import type { Job } from './jobs.ts'
import { LONGEST_SCRIPT_US, Pace, SCRIPT_BUDGET_US } from './pace.ts'
import { shareOfTable } from './share-of-table.ts'

/** Where an iteration stands. Cursors are good for one process of Redis: another one orders its keys otherwise. */
export interface Position {
  /** All keys before it have been dealt with; `0`: none. */
  readonly cursor: string
  /** The process, if the server tells. */
  readonly serverId: string | undefined
}

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

export interface Progress {
  readonly tally: Tally
  readonly position: Position
  /** Of the table of keys that has been passed, 0 to 1. */
  readonly share: number
  /** Why nothing goes on, or undefined. */
  readonly waitsFor: string | undefined
}

export interface Summary extends Progress {
  /** Every key that was there all the time has been dealt with. */
  readonly isComplete: boolean
  /** Of the server, for one script; undefined where it tells none. */
  readonly longestScriptUs: number | undefined
  readonly pauses: number
  /** How often it began anew, as another process of Redis answered. */
  readonly restarts: number
  /** Some of the keys that it was found to match, as text. */
  readonly examples: readonly string[]
}

export interface SweepOptions {
  readonly database: Database
  readonly job: Job
  /** Glob pattern of Redis. */
  readonly match: string
  /** Keys of one SCAN and of one script at most, 1 to 1000. */
  readonly count?: number
  /** Default: the beginning. */
  readonly from?: Position
  /** What earlier runs have counted. */
  readonly tally?: Tally
  /** Stops after so many matching keys, or ten times as many others. */
  readonly sampleKeys?: number
  /** Lets what is under way end, and stops. */
  readonly signal?: AbortSignal
  readonly onProgress?: (progress: Progress) => void
  /** Waits; for tests. */
  readonly wait?: (ms: number) => Promise<unknown>
  readonly nowMs?: () => number
}

const FIRST_WAIT_MS = 100
const LONGEST_WAIT_MS = 2_000
/** A slow server is left alone for so long, and then asked for one more page. */
const LONGEST_PAUSE_MS = 10_000
/** A server that has not answered for so long is given up. */
const GIVE_UP_AFTER_MS = 60_000
const READ_SLOW_LOG_EVERY_MS = 1_000
const EXAMPLES = 5

/**
 * Applies a job to every key that matches, in batches. Each key that is there from the beginning to the end is dealt with,
 * at least once; of those that come or go meanwhile, none is promised.
 * @throws DatabaseError if the server refuses, or stays away for a minute; `onProgress` has told where to go on
 */
export function sweep(options: SweepOptions): Promise<Summary> {
  return new Sweep(options).run()
}

interface OpenPage {
  /** After it. */
  readonly cursor: string
  left: number
}

class Sweep {
  readonly #options: SweepOptions
  readonly #database: Database
  readonly #pace: Pace
  readonly #wait: (ms: number) => Promise<unknown>
  readonly #nowMs: () => number
  readonly #stop = new AbortController()
  readonly #underWay = new Set<Promise<void>>()
  /** In the order of the iteration; the first of them has keys that are not dealt with. */
  #pages: OpenPage[] = []
  #cursor: string
  #serverId: string | undefined
  #tally: Tally
  #share = 0
  /** Slots of the table that were asked for, in this run. */
  #slots = 0
  #size = 0
  #cursorsTellShare = true
  #failure: unknown
  #mayBeAnotherServer = false
  #waitsFor: string | undefined
  #longestScriptUs: number | undefined
  #pauses = 0
  #restarts = 0
  readonly #examples: string[] = []
  #slowLog: { readAtMs: number; lastId: number } | undefined

  constructor(options: SweepOptions) {
    this.#options = options
    this.#database = options.database
    this.#pace = new Pace(options.count)
    this.#nowMs = options.nowMs ?? (() => performance.now())
    this.#wait = options.wait ?? ((ms) => setTimeout(ms, undefined, { signal: this.#stop.signal }).catch(() => {}))
    this.#cursor = options.from?.cursor ?? '0'
    this.#tally = options.tally ?? NOTHING
  }

  async run(): Promise<Summary> {
    const { signal, from } = this.#options
    const stop = () => this.#stop.abort()
    signal?.addEventListener('abort', stop)
    if (signal?.aborted) stop()
    try {
      this.#serverId = await this.#patiently(() => readServerId(this.#database))
      await this.#patiently(() => refuseCluster(this.#database))
      this.#size = await this.#patiently(() => this.#database.size())
      if (from?.serverId !== undefined && from.serverId !== this.#serverId) this.#startAnew()
      this.#share = shareOfTable(this.#cursor)
      await this.#learnSlowLog()
      const isComplete = await this.#iterate()
      return { ...this.#progress(), isComplete, ...this.#findings() }
    } finally {
      stop()
      await Promise.all(this.#underWay)
      signal?.removeEventListener('abort', stop)
    }
  }

  /** Answers whether it has come to the end. */
  async #iterate(): Promise<boolean> {
    let cursor = this.#cursor
    do {
      const page = await this.#nextPage(cursor)
      if (!page) break
      if (this.#mayBeAnotherServer && (await this.#isAnotherServer())) {
        this.#startAnew()
        cursor = '0'
        continue
      }
      cursor = page.cursor
      await this.#deal(page)
      if (cursor !== '0') continue
      await this.#settle()
      if (this.#hasStopped || !(await this.#isAnotherServer())) return this.#pages.length === 0
      this.#startAnew()
      cursor = '0'
    } while (!this.#hasStopped && !this.#hasSample)
    await this.#settle()
    return false
  }

  /** Waits for what is under way. */
  async #settle(): Promise<void> {
    await Promise.all(this.#underWay)
    if (this.#failure !== undefined) throw this.#failure
  }

  get #hasStopped(): boolean {
    return this.#stop.signal.aborted
  }

  get #hasSample(): boolean {
    const { sampleKeys } = this.#options
    return sampleKeys !== undefined && (this.#tally.seen >= sampleKeys || this.#slots >= 10 * sampleKeys)
  }

  /** Undefined once stopped. */
  async #nextPage(cursor: string) {
    await this.#letServerRest()
    if (this.#hasStopped) return undefined
    const { count } = this.#pace
    return this.#orStopped(() =>
      this.#patiently(async () => {
        const sentAtMs = this.#nowMs()
        const page = await this.#database.scan(cursor, this.#options.match, count)
        this.#pace.answered(this.#nowMs() - sentAtMs)
        this.#slots += count
        return page
      }),
    )
  }

  /** Hands the keys of a page on, and waits until fewer batches are under way than may be. */
  async #deal({ cursor, keys, unnameable }: { cursor: string; keys: readonly KeyName[]; unnameable: number }) {
    const page: OpenPage = { cursor, left: keys.length }
    this.#pages.push(page)
    this.#add({ seen: unnameable, unnameable })
    for (const key of keys.slice(0, EXAMPLES - this.#examples.length)) this.#examples.push(String(key))
    for (let first = 0; first < keys.length && !this.#hasStopped; ) {
      const batch = keys.slice(first, first + this.#pace.batch)
      first += batch.length
      this.#launch(batch, page)
      if (this.#underWay.size >= this.#database.inFlight) await Promise.race(this.#underWay)
    }
    this.#advance()
  }

  #launch(batch: readonly KeyName[], page: OpenPage): void {
    const applied: Promise<void> = this.#apply(batch, page)
      .catch((error) => {
        this.#failure ??= error
        this.#stop.abort()
      })
      .finally(() => this.#underWay.delete(applied))
    this.#underWay.add(applied)
  }

  async #apply(batch: readonly KeyName[], page: OpenPage): Promise<void> {
    for (let rest = batch; rest.length > 0; ) {
      const keys = rest
      const done = await this.#orStopped(() =>
        this.#patiently(() => this.#options.job.apply(this.#database, keys, SCRIPT_BUDGET_US)),
      )
      if (!done) return
      const { changed, kept, gone, us } = done
      const seen = changed + kept + gone
      if (!(seen > 0)) throw new DatabaseError('Redis answered something other than numbers of keys', false)
      this.#pace.ran(seen, us)
      if (us !== undefined) this.#longestScriptUs = Math.max(us, this.#longestScriptUs ?? 0)
      this.#add({ seen, changed, kept, gone })
      page.left -= seen
      rest = rest.slice(seen)
    }
    this.#advance()
  }

  /** Passes all pages that are dealt with, up to the first that is not. */
  #advance(): void {
    while (this.#pages[0]?.left === 0) {
      const { cursor } = this.#pages.shift() as OpenPage
      this.#cursor = cursor
      this.#share = this.#shareAt(cursor)
    }
    this.#tell()
  }

  #shareAt(cursor: string): number {
    if (cursor === '0') return 1
    const share = /^\d+$/.test(cursor) ? shareOfTable(cursor) : 0
    // Something that is no Redis may count otherwise.
    if (share < this.#share) this.#cursorsTellShare = false
    if (this.#cursorsTellShare) return share
    return Math.min(this.#slots / Math.max(this.#size, 1), 0.99)
  }

  #startAnew(): void {
    this.#restarts++
    this.#pages = []
    this.#cursor = '0'
    this.#share = 0
    this.#cursorsTellShare = true
  }

  async #isAnotherServer(): Promise<boolean> {
    this.#mayBeAnotherServer = false
    const serverId = await this.#patiently(() => readServerId(this.#database))
    const isAnother = serverId !== this.#serverId
    this.#serverId = serverId
    return isAnother
  }

  /** Repeats a call until it is answered. */
  async #patiently<T>(call: () => Promise<T>): Promise<T> {
    const startedMs = this.#nowMs()
    for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(2 * waitMs, LONGEST_WAIT_MS)) {
      try {
        const answer = await call()
        this.#waitsFor = undefined
        return answer
      } catch (error) {
        if (!(error instanceof DatabaseError && error.isPassing) || this.#hasStopped) throw error
        if (this.#nowMs() - startedMs > GIVE_UP_AFTER_MS) throw error
        this.#mayBeAnotherServer = true
        this.#waitsFor = error.message
        this.#tell()
      }
      await this.#wait(waitMs)
    }
  }

  /** What was under way when it was stopped need not succeed. */
  async #orStopped<T>(call: () => Promise<T>): Promise<T | undefined> {
    try {
      return await call()
    } catch (error) {
      if (this.#hasStopped && error instanceof DatabaseError && error.isPassing) return undefined
      throw error
    }
  }

  async #letServerRest(): Promise<void> {
    const hasSlowCommands = await this.#readSlowLog()
    if (!hasSlowCommands && !this.#pace.isSlow) return
    this.#pauses++
    const startedMs = this.#nowMs()
    let waitMs = FIRST_WAIT_MS
    do {
      this.#waitsFor = 'the server is slow'
      this.#tell()
      await this.#wait(waitMs)
      if (this.#hasStopped) break
      waitMs = Math.min(2 * waitMs, LONGEST_WAIT_MS)
      await this.#patiently(async () => {
        const sentAtMs = this.#nowMs()
        await this.#database.ping()
        this.#pace.answered(this.#nowMs() - sentAtMs)
      })
    } while (this.#pace.isSlow && this.#nowMs() - startedMs < LONGEST_PAUSE_MS)
    this.#waitsFor = undefined
  }

  async #learnSlowLog(): Promise<void> {
    const commands = await this.#patiently(() => this.#database.slowCommands())
    if (commands) this.#slowLog = { readAtMs: this.#nowMs(), lastId: commands[0]?.id ?? -1 }
  }

  /** Answers whether others have sent slow commands; slow ones of ours make batches smaller. */
  async #readSlowLog(): Promise<boolean> {
    const log = this.#slowLog
    if (!log || this.#nowMs() - log.readAtMs < READ_SLOW_LOG_EVERY_MS) return false
    const commands = await this.#patiently(() => this.#database.slowCommands())
    log.readAtMs = this.#nowMs()
    const lastId = commands?.[0]?.id ?? -1
    // It was reset, or is another server's.
    if (lastId < log.lastId) log.lastId = -1
    const tooLong = (commands ?? []).filter(({ id, us }) => id > log.lastId && us > LONGEST_SCRIPT_US)
    log.lastId = lastId
    if (tooLong.some(({ isOurs }) => isOurs)) this.#pace.tookTooLong()
    return tooLong.some(({ isOurs }) => !isOurs)
  }

  #add(found: Partial<Tally>): void {
    const { seen, changed, kept, gone, unnameable } = this.#tally
    this.#tally = {
      seen: seen + (found.seen ?? 0),
      changed: changed + (found.changed ?? 0),
      kept: kept + (found.kept ?? 0),
      gone: gone + (found.gone ?? 0),
      unnameable: unnameable + (found.unnameable ?? 0),
    }
  }

  #tell(): void {
    this.#options.onProgress?.(this.#progress())
  }

  #progress(): Progress {
    return {
      tally: this.#tally,
      position: { cursor: this.#cursor, serverId: this.#serverId },
      share: this.#share,
      waitsFor: this.#waitsFor,
    }
  }

  #findings() {
    return {
      longestScriptUs: this.#longestScriptUs,
      pauses: this.#pauses,
      restarts: this.#restarts,
      examples: this.#examples,
    }
  }
}

/** Of the process that answers; undefined where the server tells none. */
async function readServerId(database: Database): Promise<string | undefined> {
  return (await database.info('server'))?.get('run_id')
}

async function refuseCluster(database: Database): Promise<void> {
  if ((await database.info('cluster'))?.get('cluster_enabled') === '1') {
    throw new DatabaseError(CLUSTER_IS_NOT_SUPPORTED, false)
  }
}
