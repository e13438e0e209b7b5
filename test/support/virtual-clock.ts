import type { Clock } from '../../src/outbound/clock.ts'

interface Timer {
  readonly dueMs: number
  readonly wake: () => void
}

/** A clock that stands still until the test lets it go on, from one timer to the next. */
export class VirtualClock implements Clock {
  #nowMs: number
  readonly #timers = new Set<Timer>()

  constructor(nowMs = 1_700_000_000_000) {
    this.#nowMs = nowMs
  }

  now(): number {
    return this.#nowMs
  }

  after(ms: number, wake: () => void): () => void {
    const timer = { dueMs: this.#nowMs + ms, wake }
    this.#timers.add(timer)
    return () => this.#timers.delete(timer)
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.after(ms, resolve)
    })
  }

  /** Lets time go by, and everything happen that it brings about. */
  async advance(ms: number): Promise<void> {
    const endMs = this.#nowMs + ms
    await this.#fire((dueMs) => dueMs <= endMs)
    this.#nowMs = endMs
  }

  /** Lets time go by until the work is done. @throws if nothing is left that could do it */
  async finish<T>(work: Promise<T>): Promise<T> {
    let isOver = false
    const end = () => {
      isOver = true
    }
    work.then(end, end)
    await this.#fire(() => !isOver)
    if (!isOver) throw new Error('nothing is left to wait for, and the work is not done')
    return work
  }

  async #fire(goesOn: (dueMs: number) => boolean): Promise<void> {
    for (;;) {
      await settled()
      let next: Timer | undefined
      for (const timer of this.#timers) {
        if (!next || timer.dueMs < next.dueMs) next = timer
      }
      if (!next || !goesOn(next.dueMs)) return
      this.#timers.delete(next)
      this.#nowMs = Math.max(this.#nowMs, next.dueMs)
      next.wake()
    }
  }
}

/** Resolves when all that follows without waiting has happened. */
export function settled(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}
