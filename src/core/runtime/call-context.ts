/** The context of a call: deadlines of the request that makes it, and work that outlives the response. */
export interface CallContext {
  /** Lets work continue after the response. Failures are logged. */
  waitUntil(work: Promise<unknown>): void
  /** Shared by all calls until the response is made. */
  readonly deadlines: Deadlines
  /** Default: those of the runtime. */
  readonly timers?: Timers | undefined
  isClientGone?(): boolean
}

/** The functions that set timers. */
export type Timers = Pick<typeof globalThis, 'setTimeout' | 'clearTimeout' | 'setInterval' | 'clearInterval'>

/** Reports that a request is open that is charged, or holds slots. @returns to be called when it has ended */
export type StartReports = (context: Pick<CallContext, 'waitUntil' | 'timers'>) => () => void

export const TOO_LATE = Symbol('too late')

/** A timer that is so late was held up: by a computation, or because the machine slept. */
const HELD_UP_MS = 20
/** Within this, every host has read what had arrived: Deno, and `fetch` on Node, take several turns of their loops. */
const READ_MS = 50

interface Wait {
  readonly timeoutMs: number
  dueAtMs: number
  isOver: boolean
  readonly giveUp: () => void
}

/**
 * The deadlines of one request, on one timer, because timers are the most expensive part of a wait. It stays set when a
 * wait ends, and is set again only if it fires before the next deadline. On Workers, two requests cannot share it.
 */
export class Deadlines {
  /** Ended waits stay: a request has few, and removing them from a set would take longer. */
  readonly #waits: Wait[] = []
  #timer: ReturnType<typeof setTimeout> | undefined
  #firesAtMs = 0
  #isOver = false
  readonly #timers: Timers

  constructor(timers: Timers = globalThis) {
    this.#timers = timers
  }

  static createForOne(): Deadlines {
    const deadlines = new Deadlines()
    deadlines.end()
    return deadlines
  }

  /**
   * Waits for work, but no longer than `timeoutMs`. The work itself continues: a signal to end it would cost more.
   * @throws the error of the work
   */
  waitWithin<T>(timeoutMs: number, work: Promise<T>): Promise<T | typeof TOO_LATE> {
    return new Promise((resolve, reject) => {
      const giveUp = () => resolve(TOO_LATE)
      const wait: Wait = { timeoutMs, dueAtMs: Date.now() + timeoutMs, isOver: false, giveUp }
      this.#waits.push(wait)
      this.#arm(timeoutMs, wait.dueAtMs)
      work.then(
        (value) => {
          this.#finish(wait)
          resolve(value)
        },
        (error) => {
          this.#finish(wait)
          reject(error)
        },
      )
    })
  }

  /** Called when the response is made. Further waits keep their deadlines; the timer is cleared after the last. */
  end(): void {
    this.#isOver = true
    this.#disarmIfIdle()
  }

  #arm(timeoutMs: number, dueAtMs: number): void {
    if (this.#timer !== undefined && this.#firesAtMs <= dueAtMs) return
    this.#timers.clearTimeout(this.#timer)
    this.#timer = this.#timers.setTimeout(() => this.#fire(), timeoutMs)
    this.#firesAtMs = dueAtMs
  }

  #fire(): void {
    // Timers run before sockets are read: what is waited for may have arrived long ago.
    const nowMs = Date.now()
    if (nowMs > this.#firesAtMs + HELD_UP_MS) {
      this.#timer = this.#timers.setTimeout(() => this.#giveUpDue(), READ_MS)
      this.#firesAtMs = nowMs + READ_MS
    } else this.#giveUpDue()
  }

  #giveUpDue(): void {
    this.#timer = undefined
    const nowMs = Date.now()
    for (const wait of this.#waits) {
      if (wait.isOver) continue
      // A clock that was set back must not keep it waiting.
      wait.dueAtMs = Math.min(wait.dueAtMs, nowMs + wait.timeoutMs)
      if (wait.dueAtMs > nowMs) this.#arm(wait.dueAtMs - nowMs, wait.dueAtMs)
      else {
        this.#finish(wait)
        wait.giveUp()
      }
    }
  }

  #finish(wait: Wait): void {
    wait.isOver = true
    if (this.#isOver) this.#disarmIfIdle()
  }

  #disarmIfIdle(): void {
    if (this.#waits.some(({ isOver }) => !isOver)) return
    this.#timers.clearTimeout(this.#timer)
    this.#timer = undefined
  }
}
