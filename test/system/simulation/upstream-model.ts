/** An upstream as a queue before a number of workers, in simulated time, and what watches its health. */
import { UpstreamHealth } from '../../../src/core/shedding/upstream-health.ts'

/** Of the hash of networks. */
const SEED = 3

export function createHealth(now: () => number): UpstreamHealth {
  return new UpstreamHealth(now, () => SEED)
}

export interface UpstreamModel {
  /** Workers at this time: how many requests are served at once. */
  readonly workersAt: (ms: number) => number
  /** Time that a worker takes for a request, ms. */
  readonly serviceMs: number
  /** Requests beyond this many in the queue are answered 503 at once. */
  readonly queueLimit: number
}

type Event = { readonly atMs: number; readonly run: () => void }

/** Runs events in the order of their time; each may add others. */
export class Timeline {
  readonly #events: Event[] = []
  nowMs = 0

  watchHealth(): UpstreamHealth {
    return createHealth(() => this.nowMs)
  }

  at(atMs: number, run: () => void): void {
    let [index, end] = [0, this.#events.length]
    while (index < end) {
      const middle = (index + end) >> 1
      if ((this.#events[middle] as Event).atMs > atMs) end = middle
      else index = middle + 1
    }
    this.#events.splice(index, 0, { atMs, run })
  }

  runUntil(endMs: number): void {
    for (;;) {
      const next = this.#events[0]
      if (!next || next.atMs > endMs) break
      this.#events.shift()
      this.nowMs = next.atMs
      next.run()
    }
    this.nowMs = endMs
  }
}

/** Answers requests first come, first served. */
export class SimulatedUpstream {
  readonly #timeline: Timeline
  readonly #model: UpstreamModel
  readonly #queue: ((status: 200 | 503) => void)[] = []
  #busy = 0

  constructor(timeline: Timeline, model: UpstreamModel) {
    this.#timeline = timeline
    this.#model = model
  }

  request(respond: (status: 200 | 503) => void): void {
    if (this.#queue.length >= this.#model.queueLimit) respond(503)
    else this.#queue.push(respond)
    this.#serve()
  }

  #serve(): void {
    while (this.#busy < this.#model.workersAt(this.#timeline.nowMs)) {
      const respond = this.#queue.shift()
      if (!respond) return
      this.#busy++
      this.#timeline.at(this.#timeline.nowMs + this.#model.serviceMs, () => {
        this.#busy--
        respond(200)
        this.#serve()
      })
    }
  }
}
