/** A clock, timers and chance that a simulation has to itself. */

/** The simulation begins at midnight, so that windows of the clock begin with it. */
export const START_MS = Date.UTC(2026, 0, 1)

/** Code runs on behalf of an owner, such as an object whose timers keep it in memory. */
export interface Owner {
  /** A timer of its own begins to wait. */
  hold(): void
  /** It waits no more. */
  release(): void
}

interface Event {
  readonly ms: number
  readonly order: number
  /** Undefined once it has run, or is cancelled. */
  run: (() => void) | undefined
  readonly owner: Owner | undefined
  /** Whether it settles promises that someone waits for. */
  readonly isQuiet: boolean
}

/** Taken before anybody puts another one in its place. */
const nextTurn = setImmediate

/**
 * Runs what is due in the order of its time; what is due at once, in the order of the calls. Between two
 * events, the code that awaits promises of the first goes on.
 */
export class VirtualTime {
  nowMs = START_MS
  /** Whose code runs. */
  owner: Owner | undefined
  readonly #heap: Event[] = []
  #order = 0

  /** @param owner whose code it is */
  at(ms: number, run: () => void, owner?: Owner): Event {
    return this.#push({ ms: Math.max(ms, this.nowMs), order: this.#order++, run, owner, isQuiet: false })
  }

  /** Runs what settles no promise, so that none must be awaited after it. */
  quietlyAt(ms: number, run: () => void): void {
    this.#push({ ms: Math.max(ms, this.nowMs), order: this.#order++, run, owner: undefined, isQuiet: true })
  }

  wait(ms: number): Promise<void> {
    return new Promise((resolve) => this.at(this.nowMs + ms, resolve))
  }

  /** @throws whatever an event throws */
  async runUntil(endMs: number): Promise<void> {
    for (let next = this.#heap[0]; next && next.ms <= endMs; next = this.#heap[0]) {
      this.#pop()
      const { run } = next
      if (!run) continue
      next.run = undefined
      this.nowMs = next.ms
      this.owner = next.owner
      run()
      if (!next.isQuiet) await new Promise((resolve) => nextTurn(resolve))
    }
    this.nowMs = endMs
    this.owner = undefined
  }

  /** Stands for the global function of the same name, which `runInVirtualTime` replaces. */
  setTimeout(run: () => void, ms = 0): Event {
    const { owner } = this
    owner?.hold()
    const fire = () => {
      owner?.release()
      run()
    }
    return this.at(this.nowMs + Math.max(1, ms), fire, owner)
  }

  clearTimeout(timer: Event | undefined): void {
    if (!timer?.run) return
    timer.run = undefined
    timer.owner?.release()
  }

  #push(event: Event): Event {
    const heap = this.#heap
    let index = heap.push(event) - 1
    while (index > 0) {
      const parent = (index - 1) >> 1
      if (isBefore(heap[parent] as Event, event)) break
      heap[index] = heap[parent] as Event
      index = parent
    }
    heap[index] = event
    return event
  }

  #pop(): void {
    const heap = this.#heap
    const last = heap.pop() as Event
    if (heap.length === 0) return
    let index = 0
    for (;;) {
      let child = 2 * index + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && isBefore(heap[child + 1] as Event, heap[child] as Event)) child++
      if (isBefore(last, heap[child] as Event)) break
      heap[index] = heap[child] as Event
      index = child
    }
    heap[index] = last
  }
}

function isBefore(a: Event, b: Event): boolean {
  return a.ms < b.ms || (a.ms === b.ms && a.order < b.order)
}

/**
 * Does work with a clock, timers and chance that are virtual, and responses that are read at once: the code that decides
 * knows them as globals. Chance is the same for the same seed.
 */
export async function runInVirtualTime<T>(time: VirtualTime, random: () => number, work: () => Promise<T>): Promise<T> {
  const { now } = Date
  const { random: chance } = Math
  const { setTimeout, clearTimeout, Response } = globalThis
  const { stackTraceLimit } = Error
  // Refused calls fail by the thousand.
  Error.stackTraceLimit = 0
  Date.now = () => Math.floor(time.nowMs)
  Math.random = random
  Object.assign(globalThis, {
    setTimeout: (run: () => void, ms?: number) => time.setTimeout(run, ms),
    clearTimeout: (timer?: Event) => time.clearTimeout(timer),
    Response: { json: readAtOnce },
  })
  try {
    return await work()
  } finally {
    Date.now = now
    Math.random = chance
    Error.stackTraceLimit = stackTraceLimit
    Object.assign(globalThis, { setTimeout, clearTimeout, Response })
  }
}

function readAtOnce(value: unknown) {
  const text = JSON.stringify(value)
  return { status: 200, json: async () => JSON.parse(text) }
}
