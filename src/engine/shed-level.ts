/**
 * How much of the traffic to refuse to protect the upstream, as a pure function of what was observed.
 *
 * The level goes from 0 (nothing is shed) through 1 (all that is sheddable) to 2 (all but what is critical). Signs of a
 * queue at the upstream raise it, by steps that grow while the queue does; only after a while of health does it fall,
 * slowly, and each time that a fall brings the queue back, the next one waits twice as long. So it comes to rest just
 * above what the upstream can bear, instead of swinging around it.
 */
import type { Priority } from '../model/policy.ts'

/** What is seen of the upstream in one tick. */
export interface LoadSignals {
  /** Requests in flight by now. */
  readonly total: number
  /** On average, if all networks had as many as the median one. */
  readonly inFlight: number
  /** Share of the answers that tell of an overload, 0 to 1. */
  readonly overloadShare: number
  /** Undefined if there were too few answers to tell. */
  readonly latencyMs: number | undefined
}

export interface ShedState {
  /** 0 to 2. */
  readonly level: number
  /** What is usual while the upstream is well; undefined until it has been seen. */
  readonly baseline: { readonly latencyMs: number; readonly inFlight: number } | undefined
  readonly tickEndsAtMs: number
  /** In-flight requests at the last tick's end. */
  readonly lastTotal: number
  /** Ticks under pressure in a row. */
  readonly pressedTicks: number
  /** Ticks in a row in which the level fell. */
  readonly fallingTicks: number
  readonly wellSinceMs: number
  /** Milliseconds of health before the level falls. */
  readonly holdMs: number
}

const TICK_MS = 250
const FIRST_HOLD_MS = 5_000
const LAST_HOLD_MS = 80_000
const STEP_UP = 0.03
const STEP_UP_MOST = 0.1
const STEP_DOWN = 0.005
const STEP_DOWN_MOST = 0.04
/** How much longer each step down is than the one before it, until a fall has brought the queue back. */
const STEP_DOWN_GROWTH = 1.1
/** A queue: answers take this many times as long as usual, and as many more of them are awaited. */
const QUEUE_RATIO = 2
/** This many times the usual in flight, with or without answers, is a queue too: the upstream may be hanging. */
const HANGING_RATIO = 5
/** Below this many in flight, ratios say nothing. */
const FEW_IN_FLIGHT = 8
const OVERLOAD_SHARE = 0.02
/** How fast what is usual follows what is seen. */
const BASELINE_WEIGHT = 0.05

export function initialShedState(nowMs: number): ShedState {
  return {
    level: 0,
    baseline: undefined,
    tickEndsAtMs: nowMs + TICK_MS,
    lastTotal: 0,
    pressedTicks: 0,
    fallingTicks: 0,
    wellSinceMs: nowMs,
    holdMs: FIRST_HOLD_MS,
  }
}

/**
 * Lets time pass. This is needed even while every request is shed: nothing else would let them in again.
 * @param seen gives the signs since it was last asked; asked once a tick
 * @param nowMs never less than before
 */
export function advance(state: ShedState, seen: { take(nowMs: number): LoadSignals }, nowMs: number): ShedState {
  if (nowMs < state.tickEndsAtMs) return state
  const signs = seen.take(nowMs)
  const next = { ...state, tickEndsAtMs: nowMs + TICK_MS, lastTotal: signs.total }
  return isPressed(state, signs) ? raise(next, nowMs) : lower(next, signs, nowMs)
}

/** Share of a class's requests to refuse, 0 to 1. */
export function shedShare({ level }: ShedState, priority: Priority): number {
  switch (priority) {
    case 'critical':
      return 0
    case 'default':
      return Math.max(0, level - 1)
    case 'sheddable':
      return Math.min(1, level)
  }
}

function isPressed(
  { lastTotal, baseline }: ShedState,
  { overloadShare, total, inFlight, latencyMs = 0 }: LoadSignals,
): boolean {
  if (overloadShare > OVERLOAD_SHARE) return true
  if (!baseline || inFlight < FEW_IN_FLIGHT) return false
  // A queue that is shrinking already needs no more.
  if (total < lastTotal) return false
  const crowd = inFlight / Math.max(1, baseline.inFlight)
  const delay = latencyMs / Math.max(1, baseline.latencyMs)
  return crowd > HANGING_RATIO || (crowd > QUEUE_RATIO && delay > QUEUE_RATIO)
}

function raise(state: ShedState, nowMs: number): ShedState {
  const { pressedTicks, fallingTicks, level } = state
  const isBack = fallingTicks > 0 && level > 0
  return {
    ...state,
    level: Math.min(2, level + Math.min(STEP_UP_MOST, STEP_UP * 2 ** pressedTicks)),
    pressedTicks: pressedTicks + 1,
    fallingTicks: 0,
    wellSinceMs: nowMs,
    holdMs: isBack ? Math.min(LAST_HOLD_MS, state.holdMs * 2) : state.holdMs,
  }
}

function lower(state: ShedState, { inFlight, latencyMs }: LoadSignals, nowMs: number): ShedState {
  const isDue = nowMs - state.wellSinceMs >= state.holdMs
  const { fallingTicks, holdMs } = state
  // Once a fall has brought the queue back, the next ones feel their way.
  const growth = holdMs === FIRST_HOLD_MS ? STEP_DOWN_GROWTH : 1
  const step = Math.min(STEP_DOWN_MOST, STEP_DOWN * growth ** fallingTicks)
  const level = isDue ? Math.max(0, state.level - step) : state.level
  return {
    ...state,
    level,
    pressedTicks: 0,
    fallingTicks: isDue ? fallingTicks + 1 : 0,
    holdMs: level === 0 ? FIRST_HOLD_MS : state.holdMs,
    // What is seen while requests are shed, or while a queue drains, is not what is usual.
    baseline: level === 0 && latencyMs !== undefined ? follow(state.baseline, latencyMs, inFlight) : state.baseline,
  }
}

type Baseline = NonNullable<ShedState['baseline']>

function follow(baseline: Baseline | undefined, latencyMs: number, inFlight: number): Baseline {
  if (!baseline) return { latencyMs, inFlight }
  const towards = (usual: number, seen: number) => usual + (seen - usual) * BASELINE_WEIGHT
  return { latencyMs: towards(baseline.latencyMs, latencyMs), inFlight: towards(baseline.inFlight, inFlight) }
}
