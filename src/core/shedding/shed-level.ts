/**
 * Computes how much traffic to shed to protect the upstream, by load signals.
 *
 * The level goes from 0 (nothing is shed) through 1 (everything sheddable) to 2 (everything but critical). Signs of a
 * queue at the upstream raise it, by steps that grow while the queue does. It falls slowly, only after a time of health,
 * and each time that a fall brings the queue back, the next one waits twice as long, unless demand has halved since. So
 * it settles just above what the upstream can bear, instead of swinging around it.
 */
import type { Priority } from '../model/policy.ts'

/** Signals of the upstream in one tick. */
export interface LoadSignals {
  /** Requests in flight now. */
  readonly total: number
  /** Average requests in flight, as if all networks had as many as the median one. */
  readonly inFlight: number
  /** Share of the responses that signal an overload, 0 to 1. */
  readonly overloadShare: number
  /** Undefined if there were too few responses. */
  readonly latencyMs: number | undefined
  /** The median network has waited so long for any of its responses; 0 if it waits for none. */
  readonly silentMs: number
  /** Requests a second, those that are shed included. */
  readonly demand: number
}

/** Signals are read once in such a time. */
export const TICK_MS = 250
const FIRST_KEEP_MS = 5_000
const MAX_KEEP_MS = 80_000
const STEP_UP = 0.03
const MAX_STEP_UP = 0.1
const STEP_DOWN = 0.005
const MAX_STEP_DOWN = 0.04
/** Each step down is longer than the one before by this factor, until a fall brings the queue back. */
const STEP_DOWN_GROWTH = 1.1
/** A queue: latency and requests in flight are both this many times the usual. */
const QUEUE_RATIO = 2
/** The upstream hangs: this many times the usual are in flight, and no response comes for longer than they usually take. */
const HANGING_RATIO = 5
/** Below this many in flight, ratios mean nothing. */
const FEW_IN_FLIGHT = 8
const OVERLOAD_SHARE = 0.02
/** The demand is over that brought the queue if it is no more than this share of what it was. */
const RELIEF_SHARE = 0.5
/** Weight of a new observation in the baseline. */
const BASELINE_WEIGHT = 0.05

export class ShedLevel {
  /** 0 to 2. */
  level = 0
  /** The usual load while the upstream is healthy; undefined until it is known. */
  #usualInFlight: number | undefined
  #usualLatencyMs: number | undefined
  /** Requests in flight when the last tick ended. */
  #lastTotal = 0
  /** Ticks under pressure in a row. */
  #pressedTicks = 0
  /** Ticks in a row in which the level fell. */
  #fallingTicks = 0
  #wellSinceMs = 0
  /** Milliseconds of health before the level falls. */
  #keepMs = FIRST_KEEP_MS
  /** The demand when there was last pressure. */
  #pressedDemand = 0

  /** Share of the requests of a priority to shed, 0 to 1. */
  findShare(priority: Priority): number {
    const shares = { critical: 0, default: this.level - 1, sheddable: this.level }
    return Math.max(0, Math.min(1, shares[priority]))
  }

  /**
   * Adapts to the signals of a tick. This is needed even while every request is shed: nothing else would lower the level.
   * @param dueMs when the tick was due to end: between two requests, many may have passed
   * @param nowMs from 0, and never less than before
   */
  adapt(signals: LoadSignals, dueMs: number, nowMs: number): void {
    if (this.#isPressed(signals)) this.#raise(signals, nowMs)
    else this.#lower(signals, dueMs, nowMs)
    this.#lastTotal = signals.total
  }

  #isPressed({ overloadShare, total, inFlight, latencyMs = 0, silentMs }: LoadSignals): boolean {
    if (overloadShare > OVERLOAD_SHARE) return true
    if (this.#usualInFlight === undefined || this.#usualLatencyMs === undefined) return false
    if (inFlight < FEW_IN_FLIGHT) return false
    // A queue that shrinks already needs no more shedding.
    if (total < this.#lastTotal) return false
    const crowd = inFlight / Math.max(1, this.#usualInFlight)
    const longMs = QUEUE_RATIO * Math.max(1, this.#usualLatencyMs)
    return (crowd > HANGING_RATIO && silentMs > longMs) || (crowd > QUEUE_RATIO && latencyMs > longMs)
  }

  #raise({ demand }: LoadSignals, nowMs: number): void {
    // A fall has brought the queue back.
    if (this.#fallingTicks > 0 && this.level > 0) this.#keepMs = Math.min(MAX_KEEP_MS, this.#keepMs * 2)
    this.level = Math.min(2, this.level + Math.min(MAX_STEP_UP, STEP_UP * 2 ** this.#pressedTicks))
    this.#pressedTicks++
    this.#fallingTicks = 0
    this.#wellSinceMs = nowMs
    this.#pressedDemand = demand
  }

  #lower({ inFlight, latencyMs, demand }: LoadSignals, dueMs: number, nowMs: number): void {
    if (demand <= RELIEF_SHARE * this.#pressedDemand) this.#keepMs = FIRST_KEEP_MS
    // Once a fall has brought the queue back, the next steps down stay small.
    const growth = this.#keepMs === FIRST_KEEP_MS ? STEP_DOWN_GROWTH : 1
    const fallsAtMs = Math.max(dueMs, this.#wellSinceMs + this.#keepMs)
    for (let atMs = fallsAtMs; atMs <= nowMs && this.level > 0; atMs += TICK_MS) {
      this.level = Math.max(0, this.level - Math.min(MAX_STEP_DOWN, STEP_DOWN * growth ** this.#fallingTicks))
      this.#fallingTicks++
    }
    this.#pressedTicks = 0
    // Load while requests are shed, or while a queue drains, is not usual.
    if (this.level > 0) return
    this.#keepMs = FIRST_KEEP_MS
    if (latencyMs === undefined) return
    this.#usualInFlight = updateAverage(this.#usualInFlight, inFlight, BASELINE_WEIGHT)
    this.#usualLatencyMs = updateAverage(this.#usualLatencyMs, latencyMs, BASELINE_WEIGHT)
  }
}

/** @param average undefined before the first value */
export function updateAverage(average: number | undefined, value: number, weight: number): number {
  return average === undefined ? value : average + (value - average) * weight
}
