/**
 * Same as `lua/concurrency.lua`: units held at once, each until its holder releases it or its deadline has passed.
 *
 * Networks reorder. An isolate that gets no answer to an admission revokes its slot, and that call may arrive first. It
 * then leaves a mark, so that the admission finds its slot number used and holds nothing. Ordinary admissions and releases
 * need no extra command for this. An expiry time in each admission would need none either, but it would need a clock that
 * isolates and Redis share.
 */

import type { Algorithm, Commit } from './algorithm.ts'
import { createLimitState, getOnlyLimit } from './algorithm.ts'

export interface HeldSlot {
  readonly units: number
  /** A mark, which holds nothing, has the negative timestamp of its end. */
  readonly deadlineMs: number
}

/** A call that takes slots may be on its way for so long. */
const LONGEST_WAY_MS = 60_000

export interface ConcurrencyState {
  /** Keys are slot numbers. */
  readonly slots: Map<number, HeldSlot>
  /** Later than all deadlines and marks. */
  expiresAtMs: number
}

export const concurrency: Algorithm<ConcurrencyState> = {
  peek(state = createEmptyState(), charge, nowUs, wanted) {
    const nowMs = Math.floor(nowUs / 1000)
    const { limit, windowMs } = getOnlyLimit(charge)
    const held = [...state.slots.values()].filter(({ deadlineMs }) => deadlineMs > nowMs)
    const used = held.reduce((sum, { units }) => sum + units, 0)
    const resetMs = used > 0 ? Math.min(...held.map(({ deadlineMs }) => deadlineMs)) - nowMs : windowMs
    const freedAfterMs = (units: number) => findDeadlineMs(held, units) - nowMs
    return { usage: [createLimitState({ limit, windowMs, used, resetMs, freedAfterMs }, wanted)] }
  },

  commit(state = createEmptyState(), charge, nowUs, units) {
    const nowMs = Math.floor(nowUs / 1000)
    const { windowMs } = getOnlyLimit(charge)
    const { slot = 0 } = charge
    if (!state.slots.has(slot)) state.slots.set(slot, { units, deadlineMs: nowMs + windowMs })
    removePast(state, nowMs)
    return keep(state, nowMs, windowMs)
  },

  slots: { release: releaseSlot, revoke: revokeSlot, renew: renewSlot },
}

export function releaseSlot(state: ConcurrencyState | undefined, slot: number): Commit<ConcurrencyState> | undefined {
  if (!state?.slots.delete(slot)) return undefined
  // Redis has no empty sets.
  if (state.slots.size === 0) state.expiresAtMs = 0
  return { state }
}

function revokeSlot(
  state: ConcurrencyState = createEmptyState(),
  slot: number,
  nowMs: number,
): Commit<ConcurrencyState> {
  state.slots.set(slot, { units: 0, deadlineMs: -(nowMs + LONGEST_WAY_MS) })
  removePast(state, nowMs)
  return keep(state, nowMs, LONGEST_WAY_MS)
}

/** The time for which a slot may be held, or be taken late, unless it is renewed. */
export function findLifetimeMs(windowMs: number): number {
  return Math.max(windowMs, LONGEST_WAY_MS)
}

function renewSlot(
  state: ConcurrencyState | undefined,
  slot: number,
  nowMs: number,
  windowMs: number,
): Commit<ConcurrencyState> | undefined {
  if (!state) return undefined
  const held = state.slots.get(slot)
  if (held) state.slots.set(slot, { ...held, deadlineMs: nowMs + windowMs })
  return keep(state, nowMs, windowMs)
}

function createEmptyState(): ConcurrencyState {
  return { slots: new Map(), expiresAtMs: 0 }
}

/** Makes the state live for at least this long. Twice that saves most later calls from setting it again. */
function keep(state: ConcurrencyState, nowMs: number, lastsMs: number): Commit<ConcurrencyState> {
  if (state.slots.size === 0 || state.expiresAtMs - nowMs >= lastsMs) return { state }
  state.expiresAtMs = nowMs + 2 * lastsMs
  return { state, ttlMs: 2 * lastsMs }
}

function removePast(state: ConcurrencyState, nowMs: number): void {
  for (const [slot, { deadlineMs }] of state.slots) {
    if (Math.abs(deadlineMs) <= nowMs) state.slots.delete(slot)
  }
}

/** The time when the deadlines of this many units have passed. */
function findDeadlineMs(held: readonly HeldSlot[], units: number): number {
  let freed = 0
  for (const { units: count, deadlineMs } of held.toSorted((a, b) => a.deadlineMs - b.deadlineMs)) {
    freed += count
    if (freed >= units) return deadlineMs
  }
  return Number.POSITIVE_INFINITY
}
