/**
 * Computes how much traffic to shed to protect the upstream, as a pure function of load signals.
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
  /** For how long the median network has waited for any of its responses; 0 if it waits for none. */
  readonly silentMs: number
  /** Requests a second, those that are shed included. */
  readonly demand: number
}

export type ShedState = Readonly<ReturnType<typeof createShedState>>

const TICK_MS = 250
const FIRST_HOLD_MS = 5_000
const MAX_HOLD_MS = 80_000
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

export function createShedState(nowMs: number) {
  return {
    /** 0 to 2. */
    level: 0,
    /** The usual load while the upstream is healthy; undefined until it is known. */
    baseline: undefined as Baseline | undefined,
    tickEndsAtMs: nowMs + TICK_MS,
    /** Requests in flight when the last tick ended. */
    lastTotal: 0,
    /** Ticks under pressure in a row. */
    pressedTicks: 0,
    /** Ticks in a row in which the level fell. */
    fallingTicks: 0,
    wellSinceMs: nowMs,
    /** Milliseconds of health before the level falls. */
    holdMs: FIRST_HOLD_MS,
    /** The demand when there was last pressure. */
    pressedDemand: 0,
  }
}

/**
 * Advances the state to now. This is needed even while every request is shed: nothing else would lower the level.
 * @param endTick returns the signals of the tick; it is called once a tick
 * @param nowMs never less than before
 */
export function advance(state: ShedState, endTick: () => LoadSignals, nowMs: number): ShedState {
  if (nowMs < state.tickEndsAtMs) return state
  const signals = endTick()
  const next = isPressed(state, signals) ? raise(state, signals, nowMs) : lower(state, signals, nowMs)
  return { ...next, tickEndsAtMs: nowMs + TICK_MS, lastTotal: signals.total }
}

/** Share of the requests of a priority to shed, 0 to 1. */
export function findShedShare({ level }: ShedState, priority: Priority): number {
  const shares = { critical: 0, default: level - 1, sheddable: level }
  return Math.max(0, Math.min(1, shares[priority]))
}

function isPressed(
  { lastTotal, baseline }: ShedState,
  { overloadShare, total, inFlight, latencyMs = 0, silentMs }: LoadSignals,
): boolean {
  if (overloadShare > OVERLOAD_SHARE) return true
  if (!baseline || inFlight < FEW_IN_FLIGHT) return false
  // A queue that shrinks already needs no more shedding.
  if (total < lastTotal) return false
  const crowd = inFlight / Math.max(1, baseline.inFlight)
  const longMs = QUEUE_RATIO * Math.max(1, baseline.latencyMs)
  return (crowd > HANGING_RATIO && silentMs > longMs) || (crowd > QUEUE_RATIO && latencyMs > longMs)
}

function raise(state: ShedState, { demand }: LoadSignals, nowMs: number): ShedState {
  const { pressedTicks, fallingTicks, level } = state
  const isBack = fallingTicks > 0 && level > 0
  return {
    ...state,
    level: Math.min(2, level + Math.min(MAX_STEP_UP, STEP_UP * 2 ** pressedTicks)),
    pressedTicks: pressedTicks + 1,
    fallingTicks: 0,
    wellSinceMs: nowMs,
    holdMs: isBack ? Math.min(MAX_HOLD_MS, state.holdMs * 2) : state.holdMs,
    pressedDemand: demand,
  }
}

function lower(state: ShedState, { inFlight, latencyMs, demand }: LoadSignals, nowMs: number): ShedState {
  const { wellSinceMs, tickEndsAtMs, pressedDemand } = state
  const holdMs = demand <= RELIEF_SHARE * pressedDemand ? FIRST_HOLD_MS : state.holdMs
  // Once a fall has brought the queue back, the next steps down stay small.
  const growth = holdMs === FIRST_HOLD_MS ? STEP_DOWN_GROWTH : 1
  let { level, fallingTicks } = state
  // Between two requests, many ticks may have passed.
  for (let atMs = Math.max(tickEndsAtMs, wellSinceMs + holdMs); atMs <= nowMs && level > 0; atMs += TICK_MS) {
    level = Math.max(0, level - Math.min(MAX_STEP_DOWN, STEP_DOWN * growth ** fallingTicks))
    fallingTicks++
  }
  return {
    ...state,
    level,
    pressedTicks: 0,
    fallingTicks,
    holdMs: level === 0 ? FIRST_HOLD_MS : holdMs,
    // Load while requests are shed, or while a queue drains, is not usual.
    baseline: level === 0 && latencyMs !== undefined ? follow(state.baseline, latencyMs, inFlight) : state.baseline,
  }
}

type Baseline = Pick<LoadSignals, 'inFlight'> & { readonly latencyMs: number }

function follow(baseline: Baseline | undefined, latencyMs: number, inFlight: number): Baseline {
  if (!baseline) return { latencyMs, inFlight }
  const towards = (usual: number, seen: number) => usual + (seen - usual) * BASELINE_WEIGHT
  return { latencyMs: towards(baseline.latencyMs, latencyMs), inFlight: towards(baseline.inFlight, inFlight) }
}
