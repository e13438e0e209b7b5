/**
 * How much of the traffic to refuse for the upstream's sake, as a pure function of what was observed of it.
 *
 * The level goes from 0 (nothing is shed) over 1 (all that is sheddable) to 2 (all but what is critical). Signs of a
 * queue at the upstream raise it, by steps that grow while the queue does; only after a while of health does it fall,
 * slowly, and each time that a fall brings the queue back, the next one waits twice as long. So it comes to rest just
 * above what the upstream can bear, instead of swinging around it.
 */
import type { Priority } from '../policy/priority.ts'

export type Observation =
  /** A request goes to the upstream. */
  | { readonly kind: 'begin' }
  /** Its answer has begun; `isOverload` for 503 or 429 with Retry-After, 502 and 504. */
  | { readonly kind: 'end'; readonly latencyMs: number; readonly isOverload: boolean }

interface Tick {
  readonly endsAtMs: number
  readonly answers: number
  readonly overloads: number
  readonly latencyMs: number
}

export interface ShedState {
  /** 0 to 2. */
  readonly level: number
  readonly inFlight: number
  /** What is usual while the upstream is well; undefined until the first tick. */
  readonly baseline: { readonly latencyMs: number; readonly inFlight: number } | undefined
  readonly tick: Tick
  /** In-flight requests at the last tick's end. */
  readonly lastInFlight: number
  /** Ticks under pressure in a row. */
  readonly pressedTicks: number
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
/** A queue: answers take this many times as long as usual, and as many more of them are awaited. */
const QUEUE_RATIO = 2
/** So many times the usual in flight, with or without answers, is a queue as well: the upstream may be hanging. */
const HANGING_RATIO = 5
/** Below this many in flight, ratios say nothing. */
const FEW_IN_FLIGHT = 8
const OVERLOAD_SHARE = 0.02
/** How fast what is usual follows what is seen. */
const BASELINE_WEIGHT = 0.05

export function initialShedState(nowMs: number): ShedState {
  return {
    level: 0,
    inFlight: 0,
    baseline: undefined,
    tick: emptyTick(nowMs),
    lastInFlight: 0,
    pressedTicks: 0,
    wellSinceMs: nowMs,
    holdMs: FIRST_HOLD_MS,
  }
}

/**
 * Lets time go by. It must also while every request is shed: nothing else would let them in again.
 * @param nowMs never less than before
 */
export function advance(state: ShedState, nowMs: number): ShedState {
  return nowMs >= state.tick.endsAtMs ? endTick(state, nowMs) : state
}

/** @param nowMs never less than before */
export function observe(before: ShedState, observation: Observation, nowMs: number): ShedState {
  const state = advance(before, nowMs)
  if (observation.kind === 'begin') return { ...state, inFlight: state.inFlight + 1 }
  const { answers, overloads, latencyMs, endsAtMs } = state.tick
  const tick = {
    endsAtMs,
    answers: answers + 1,
    overloads: overloads + (observation.isOverload ? 1 : 0),
    latencyMs: latencyMs + observation.latencyMs,
  }
  return { ...state, inFlight: Math.max(0, state.inFlight - 1), tick }
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

function emptyTick(nowMs: number): Tick {
  return { endsAtMs: nowMs + TICK_MS, answers: 0, overloads: 0, latencyMs: 0 }
}

function endTick(state: ShedState, nowMs: number): ShedState {
  const next = { ...state, tick: emptyTick(nowMs), lastInFlight: state.inFlight }
  return isPressed(state) ? raised(next, nowMs) : lowered(next, state.tick, nowMs)
}

function isPressed({ tick, inFlight, lastInFlight, baseline }: ShedState): boolean {
  if (tick.answers > 0 && tick.overloads / tick.answers > OVERLOAD_SHARE) return true
  if (!baseline || inFlight < FEW_IN_FLIGHT) return false
  // A queue that is shrinking already needs no more.
  if (inFlight < lastInFlight) return false
  const crowd = inFlight / Math.max(1, baseline.inFlight)
  const delay = tick.answers > 0 ? tick.latencyMs / tick.answers / Math.max(1, baseline.latencyMs) : 0
  return crowd > HANGING_RATIO || (crowd > QUEUE_RATIO && delay > QUEUE_RATIO)
}

function raised(state: ShedState, nowMs: number): ShedState {
  const { pressedTicks, level } = state
  const isBack = pressedTicks === 0 && level > 0 && level < 2
  return {
    ...state,
    level: Math.min(2, level + Math.min(STEP_UP_MOST, STEP_UP * 2 ** pressedTicks)),
    pressedTicks: pressedTicks + 1,
    wellSinceMs: nowMs,
    holdMs: isBack ? Math.min(LAST_HOLD_MS, state.holdMs * 2) : state.holdMs,
  }
}

function lowered(state: ShedState, { answers, latencyMs }: Tick, nowMs: number): ShedState {
  const isDue = nowMs - state.wellSinceMs >= state.holdMs
  const level = isDue ? Math.max(0, state.level - STEP_DOWN) : state.level
  return {
    ...state,
    level,
    pressedTicks: 0,
    holdMs: level === 0 ? FIRST_HOLD_MS : state.holdMs,
    // What is seen while requests are shed, or while a queue drains, is not what is usual.
    baseline: level === 0 && answers > 0 ? follow(state, latencyMs / answers) : state.baseline,
  }
}

function follow({ baseline, inFlight }: ShedState, latencyMs: number): NonNullable<ShedState['baseline']> {
  if (!baseline) return { latencyMs, inFlight }
  const towards = (usual: number, seen: number) => usual + (seen - usual) * BASELINE_WEIGHT
  return { latencyMs: towards(baseline.latencyMs, latencyMs), inFlight: towards(baseline.inFlight, inFlight) }
}
