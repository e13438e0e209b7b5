/**
 * Twin of `lua/concurrency.lua`: units held at once, each until its holder gives it back or its deadline has passed.
 *
 * A network reorders: who got no answer to an admission, and so gives back what it may have taken, can overtake it. The
 * release then leaves a mark, and the admission finds its place taken and holds nothing. That costs an ordinary
 * admission and an ordinary release no command more. An admission that carries the time until which it is good would
 * cost none either, but would need a clock that isolates and Redis share.
 */
import type { Rule } from '../store/store.ts'
import type { Algorithm } from './algorithm.ts'
import { onlyTier, tierUsage, toPeek } from './tier-usage.ts'

interface Held {
  readonly units: number
  /** For a mark, which nobody holds: minus the moment until which it stands. */
  readonly deadlineMs: number
}

/** How long a call that takes slots may be on its way. */
const LONGEST_WAY_MS = 60_000

/** By slot: the number under which a request holds its units. */
export type ConcurrencyState = Map<number, Held>

export const concurrency: Algorithm<ConcurrencyState> = {
  peek(state = new Map(), rule, nowUs, wanted) {
    const nowMs = Math.floor(nowUs / 1000)
    const { limit, windowMs } = onlyTier(rule)
    const held = [...state.values()].filter(({ deadlineMs }) => deadlineMs > nowMs)
    const used = held.reduce((sum, { units }) => sum + units, 0)
    const resetMs = used > 0 ? Math.min(...held.map(({ deadlineMs }) => deadlineMs)) - nowMs : windowMs
    const freedAfterMs = (units: number) => deadlineOf(held, units) - nowMs
    return toPeek([tierUsage({ limit, windowMs, used, resetMs, freedAfterMs }, wanted)])
  },

  commit(state = new Map(), rule, nowUs, units) {
    const nowMs = Math.floor(nowUs / 1000)
    const { windowMs } = onlyTier(rule)
    const slot = slotOf(rule)
    if (!state.has(slot)) state.set(slot, { units, deadlineMs: nowMs + windowMs })
    removePast(state, nowMs)
    return { state, ttlMs: lifetimeMs(windowMs) }
  },
}

/** Gives back what a slot holds, if it still does. */
export function releaseSlot(state: ConcurrencyState, slot: number): void {
  state.delete(slot)
}

/** As if never taken, whether it was or is about to be. The state must then live `lifetimeMs` at least. */
export function revokeSlot(state: ConcurrencyState, slot: number, nowMs: number): void {
  state.set(slot, { units: 0, deadlineMs: -(nowMs + LONGEST_WAY_MS) })
  removePast(state, nowMs)
}

/** How long a state lives that was just changed. */
export function lifetimeMs(windowMs: number): number {
  return Math.max(windowMs, LONGEST_WAY_MS)
}

/** Moves the deadline of a slot that is still held. The state must then live until `deadlineMs` at least. */
export function renewSlot(state: ConcurrencyState, slot: number, deadlineMs: number): void {
  const held = state.get(slot)
  if (held) state.set(slot, { ...held, deadlineMs })
}

function removePast(state: ConcurrencyState, nowMs: number): void {
  for (const [slot, { deadlineMs }] of state) {
    if (Math.abs(deadlineMs) <= nowMs) state.delete(slot)
  }
}

function slotOf({ slot }: Rule): number {
  if (slot === undefined) throw new Error('a limit on concurrency needs a slot to hold')
  return slot
}

/** The moment by which so many units have passed their deadlines. */
function deadlineOf(held: readonly Held[], units: number): number {
  let freed = 0
  for (const { units: count, deadlineMs } of held.toSorted((a, b) => a.deadlineMs - b.deadlineMs)) {
    freed += count
    if (freed >= units) return deadlineMs
  }
  return Number.POSITIVE_INFINITY
}
