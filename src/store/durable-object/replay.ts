import type { Commit, Penalty } from '../../algorithms/algorithm.ts'
import { ALGORITHMS } from '../../algorithms/algorithm-table.ts'
import type { Rule } from '../../model/charge.ts'
import type { Open } from './book.ts'
import { recordUndo } from './undo.ts'

/** A state, and until when it lives. */
export interface Kept {
  /** Undefined: never charged, or all of it has run out. */
  readonly state: unknown
  readonly expiresAtMs: number
  /** Units that its last charge has cost besides, as long as anything of it stays. */
  readonly forfeited?: number
}

/** What has happened to a state, so that it can be told what it were without one of its charges. */
export interface Replay {
  base: Kept
  steps: Step[]
}

export interface Step {
  /** Of the decision that it may be taken back with; 0 if it stays. */
  readonly id: number
  readonly nowUs: number
  readonly units: number
  /** How long the units may still be spent. */
  readonly leaseMs?: number
  readonly rule: Pick<Rule, 'algorithm' | 'tiers' | 'burst'>
  /** There if it corrects a charge of that moment. */
  readonly chargedAtMs?: number
  /** There if it remembers a refusal. */
  readonly penalty?: Penalty
}

/** Steps that are remembered at most. What is open longer is taken back by what its charge has left in the base. */
export const MOST_STEPS = 64

export const NOTHING: Kept = { state: undefined, expiresAtMs: 0 }

export function stateAt({ state, expiresAtMs }: Kept, nowMs: number): unknown {
  return expiresAtMs >= nowMs ? state : undefined
}

export function keep({ state, ttlMs, forfeited }: Commit<unknown>, before: Kept, nowMs: number): Kept {
  const expiresAtMs = ttlMs === undefined ? before.expiresAtMs : nowMs + ttlMs
  return { state, expiresAtMs, ...(forfeited && { forfeited }) }
}

export function apply(kept: Kept, { nowUs, units, leaseMs, rule, chargedAtMs, penalty }: Step): Kept {
  const nowMs = Math.floor(nowUs / 1000)
  const { twin } = ALGORITHMS[rule.algorithm]
  const state = stateAt(kept, nowMs)
  const whole = rule as Rule
  if (chargedAtMs === undefined) {
    if (units === 0 && !penalty) return kept
    return keep(twin.commit(state, whole, nowUs, units, leaseMs, penalty), kept, nowMs)
  }
  const settled = state === undefined ? undefined : twin.settle?.(state, whole, nowUs, chargedAtMs, units)
  return settled ? keep(settled, kept, nowMs) : kept
}

/** Forgets the steps that nothing can take back any more, and of the others the oldest beyond so many. */
export function compact(replay: Replay, opens: ReadonlyMap<number, Open>, mostSteps: number): void {
  const { steps } = replay
  const first = steps.findIndex(({ id }) => opens.has(id))
  const gone = first < 0 ? steps.length : Math.max(first, steps.length - mostSteps)
  for (const step of steps.splice(0, gone)) {
    const before = replay.base
    replay.base = apply(before, step)
    recordUndo(before, step, replay.base, opens)
  }
}
