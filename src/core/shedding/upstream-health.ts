/** Watches the upstream as this isolate sees it, by networks of which a few cannot bring about that others are shed. */
import type { Priority } from '../model/policy.ts'
import { createSteadyClock } from '../runtime/clocks.ts'
import { drawNumber, hashText } from '../runtime/hash.ts'
import { type LoadSignals, ShedLevel, TICK_MS, updateAverage } from './shed-level.ts'

const CELLS = 64
/**
 * Fewer cells than this signal nothing. While few networks are known, half of the cells would be a few attackers: twenty
 * networks must not cause the requests of others to be shed, however little the others send.
 */
const MIN_AGREEING = 21
/** Weights of each response in the averages of a cell. */
const OVERLOAD_WEIGHT = 1 / 4
const LATENCY_WEIGHT = 1 / 2
/** Weight of each tick in its requests in flight. */
const IN_FLIGHT_WEIGHT = 1 / 2
/** Overloads decay by this at each tick: they must not count forever when nothing is admitted to disprove them. */
const OVERLOAD_DECAY = 0.95
/** The demand is an average of about so long. */
const DEMAND_MS = 2_000
/** Cells unused for so many ticks (a minute) do not count. */
const MEMORY_TICKS = 240

type Cell = ReturnType<typeof createCell>

function createCell() {
  return {
    inFlight: 0,
    /** Time in flight in this tick, up to `countedMs`, summed over requests. */
    busyMs: 0,
    countedMs: 0,
    /** Recent average of requests in flight; undefined in the first tick. */
    usualInFlight: undefined as number | undefined,
    overloadShare: 0,
    latencyMs: undefined as number | undefined,
    /** The last response, or the first request since there was none in flight. */
    silentSinceMs: 0,
    seenTick: Number.NEGATIVE_INFINITY,
  }
}

/**
 * Watches the upstream as this isolate sees it, and decides which requests to shed.
 *
 * Load signals are counted in a fixed number of cells. A network counts in the cell that its hash names, and signals are
 * the median of the cells: moving it takes networks in half of them, however much each sends.
 */
export class UpstreamHealth {
  /** Begins at 0. */
  readonly #now: () => number
  readonly #level = new ShedLevel()
  /** Fraction of a request that is still to be shed, by priority, so that shares do not depend on chance. */
  readonly #carry: Record<Priority, number> = { critical: 0, default: 0, sheddable: 0 }
  readonly #cells: readonly Cell[] = Array.from({ length: CELLS }, createCell)
  /** Drawn with the first request: Workers have no randomness while they start. */
  #seed: number | undefined
  readonly #drawSeed: () => number
  #tick = 0
  #tickStartMs = 0
  /** Answers of this tick, and those of them that signalled overload. */
  #answers = 0
  #overloads = 0
  /** Requests that limits admit, shed or not: those of this tick, and in a second. */
  #received = 0
  #demand = 0

  /**
   * @param now milliseconds of a clock that is never set ahead
   * @param drawSeed draws a secret of 53 bits: nobody can choose networks so that each is in a cell of its own
   */
  constructor(now: () => number, drawSeed: () => number = drawNumber) {
    this.#now = createSteadyClock(now)
    this.#drawSeed = drawSeed
  }

  /** 0 (nothing is shed) to 2 (everything but critical). */
  get level(): number {
    return this.#level.level
  }

  /** @returns true if the next request of this priority is to be shed */
  sheds(priority: Priority): boolean {
    this.#advance()
    const carry = this.#carry[priority] + this.#level.findShare(priority)
    const isShed = carry >= 1
    this.#carry[priority] = isShed ? carry - 1 : carry
    if (isShed) this.#received++
    return isShed
  }

  /**
   * Records a request to the upstream.
   * @param caller something that a caller cannot change at will, such as its address
   * @returns a function to call once, when the response has begun or failed
   */
  begin(caller: string): (isOverload: boolean) => void {
    const startMs = this.#advance()
    this.#seed ??= this.#drawSeed()
    const cell = this.#cells[hashText(readNetwork(caller), this.#seed) % CELLS] as Cell
    count(cell, startMs)
    if (cell.inFlight++ === 0) cell.silentSinceMs = startMs
    this.#received++
    cell.seenTick = this.#tick
    return (isOverload) => {
      const endMs = this.#advance()
      count(cell, endMs)
      cell.inFlight--
      cell.silentSinceMs = endMs
      cell.seenTick = this.#tick
      cell.overloadShare = updateAverage(cell.overloadShare, Number(isOverload), OVERLOAD_WEIGHT)
      cell.latencyMs = updateAverage(cell.latencyMs, endMs - startMs, LATENCY_WEIGHT)
      this.#answers++
      if (isOverload) this.#overloads++
    }
  }

  #advance(): number {
    const nowMs = this.#now()
    const dueMs = this.#tickStartMs + TICK_MS
    if (nowMs >= dueMs) this.#level.adapt(this.#endTick(nowMs), dueMs, nowMs)
    return nowMs
  }

  #endTick(nowMs: number): LoadSignals {
    this.#tick++
    const tickMs = Math.max(1, nowMs - this.#tickStartMs)
    this.#tickStartMs = nowMs
    const isKnown = ({ inFlight, seenTick }: Cell) => inFlight > 0 || this.#tick - seenTick <= MEMORY_TICKS
    const known = this.#cells.filter(isKnown)
    for (const cell of known) {
      count(cell, nowMs)
      cell.usualInFlight = updateAverage(cell.usualInFlight, cell.busyMs / tickMs, IN_FLIGHT_WEIGHT)
      cell.busyMs = 0
      cell.overloadShare *= OVERLOAD_DECAY
    }
    // An overload that no response signals any more is over, even if the cells remember it.
    const latestShare = this.#overloads / Math.max(1, this.#answers)
    this.#answers = 0
    this.#overloads = 0
    this.#demand = updateAverage(this.#demand, (this.#received * 1_000) / tickMs, 1 - Math.exp(-tickMs / DEMAND_MS))
    this.#received = 0
    return {
      total: known.reduce((sum, { inFlight }) => sum + inFlight, 0),
      inFlight: (findMedian(known.map(({ usualInFlight = 0 }) => usualInFlight)) ?? 0) * known.length,
      overloadShare: Math.min(latestShare, findMedian(known.map(({ overloadShare }) => overloadShare)) ?? 0),
      latencyMs: findMedian(known.flatMap(({ latencyMs }) => latencyMs ?? [])),
      silentMs: findMedian(known.map(({ inFlight, silentSinceMs }) => inFlight && nowMs - silentSinceMs)) ?? 0,
      demand: this.#demand,
    }
  }
}

function count(cell: Cell, nowMs: number): void {
  cell.busyMs += cell.inFlight * (nowMs - cell.countedMs)
  cell.countedMs = nowMs
}

/** The median, or less: at least `MIN_AGREEING` are as great. @returns undefined if there are fewer */
function findMedian(values: readonly number[]): number | undefined {
  return values.toSorted((a, b) => a - b)[Math.min((values.length - 1) >> 1, values.length - MIN_AGREEING)]
}

/** Keeps the first 48 bits of an IPv6 network: a site may have as many /64 as it likes. */
function readNetwork(caller: string): string {
  return caller.split(':', 3).join(':')
}
