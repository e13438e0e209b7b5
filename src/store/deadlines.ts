export const TOO_LATE = Symbol('too late')

interface Wait {
  readonly timeoutMs: number
  dueAtMs: number
  readonly giveUp: () => void
}

/**
 * The deadlines of one request, on one timer, because setting and clearing a timer costs more than anything else in a
 * wait. It stays set when a wait ends, and is set again only if it fires before the next deadline. On Workers, two
 * requests cannot share it: the timer of one must not resume another.
 */
export class Deadlines {
  readonly #waits = new Set<Wait>()
  #timer: ReturnType<typeof setTimeout> | undefined
  #firesAtMs = 0
  #isOver = false

  /** For a single wait. */
  static ofOne(): Deadlines {
    const deadlines = new Deadlines()
    deadlines.end()
    return deadlines
  }

  /**
   * Waits for work, but no longer than `timeoutMs` milliseconds. The work itself goes on until the end of the request
   * that it belongs to: ending it at once would take a signal, which costs more to set up than the wait.
   * @returns what the work resolves to, or `TOO_LATE`. @throws whatever the work throws in time
   */
  within<T>(timeoutMs: number, work: Promise<T>): Promise<T | typeof TOO_LATE> {
    return new Promise((resolve, reject) => {
      const wait: Wait = { timeoutMs, dueAtMs: Date.now() + timeoutMs, giveUp: () => resolve(TOO_LATE) }
      this.#waits.add(wait)
      this.#arm(timeoutMs, wait.dueAtMs)
      work.then(
        (value) => {
          this.#remove(wait)
          resolve(value)
        },
        (error) => {
          this.#remove(wait)
          reject(error)
        },
      )
    })
  }

  /**
   * The response is made. What is still waited for keeps its deadline, and the timer is cleared after the last of it.
   */
  end(): void {
    this.#isOver = true
    this.#disarmIfIdle()
  }

  #arm(timeoutMs: number, dueAtMs: number): void {
    if (this.#timer !== undefined && this.#firesAtMs <= dueAtMs) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#fire(), timeoutMs)
    this.#firesAtMs = dueAtMs
  }

  #fire(): void {
    this.#timer = undefined
    const nowMs = Date.now()
    for (const wait of this.#waits) {
      // A clock that was set back must not keep it waiting.
      wait.dueAtMs = Math.min(wait.dueAtMs, nowMs + wait.timeoutMs)
      if (wait.dueAtMs > nowMs) this.#arm(wait.dueAtMs - nowMs, wait.dueAtMs)
      else {
        this.#waits.delete(wait)
        wait.giveUp()
      }
    }
  }

  #remove(wait: Wait): void {
    this.#waits.delete(wait)
    if (this.#isOver) this.#disarmIfIdle()
  }

  #disarmIfIdle(): void {
    if (this.#waits.size > 0) return
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}
