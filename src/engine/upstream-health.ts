import type { Priority } from '../model/policy.ts'
import { advance, initialShedState, type LoadSignals, type ShedState, shedShare } from './shed-level.ts'

/** What this isolate sees of the upstream, and whom it refuses to protect it. */
export class UpstreamHealth {
  readonly #now: () => number
  readonly #signs: CallerSignals
  #state: ShedState
  /** For each class, the part of a request that is still to be shed, so that shares do not depend on chance. */
  readonly #carry: Record<Priority, number> = { critical: 0, default: 0, sheddable: 0 }

  /** @param now milliseconds since the Unix epoch, never less than before */
  constructor(now: () => number) {
    this.#now = now
    const nowMs = now()
    this.#signs = new CallerSignals(nowMs)
    this.#state = initialShedState(nowMs)
  }

  /** 0 (nothing is shed) to 2 (all but what is critical). */
  get level(): number {
    return this.#state.level
  }

  /** Whether to refuse the next request of this class. */
  sheds(priority: Priority): boolean {
    this.#advance()
    const carry = this.#carry[priority] + shedShare(this.#state, priority)
    const isShed = carry >= 1
    this.#carry[priority] = isShed ? carry - 1 : carry
    return isShed
  }

  /**
   * A request goes to the upstream.
   * @param caller whose it is: what one caller cannot change at will, such as its address
   * @returns to be called once, when its answer has begun or failed
   */
  begin(caller: string): (isOverload: boolean) => void {
    const end = this.#signs.begin(caller, this.#advance())
    return (isOverload) => end(this.#advance(), isOverload)
  }

  #advance(): number {
    const nowMs = this.#now()
    this.#state = advance(this.#state, this.#signs, nowMs)
    return nowMs
  }
}

/**
 * What requests say about the upstream, in a fixed number of cells. A network counts in the cell that its name falls
 * into, and the median of the cells is told: to move it, it takes networks in half of them, however much each sends.
 */

const CELLS = 64
/** Fewer cells than this say nothing: two callers must not have a third one shed. */
const MIN_AGREEING = 3
/** How far a cell follows each of its answers. */
const OVERLOAD_WEIGHT = 1 / 4
const LATENCY_WEIGHT = 1 / 2
/** How far it follows its requests in flight at each tick, once it has seen a few. */
const IN_FLIGHT_WEIGHT = 1 / 2
/** What a cell keeps of overloads at each tick: they must not count on when nothing is let through to disprove them. */
const OVERLOAD_KEPT = 0.95
/** A cell that was not heard of for so many ticks says nothing: a minute, so that those who come seldom count. */
const MEMORY_TICKS = 240

interface Cell {
  inFlight: number
  /** How long requests were in flight in this tick, up to `countedMs`: two at once count twice. */
  busyMs: number
  countedMs: number
  /** Requests in flight on average, of late; and over how many ticks. */
  usualInFlight: number
  ticks: number
  overloadShare: number
  latencyMs: number | undefined
  seenTick: number
}

export class CallerSignals {
  readonly #cells: (Cell | undefined)[] = Array(CELLS).fill(undefined)
  #tick = 0
  #startMs: number
  #answers = 0
  #overloads = 0

  constructor(nowMs: number) {
    this.#startMs = nowMs
  }

  /** @returns to be called with the caller's answer */
  begin(caller: string, nowMs: number): (endMs: number, isOverload: boolean) => void {
    const cell = this.#cellOf(caller, nowMs)
    count(cell, nowMs)
    cell.inFlight++
    cell.seenTick = this.#tick
    return (endMs, isOverload) => {
      count(cell, endMs)
      cell.inFlight--
      cell.seenTick = this.#tick
      cell.overloadShare += (Number(isOverload) - cell.overloadShare) * OVERLOAD_WEIGHT
      const latencyMs = endMs - nowMs
      cell.latencyMs ??= latencyMs
      cell.latencyMs += (latencyMs - cell.latencyMs) * LATENCY_WEIGHT
      this.#answers++
      if (isOverload) this.#overloads++
    }
  }

  /** The signs of the tick that ends. */
  take(nowMs: number): LoadSignals {
    this.#tick++
    const tickMs = Math.max(1, nowMs - this.#startMs)
    this.#startMs = nowMs
    const known = this.#cells.filter((cell) => cell !== undefined && this.#isKnown(cell)) as Cell[]
    for (const cell of known) {
      count(cell, nowMs)
      cell.ticks++
      const weight = Math.max(IN_FLIGHT_WEIGHT, 1 / cell.ticks)
      cell.usualInFlight += (cell.busyMs / tickMs - cell.usualInFlight) * weight
      cell.busyMs = 0
      cell.overloadShare *= OVERLOAD_KEPT
    }
    // What nobody sees any more is over, whatever the cells still say.
    const latestShare = this.#overloads / Math.max(1, this.#answers)
    this.#answers = 0
    this.#overloads = 0
    return {
      total: known.reduce((sum, { inFlight }) => sum + inFlight, 0),
      inFlight: (agreed(known.map(({ usualInFlight }) => usualInFlight)) ?? 0) * known.length,
      overloadShare: Math.min(latestShare, agreed(known.map(({ overloadShare }) => overloadShare)) ?? 0),
      latencyMs: agreed(known.flatMap(({ latencyMs }) => latencyMs ?? [])),
    }
  }

  #isKnown({ inFlight, seenTick }: Cell): boolean {
    return inFlight > 0 || this.#tick - seenTick <= MEMORY_TICKS
  }

  #cellOf(caller: string, nowMs: number): Cell {
    const at = hashNetwork(readNetwork(caller)) % CELLS
    let cell = this.#cells[at]
    if (!cell) {
      const since = { countedMs: nowMs, seenTick: this.#tick, latencyMs: undefined }
      cell = { inFlight: 0, busyMs: 0, usualInFlight: 0, ticks: 0, overloadShare: 0, ...since }
      this.#cells[at] = cell
    }
    return cell
  }
}

function count(cell: Cell, nowMs: number): void {
  cell.busyMs += cell.inFlight * (nowMs - cell.countedMs)
  cell.countedMs = nowMs
}

/** The median, or less: at least `MIN_AGREEING` are as great. @returns undefined if there are fewer */
function agreed(values: readonly number[]): number | undefined {
  return values.toSorted((a, b) => a - b)[Math.min((values.length - 1) >> 1, values.length - MIN_AGREEING)]
}

/** Of an IPv6 network, the first 48 bits: a site may have as many /64 as it likes. */
function readNetwork(caller: string): string {
  return caller.split(':', 3).join(':')
}

/** FNV-1a: a network has one cell, whatever its name is. */
function hashNetwork(caller: string): number {
  let hash = 0x811c9dc5
  for (let index = 0; index < caller.length; index++) {
    hash = Math.imul(hash ^ caller.charCodeAt(index), 0x01000193)
  }
  return (hash ^ (hash >>> 16)) >>> 0
}
